//! Programs that run under limits of their own.

use smc_attacks::Limits;

use crate::world;

/// `ulimit -f 100`: the kernel would end a program that makes a memory file of a DMB's length.
//= SHM-050 test
#[test]
fn a_program_with_small_files_lives_and_is_on_tcp() {
    let Some(world) = world() else { return };
    let limits = Limits {
        file: Some(100 << 10),
        ..Limits::default()
    };
    let names_limit = |carrier: &str| {
        assert!(
            carrier.starts_with("TCP") && carrier.contains("RLIMIT_FSIZE"),
            "{carrier}"
        );
    };
    let (mut victim, address) = world.victim(limits);
    let report = world.finish(world.honest(&address, 2));
    assert!(report.smc == 0 && report.tcp > 0, "{report:?}");
    names_limit(&victim.ask("why", "why"));

    // As a client likewise.
    let (_server, address) = world.victim(Limits::default());
    let mut client = world.start(world.honest_uid(), limits, "client", &[&address]);
    names_limit(&client.line("connected"));
    names_limit(&client.ask("check", "checked"));
    assert!(victim.is_alive() && client.is_alive());
}
