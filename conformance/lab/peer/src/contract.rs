//! The contract of adapters, with the RNICs that a guest has.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smc_contract::{HostRnic, rnics, rules};

/// Rules that soft-RoCE is known to break: it repeats for ever what is not answered.
const KNOWN: [&str; 1] = ["no_peer_answers"];

/// Holds each RNIC to each rule, and prints each on a line.
pub(crate) fn hold() -> io::Result<()> {
    // A broken rule is printed where the rules are printed.
    std::panic::set_hook(Box::new(|panic| println!("{panic}")));
    let mut broken = Vec::new();
    for rnic in rnics().map_err(io::Error::other)? {
        broken.extend(of(&rnic));
    }
    match broken.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other(format!("broken: {}", broken.join(", ")))),
    }
}

/// The rules that an RNIC breaks.
fn of(rnic: &HostRnic) -> Vec<&'static str> {
    let mut broken = Vec::new();
    let make = || match rnic.open() {
        Ok(bindings) => bindings,
        Err(why) => panic!("{why}"),
    };
    for (name, rule) in rules() {
        let held = catch_unwind(AssertUnwindSafe(|| rule(&make)));
        let known = KNOWN.contains(&name);
        let verdict = match (held.is_ok(), known) {
            (true, false) => "kept",
            (false, false) => "BROKEN",
            (false, true) => "known not to keep",
            (true, true) => "BROKEN, it is no longer known not to keep",
        };
        println!("{} {verdict} {name}", rnic.name);
        if held.is_ok() == known {
            broken.push(name);
        }
    }
    broken
}
