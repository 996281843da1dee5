//! The contract, and all adapters that are held to it.

use smc_contract::{Adapters, rules};

/// Holds what is made to every rule, and reports which one it breaks.
fn holds<A: Adapters>(what: &str, make: &dyn Fn() -> A) {
    for (name, rule) in rules() {
        eprintln!("{what}: {name}");
        rule(make);
    }
}

#[test]
fn the_simulator_keeps_the_contract() {
    for seed in 0..20 {
        holds("simulator", &|| smc_contract::Simulated::new(seed));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn rnics_in_software_keep_the_contract() {
    use smc_contract::{Bindings, Made};
    use smc_transport_verbs::soft::Fabric;

    for inline in [0, 64, 4096] {
        holds("software", &|| {
            let fabric = Fabric::default();
            Bindings::new(Made {
                rnics: [fabric.rnic(inline), fabric.rnic(inline)],
                gid: Default::default(),
                fabric: Some(fabric),
            })
        });
    }
}

/// RNICs of this machine that have an IPv4 GID. The laboratory holds those of its guests to
/// the contract; a test run without any has nothing to show here, and counts it as ignored.
#[cfg(all(target_os = "linux", feature = "rdma"))]
#[test]
#[ignore = "needs an RNIC with an IPv4 GID"]
fn rnics_of_this_machine_keep_the_contract() {
    let rnics = smc_contract::rnics().expect("RNICs");
    assert!(!rnics.is_empty(), "no RNIC has an IPv4 GID");
    for rnic in rnics {
        holds(&rnic.name, &|| rnic.open().unwrap());
    }
}
