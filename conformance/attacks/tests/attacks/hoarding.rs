//! Memory that an attacker keeps mapped for ever behind the end of its connections.

use std::time::Duration;

use smc_attacks::{LAG, Limits};

use crate::world;

/// More connections than the victim has memory for, a mebibyte each.
const CONNECTIONS: &str = "144";
const LIMITS: Limits = Limits {
    descriptors: None,
    file: None,
    memory: Some(120 << 20),
};

//= SHM-051 test
#[test]
fn memory_of_closed_connections_is_not_charged_to_the_victim() {
    for end in ["close", "abort"] {
        let Some(world) = world() else { return };
        let (mut victim, address) = world.victim(LIMITS);
        let _ = world.finish(world.honest(&address, 1));
        std::thread::sleep(Duration::from_millis(300));
        let before = victim.possessions();

        let honest = world.honest(&address, 1);
        let mut attacker = world.attacker("hoarder", &[&address, CONNECTIONS, end]);
        attacker.line("done");
        let report = world.finish(honest);
        // On a busy machine a few give up waiting for SMC.
        assert!(
            report.smc > 10 && report.tcp <= report.smc / 10,
            "{end}: {report:?}"
        );
        assert!(victim.is_alive(), "{end}");
        assert_eq!(victim.killed_for_memory(), 0, "{end}");
        // The attacker is still there, and so are the mappings of its channel: doorbells and CLC
        // messages, of each side.
        let mut allowed = before;
        allowed.descriptors += 1;
        allowed.dmb_mappings += 4;
        victim.returns_to(&allowed, LAG);
        attacker.kill();
        victim.returns_to(&before, LAG);
    }
}
