//! What in a valid policy has no effect, or one that may surprise.

use smc_sockets::Policy;
use smc_sockets::policy::{PortRange, Subnet, Transport, UseOption};

use super::lines::Line;

/// The notes, one sentence each.
pub(super) fn of(policy: &Policy, lines: &[Line]) -> Vec<String> {
    let has = |key: &str| lines.iter().any(|line| line.key == key);
    if !policy.enabled {
        let rest = lines.iter().any(|line| line.key != "enabled");
        let note = "enabled = false: no other line has an effect";
        return rest.then(|| note.to_owned()).into_iter().collect();
    }
    if policy.transports.is_empty() {
        return vec!["transports is empty: no other line has an effect".to_owned()];
    }
    let mut notes = Vec::new();
    if policy.permit.is_empty() {
        notes.push("permit is empty: every connection is TCP".to_owned());
    }
    if policy.listen_ports.is_empty() && policy.connect_ports.is_empty() {
        notes.push("listen-ports and connect-ports are empty: every connection is TCP".to_owned());
    }
    let verbs = policy.transports.contains(&Transport::Verbs);
    if !verbs {
        let of_rdma = ["ueids", "system-eid", "pnet"];
        for key in of_rdma.into_iter().filter(|key| has(key)) {
            notes.push(format!(
                "{key} has no effect without the transport \"verbs\""
            ));
        }
    }
    if policy.tcp_option == UseOption::Never && verbs && policy.assume_smc.is_empty() {
        notes.push(
            "tcp-option = \"never\" without assume-smc: no other host is asked for SMC, and \
             only shared memory remains"
                .to_owned(),
        );
    }
    covered(policy, &mut notes);
    assumed(policy, &mut notes);
    notes
}

/// Entries of `permit` that `exclude` takes back, and entries that are there twice.
fn covered(policy: &Policy, notes: &mut Vec<String>) {
    for of in &policy.permit {
        if let Some(by) = policy.exclude.iter().find(|by| is_within(of, by)) {
            notes.push(format!("permit: {of} has no effect, as exclude has {by}"));
        }
    }
    for (key, all) in [("permit", &policy.permit), ("exclude", &policy.exclude)] {
        for (at, of) in all.iter().enumerate() {
            let others = all.iter().enumerate().filter(|(other, _)| *other != at);
            let mut within = others.filter(|(other, by)| {
                // Of two that are equal, the second is too much.
                is_within(of, by) && (*by != of || *other < at)
            });
            if let Some((_, by)) = within.next() {
                notes.push(format!("{key}: {of} has no effect beside {by}"));
            }
        }
    }
}

/// Whether all addresses of a subnet are of another one.
fn is_within(inner: &Subnet, outer: &Subnet) -> bool {
    // Written as ADDRESS or ADDRESS/PREFIX, the shortest prefix holds the most.
    let prefix = |of: &Subnet| {
        let text = of.to_string();
        let (address, prefix) = text.split_once('/').unwrap_or((&text, "255"));
        let address = address.parse().ok()?;
        Some((address, prefix.parse::<u16>().ok()?))
    };
    match (prefix(inner), prefix(outer)) {
        (Some((address, inner)), Some((_, least))) => least <= inner && outer.holds(address),
        _ => false,
    }
}

/// Entries of `assume-smc` whose peers or ports may not be SMC.
fn assumed(policy: &Policy, notes: &mut Vec<String>) {
    for known in &policy.assume_smc {
        for of in &known.peers {
            if policy.exclude.iter().any(|by| is_within(of, by)) {
                notes.push(format!("assume-smc: {of} has no effect, as exclude has it"));
            } else if !policy.permit.iter().any(|by| is_within(of, by)) {
                notes.push(format!("assume-smc: permit does not have all of {of}"));
            }
        }
        let reachable = |port: u16| {
            let holds = |all: &[PortRange]| all.iter().any(|of| of.holds(port));
            holds(&policy.listen_ports) || holds(&policy.connect_ports)
        };
        let mut ports = (0..=u16::MAX).filter(|port| known.ports.iter().any(|of| of.holds(*port)));
        if let Some(port) = ports.find(|port| !reachable(*port)) {
            notes.push(format!(
                "assume-smc: neither listen-ports nor connect-ports has {port}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    /// Most keys, with nothing that surprises.
    const ALL: &str = r#"
enabled = true
listen-ports = [5000, "6000-6010"]
connect-ports = ["0-65535"]
permit = ["10.0.0.0/8", "fd00::/8"]
exclude = ["10.9.0.0/16", "192.0.2.1"]
transports = ["ism", "verbs"]
ueids = ["BLUE.FABRIC"]
tcp-option = "auto"
[[assume-smc]]
peers = ["10.1.0.0/24"]
ports = [5000]
"#;

    fn notes(text: &str) -> Vec<String> {
        let policy = Policy::parse(text).unwrap();
        of(&policy, &lines::of(text, &policy))
    }

    #[test]
    fn a_policy_without_surprises_has_no_note() {
        let none = Vec::<String>::new();
        assert_eq!(notes(""), none);
        assert_eq!(notes(ALL), none);
        assert_eq!(
            notes("permit = [\"10.0.0.0/8\"]\nexclude = [\"10.9.0.0/16\"]\n"),
            none
        );
    }

    #[test]
    fn what_has_no_effect_is_noted() {
        for (text, note) in [
            ("enabled = false\nueids = []\n", "no other line"),
            ("transports = []\n", "no other line"),
            ("permit = []\n", "every connection is TCP"),
            (
                "listen-ports = []\nconnect-ports = []\n",
                "every connection is TCP",
            ),
            (
                "transports = [\"ism\"]\nueids = [\"A\"]\n",
                "ueids has no effect",
            ),
            ("tcp-option = \"never\"\n", "only shared memory"),
            (
                "permit = [\"10.1.0.0/16\"]\nexclude = [\"10.0.0.0/8\"]\n",
                "permit: 10.1.0.0/16 has no effect, as exclude has 10.0.0.0/8",
            ),
            (
                "exclude = [\"10.0.0.1\", \"10.0.0.1\"]\n",
                "exclude: 10.0.0.1",
            ),
            (
                "permit = [\"10.0.0.0/8\"]\n[[assume-smc]]\npeers = [\"192.0.2.1\"]\nports = [1]\n",
                "permit does not have all of 192.0.2.1",
            ),
            (
                "listen-ports = [2]\nconnect-ports = [3]\n\
                 [[assume-smc]]\npeers = [\"192.0.2.1\"]\nports = [2, 3, 4]\n",
                "connect-ports has 4",
            ),
        ] {
            let found = notes(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(note), "{text}: {found:?}");
        }
    }
}
