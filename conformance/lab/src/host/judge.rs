//! Whether what both ends report is what was expected.

use crate::netlink::smc::Carried;
use crate::orders::{Held, LOCKED_MEMORY, Role, SMCX_WHY};
use crate::scenarios::{Expected, Scenario, reason};

/// The first difference, if there is one.
pub(crate) fn difference(
    scenario: &Scenario,
    expected: Expected,
    client: &[Held],
    server: &[Held],
) -> Option<String> {
    let (client_carried, server_carried) = match expected {
        Expected::Limited(role, code) => {
            return limited(role, code, client, server).or_else(|| bytes(client, server));
        }
        Expected::SmcR => (Some(Carried::SmcR), Some(Carried::SmcR)),
        Expected::Tcp(client, server) => {
            let tcp = |(reason, peer)| Carried::Tcp(reason, peer);
            (client.map(tcp), server.map(tcp))
        }
    };
    end("client", scenario, client, client_carried)
        .or_else(|| end("server", scenario, server, server_carried))
        .or_else(|| bytes(client, server))
}

/// Whether the end that did not die was notified by a reset.
pub(crate) fn death(dead: Role, client: &[Held], server: &[Held]) -> Option<String> {
    let (name, survivor) = match dead {
        Role::Client => ("server", server),
        Role::Server => ("client", client),
    };
    let difference = survivor.iter().find_map(|held| held.difference.as_ref());
    match difference {
        Some(difference) => Some(format!("{name}: {difference}")),
        None => survivor
            .is_empty()
            .then(|| format!("{name}: no connection")),
    }
}

/// Both transports there are, of which the ends report the same, and the end with the limit by
/// name.
fn limited(role: Role, code: u32, client: &[Held], server: &[Held]) -> Option<String> {
    let own = Carried::Tcp(code, 0);
    let peer = Carried::Tcp(reason::PEER_DECLINED, code);
    let (at_client, at_server) = match role {
        Role::Client => (own, peer),
        Role::Server => (peer, own),
    };
    let mut counts = Vec::new();
    for (name, all, tcp) in [("client", client, at_client), ("server", server, at_server)] {
        let (mut smc, mut fallen) = (0, 0);
        for (number, held) in all.iter().enumerate() {
            if let Some(difference) = &held.difference {
                return Some(format!("{name}, connection {number}: {difference}"));
            }
            match held.view.as_ref().map(|view| view.carried) {
                Some(Carried::SmcR) => smc += 1,
                Some(carried) if carried == tcp => fallen += 1,
                other => return Some(format!("{name}, connection {number}: {other:?}")),
            }
        }
        counts.push((smc, fallen));
    }
    let limited = match role {
        Role::Client => client,
        Role::Server => server,
    };
    let lines = limited.iter().flat_map(|held| &held.transcript);
    match counts.as_slice() {
        [one, other] if one != other => Some(format!("the ends differ: {one:?}, {other:?}")),
        [(0, _), _] => Some("no connection over SMC-R".to_owned()),
        [(_, 0), _] => Some("no connection met the limit".to_owned()),
        _ if !lines.clone().any(|line| line.contains(LOCKED_MEMORY)) => {
            Some(format!("no connection names {LOCKED_MEMORY}"))
        }
        _ => [WHY, SMCX_WHY]
            .into_iter()
            .find(|who| {
                !lines
                    .clone()
                    .any(|line| line.starts_with(who) && line.contains(LOCKED_MEMORY))
            })
            .map(|who| {
                let answers = lines.clone().filter(|line| line.starts_with(who));
                let answers: Vec<_> = answers.map(String::as_str).collect();
                format!(
                    "no line \"{who}\" names {LOCKED_MEMORY}: {}",
                    answers.join(" | ")
                )
            }),
    }
}

/// Prefix of the lines of the walk through all conditions, in that process.
const WHY: &str = "why: ";

/// Whether a conversation of this end differs as is known.
pub(crate) fn differs_as_known(all: &[Held], known: &str) -> bool {
    let mut differences = all.iter().filter_map(|held| held.difference.as_ref());
    differences.any(|difference| difference.contains(known))
}

fn end(name: &str, scenario: &Scenario, all: &[Held], expected: Option<Carried>) -> Option<String> {
    for (number, held) in all.iter().enumerate() {
        let carried = held.view.as_ref().map(|view| view.carried);
        let seen = carried.map(|carried| carried.to_string());
        let seen = seen.unwrap_or_else(|| "no SMC socket".to_owned());
        if let Some(difference) = &held.difference {
            return Some(format!(
                "{name}, connection {number} ({seen}): {difference}"
            ));
        }
        if same(scenario, carried) != same(scenario, expected) {
            let wanted = expected.map_or("no SMC socket".to_owned(), |carried| carried.to_string());
            return Some(format!(
                "{name}, connection {number}: {seen} in place of {wanted}"
            ));
        }
    }
    let count = usize::try_from(scenario.connections.count()).unwrap_or(usize::MAX);
    (all.len() != count).then(|| format!("{name}: {} of {count} connections", all.len()))
}

/// What carries it, with one code for reasons that mean the same.
fn same(scenario: &Scenario, carried: Option<Carried>) -> Option<Carried> {
    let one = |code| match scenario.alike {
        Some((one, other)) if code == other => one,
        _ => code,
    };
    carried.map(|carried| match carried {
        Carried::Tcp(reason, peer) => Carried::Tcp(one(reason), one(peer)),
        smc => smc,
    })
}

/// Everything that one end sent the other received, unless it was meant to be lost.
fn bytes(client: &[Held], server: &[Held]) -> Option<String> {
    let sum = |all: &[Held]| {
        all.iter().fold((0, 0), |sum, held| {
            (sum.0 + held.moved.0, sum.1 + held.moved.1)
        })
    };
    let ((up, got_down), (down, got_up)) = (sum(client), sum(server));
    (got_up > up || got_down > down)
        .then(|| format!("more octets than were sent: {got_up} of {up}, {got_down} of {down}"))
}

#[cfg(test)]
mod tests {
    use super::difference;
    use crate::netlink::smc::{Carried, SocketView};
    use crate::orders::Held;
    use crate::scenarios;

    fn held(carried: Carried) -> Held {
        let view = SocketView {
            inode: 1,
            state: 1,
            carried,
            link: Some(1),
        };
        Held {
            view: Some(view),
            transcript: Vec::new(),
            difference: None,
            moved: (5, 5),
            micros: 1,
        }
    }

    #[test]
    fn another_transport_a_difference_and_a_missing_connection_are_reported() {
        let scenario = scenarios::all().next().unwrap();
        let difference = |client: &[Held], server: &[Held]| {
            difference(scenario, scenario.expected(false, false), client, server)
        };
        let good = [held(Carried::SmcR)];
        assert_eq!(difference(&good, &good), None);
        let tcp = [held(Carried::Tcp(0x0301_0000, 0))];
        assert_eq!(
            difference(&good, &tcp).unwrap(),
            "server, connection 0: TCP 0x03010000 in place of SMC-R"
        );
        let mut broken = good.clone();
        broken[0].difference = Some("End: an octet".to_owned());
        assert_eq!(
            difference(&broken, &good).unwrap(),
            "client, connection 0 (SMC-R): End: an octet"
        );
        assert_eq!(
            difference(&good, &[]).unwrap(),
            "server: 0 of 1 connections"
        );
        let mut more = good.clone();
        more[0].moved = (5, 6);
        assert!(difference(&good, &more).unwrap().starts_with("more octets"));
    }
}
