//! Captures of Linux kernels, replayed with our endpoint in the place of one end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use conformance::replay::{
    Completions, Counts, Deviation, End, Failure, Ports, Reader, Report, Rmbs, Setup, replay,
};
use smc_proto::config::{Config, ProposalVersion};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::types::BufferSize;

const ONE_LINK: &str = "linux612-v1-onelink.pcap.gz";
const TWO_LINKS: &str = "linux612-v1-twolinks.pcap.gz";
const ONE_LINK_V2: &str = "linux612-v2-onelink.pcap.gz";
const TWO_LINKS_V2: &str = "linux612-v2-twolinks.pcap.gz";

/// Application and bytes from client to server and back, of each connection.
const ONE_LINK_CONNECTIONS: [(char, u64, u64); 10] = [
    ('e', 114_420, 114_419),
    ('e', 114_420, 114_419),
    ('h', 2, 100_000),
    ('a', 2, 0),
    ('A', 4, 0),
    ('u', 4001, 0),
    ('w', 983_040, 0),
    ('s', 200_001, 4),
    ('s', 50_001, 4),
    ('s', 301, 4),
];

/// Connections of the capture with two links. The third one is there while the second is,
/// and on the second link.
const TWO_LINKS_CONNECTIONS: [(char, u64, u64); 9] = [
    ('e', 114_420, 114_419),
    ('s', 90_001, 4),
    ('s', 120_001, 4),
    ('u', 4001, 0),
    ('h', 2, 100_000),
    ('A', 4, 0),
    ('a', 2, 0),
    ('e', 114_420, 114_419),
    ('s', 20_001, 4),
];

fn run(capture: &str, setup: Setup) -> Result<Report, Failure> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("vectors")
        .join(capture);
    replay(&path, setup)
}

/// What a replay has to have done, with [`Reader::AsCaptured`].
struct Expected {
    capture: &'static str,
    ours: End,
    connections: &'static [(char, u64, u64)],
    /// How the last connection ends; all others end in order.
    last: CloseReason,
    /// What is fed in and equal, the LLC messages as with [`Rmbs::Withdrawn`].
    counts: Counts,
    /// LLC messages fed in and equal with [`Rmbs::Kept`].
    llc_kept: (u32, u32),
    /// Most connections at the same time: as many RMBs as each end needs.
    rmbs: usize,
    /// How often our end deviates with [`Rmbs::Withdrawn`].
    deviations: &'static [(Deviation, usize)],
}

/// Replays with every combination of what our end is free to do.
fn check(expected: &Expected) {
    for rmbs in [Rmbs::Kept, Rmbs::Withdrawn] {
        for reader in [Reader::AsCaptured, Reader::Prompt] {
            for completions in [Completions::AtOnce, Completions::Late] {
                let setup = Setup {
                    rmbs,
                    reader,
                    completions,
                    ..Setup::new(expected.ours)
                };
                let report = run(expected.capture, setup)
                    .unwrap_or_else(|failure| panic!("{setup:?}\n{failure}"));
                check_connections(expected, &report);
                check_counts(expected, &setup, &report);
                check_deviations(expected, &setup, &report);
            }
        }
    }
}

fn check_connections(expected: &Expected, report: &Report) {
    assert_eq!(report.connections.len(), expected.connections.len());
    let last = expected.connections.len() - 1;
    for (n, (connection, (application, up, down))) in report
        .connections
        .iter()
        .zip(expected.connections)
        .enumerate()
    {
        assert_eq!(connection.application, *application);
        assert_eq!(connection.first_contact, n == 0);
        let reason = if n == last {
            expected.last
        } else {
            CloseReason::Normal
        };
        assert_eq!(connection.reason, reason);
        let (sent, received) = match expected.ours {
            End::Client => (*up, *down),
            End::Server => (*down, *up),
        };
        assert_eq!(connection.sent, sent);
        if reason != CloseReason::PeerAbort {
            assert_eq!(connection.received, received);
        }
    }
}

fn check_counts(expected: &Expected, setup: &Setup, report: &Report) {
    let mut counts = expected.counts;
    if setup.rmbs == Rmbs::Kept {
        (counts.llc_fed, counts.llc_equal) = expected.llc_kept;
    }
    counts.llc_fed += u32::from(echo_is_received(expected));
    // Every captured CDC message has one of ours in its place, or announced only
    // bytes that ours had announced before.
    if setup.reader == Reader::Prompt {
        counts.cdc_without = report.counts.cdc_without;
        counts.cdc_more = report.counts.cdc_more;
        counts.cdc_equal -= counts.cdc_without;
        assert!(counts.cdc_without <= counts.cdc_more && counts.cdc_more < 30);
    }
    assert_eq!(report.counts, counts);
    // All that our endpoint did is among it, and nothing else.
    let statistics = report.statistics;
    let connections = expected.connections.len() as u64;
    assert_eq!(statistics.clc_received, u64::from(counts.clc_fed));
    assert_eq!(statistics.clc_sent, u64::from(counts.clc_equal));
    assert_eq!(statistics.cdc_received, u64::from(counts.cdc_fed));
    assert_eq!(statistics.writes, u64::from(counts.writes));
    assert_eq!(statistics.established, connections);
    assert_eq!(statistics.first_contacts, 1);
}

/// The client announces itself that the group ends, once our server did so: our link is there
/// to receive it, of a group without connections.
fn echo_is_received(expected: &Expected) -> bool {
    matches!(expected.capture, ONE_LINK | ONE_LINK_V2 | TWO_LINKS_V2)
        && expected.ours == End::Server
}

fn check_deviations(expected: &Expected, setup: &Setup, report: &Report) {
    let mut found: BTreeMap<Deviation, usize> = report
        .deviations
        .iter()
        .map(|(why, frames)| (*why, frames.len()))
        .collect();
    let kept = found.remove(&Deviation::RmbKept).unwrap_or(0);
    let mut wanted: BTreeMap<_, _> = expected.deviations.iter().copied().collect();
    if echo_is_received(expected) {
        wanted.remove(&Deviation::AfterEnd);
    }
    if setup.rmbs == Rmbs::Kept {
        // Of each connection its DELETE RKEY, and of each that finds an RMB
        // its CONFIRM RKEY; both with the answer. Then the group ends.
        let connections = expected.connections.len();
        let ends = usize::from(expected.last != CloseReason::Normal);
        let reused = connections - expected.rmbs;
        assert_eq!(kept, 2 * (connections - ends) + 2 * reused);
        if expected.last == CloseReason::PeerAbort {
            *wanted.entry(Deviation::AfterEnd).or_default() += 1;
        }
    } else {
        assert_eq!(kept, 0);
    }
    assert_eq!(found, wanted);
}

#[test]
fn our_server_serves_the_client_of_the_capture_with_one_link() {
    check(&Expected {
        capture: ONE_LINK,
        ours: End::Server,
        connections: &ONE_LINK_CONNECTIONS,
        last: CloseReason::Normal,
        counts: Counts {
            clc_fed: 20,
            clc_equal: 10,
            llc_fed: 40,
            llc_equal: 40,
            cdc_fed: 80,
            cdc_equal: 60,
            writes_fed: 62,
            writes: 29,
            fins_fed: 10,
            ..Counts::default()
        },
        llc_kept: (21, 21),
        rmbs: 1,
        deviations: &[(Deviation::GroupDeletion, 1), (Deviation::AfterEnd, 1)],
    });
}

#[test]
fn our_client_is_served_by_the_server_of_the_capture_with_one_link() {
    check(&Expected {
        capture: ONE_LINK,
        ours: End::Client,
        connections: &ONE_LINK_CONNECTIONS,
        last: CloseReason::Normal,
        counts: Counts {
            clc_fed: 10,
            clc_equal: 20,
            llc_fed: 41,
            llc_equal: 40,
            cdc_fed: 60,
            cdc_equal: 80,
            writes_fed: 29,
            writes: 62,
            fins_fed: 10,
            ..Counts::default()
        },
        llc_kept: (22, 21),
        rmbs: 1,
        deviations: &[
            (Deviation::DeletionNotEchoed, 1),
            (Deviation::BlockedWithRoom, 1),
        ],
    });
}

#[test]
fn our_server_serves_the_client_of_the_capture_with_two_links() {
    check(&Expected {
        capture: TWO_LINKS,
        ours: End::Server,
        connections: &TWO_LINKS_CONNECTIONS,
        last: CloseReason::LinksLost,
        counts: Counts {
            clc_fed: 18,
            clc_equal: 9,
            llc_fed: 36,
            llc_equal: 36,
            cdc_fed: 61,
            cdc_equal: 44,
            writes_fed: 46,
            writes: 29,
            fins_fed: 9,
            ..Counts::default()
        },
        llc_kept: (21, 21),
        rmbs: 2,
        deviations: &[
            (Deviation::GroupDeletion, 1),
            (Deviation::AbortAfterClose, 1),
            (Deviation::AfterEnd, 3),
        ],
    });
}

#[test]
fn our_client_is_served_by_the_server_of_the_capture_with_two_links() {
    check(&Expected {
        capture: TWO_LINKS,
        ours: End::Client,
        connections: &TWO_LINKS_CONNECTIONS,
        last: CloseReason::PeerAbort,
        counts: Counts {
            clc_fed: 9,
            clc_equal: 18,
            llc_fed: 37,
            llc_equal: 37,
            cdc_fed: 45,
            cdc_equal: 61,
            writes_fed: 29,
            writes: 46,
            fins_fed: 8,
            ..Counts::default()
        },
        llc_kept: (22, 21),
        rmbs: 2,
        deviations: &[
            (Deviation::DeletionNotEchoed, 1),
            (Deviation::AbortAnswered, 1),
            (Deviation::AfterEnd, 1),
            (Deviation::BlockedWithRoom, 2),
        ],
    });
}

#[test]
fn our_server_serves_the_client_of_the_version_2_capture_with_one_link() {
    check(&Expected {
        capture: ONE_LINK_V2,
        ours: End::Server,
        connections: &ONE_LINK_CONNECTIONS,
        last: CloseReason::Normal,
        counts: Counts {
            clc_fed: 20,
            clc_equal: 10,
            llc_fed: 40,
            llc_equal: 40,
            cdc_fed: 78,
            cdc_equal: 60,
            writes_fed: 60,
            writes: 29,
            fins_fed: 10,
            ..Counts::default()
        },
        llc_kept: (21, 21),
        rmbs: 1,
        deviations: &[(Deviation::GroupDeletion, 1), (Deviation::AfterEnd, 1)],
    });
}

#[test]
fn our_client_is_served_by_the_server_of_the_version_2_capture_with_one_link() {
    check(&Expected {
        capture: ONE_LINK_V2,
        ours: End::Client,
        connections: &ONE_LINK_CONNECTIONS,
        last: CloseReason::Normal,
        counts: Counts {
            clc_fed: 10,
            clc_equal: 20,
            llc_fed: 41,
            llc_equal: 40,
            cdc_fed: 60,
            cdc_equal: 78,
            writes_fed: 29,
            writes: 60,
            fins_fed: 10,
            ..Counts::default()
        },
        llc_kept: (22, 21),
        rmbs: 1,
        deviations: &[
            (Deviation::DeletionNotEchoed, 1),
            (Deviation::BlockedWithRoom, 1),
        ],
    });
}

#[test]
fn our_server_serves_the_client_of_the_version_2_capture_with_two_links() {
    check(&Expected {
        capture: TWO_LINKS_V2,
        ours: End::Server,
        connections: &ONE_LINK_CONNECTIONS,
        last: CloseReason::Normal,
        counts: Counts {
            clc_fed: 20,
            clc_equal: 10,
            llc_fed: 41,
            llc_equal: 41,
            cdc_fed: 78,
            cdc_equal: 60,
            writes_fed: 60,
            writes: 29,
            fins_fed: 10,
            ..Counts::default()
        },
        llc_kept: (22, 22),
        rmbs: 1,
        deviations: &[(Deviation::GroupDeletion, 1), (Deviation::AfterEnd, 1)],
    });
}

#[test]
fn our_client_is_served_by_the_server_of_the_version_2_capture_with_two_links() {
    check(&Expected {
        capture: TWO_LINKS_V2,
        ours: End::Client,
        connections: &ONE_LINK_CONNECTIONS,
        last: CloseReason::Normal,
        counts: Counts {
            clc_fed: 10,
            clc_equal: 20,
            llc_fed: 42,
            llc_equal: 41,
            cdc_fed: 60,
            cdc_equal: 78,
            writes_fed: 29,
            writes: 60,
            fins_fed: 10,
            ..Counts::default()
        },
        llc_kept: (23, 22),
        rmbs: 1,
        deviations: &[
            (Deviation::DeletionNotEchoed, 1),
            (Deviation::BlockedWithRoom, 1),
        ],
    });
}

/// Each of these differs from Linux in one message, which the replay must find.
#[test]
fn a_difference_fails_with_the_transcript() {
    let cases: [(Setup, u64); 5] = [
        (
            Setup {
                configure: |config| config.proposal_version = ProposalVersion::V1,
                ..Setup::new(End::Client)
            },
            4,
        ),
        (
            Setup {
                configure: |config| config.receive_buffer = BufferSize::from_code(3),
                ..Setup::new(End::Server)
            },
            6,
        ),
        (
            Setup {
                configure: |config| config.max_links = 3,
                ..Setup::new(End::Server)
            },
            10,
        ),
        (
            Setup {
                configure: |config| config.eye_catcher = true,
                ..Setup::new(End::Client)
            },
            12,
        ),
        // Without a withdrawal where one is due.
        (
            Setup {
                rmbs: Rmbs::Withdrawn,
                configure: |config| config.timeouts.rmb_idle = Duration::from_secs(60),
                ..Setup::new(End::Server)
            },
            329,
        ),
    ];
    for (setup, frame) in cases {
        fails_at(ONE_LINK, setup, frame);
    }
}

fn fails_at(capture: &str, setup: Setup, frame: u64) {
    let failure = run(capture, setup).expect_err("a difference");
    let what = failure.to_string();
    assert!(
        failure.what.starts_with(&format!("frame {frame}: ")),
        "{setup:?}: {what}"
    );
    let line = format!("{frame:>6} captured ");
    assert!(what.contains(&line), "{what}");
    assert!(what.contains("       ours     "), "{what}");
}

/// With one port a server offers that one again, and a client takes an offer of a
/// second one with the port that it has: both name another port than the capture.
#[test]
fn an_end_with_one_port_cannot_follow_the_capture_with_two_links() {
    for (ours, frame) in [(End::Server, 14), (End::Client, 16)] {
        let ports = Ports::One;
        let setup = Setup {
            ports,
            ..Setup::new(ours)
        };
        fails_at(TWO_LINKS, setup, frame);
    }
}

#[test]
fn settings_that_no_peer_can_see_change_nothing() {
    // Connections at the same time would share an RMB.
    let one_at_a_time: fn(&mut Config) = |config| config.elements_per_rmb = 4;
    let settings: [fn(&mut Config); 3] = [
        |config| config.send_buffer = BufferSize::K512,
        |config| config.timeouts.confirm_link_delay = Duration::ZERO,
        |config| config.connection.coalesce_limit = 0,
    ];
    for ours in [End::Client, End::Server] {
        same_with(ONE_LINK, ours, &[one_at_a_time]);
        for capture in [ONE_LINK, TWO_LINKS] {
            same_with(capture, ours, &settings);
        }
    }
}

fn same_with(capture: &str, ours: End, settings: &[fn(&mut Config)]) {
    let plain = Setup::new(ours);
    let usual = run(capture, plain).unwrap_or_else(|failure| panic!("{failure}"));
    for configure in settings.iter().copied() {
        let report = run(capture, Setup { configure, ..plain })
            .unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(report.connections, usual.connections);
        assert_eq!(report.counts, usual.counts);
        assert_eq!(report.deviations, usual.deviations);
    }
}

/// The answer of a Linux client to the end of the group is there before the
/// completion of our SEND.
#[test]
fn the_server_announces_the_end_of_the_group_once() {
    let setup = Setup {
        completions: Completions::Late,
        ..Setup::new(End::Server)
    };
    let report = run(ONE_LINK, setup).unwrap_or_else(|failure| panic!("{failure}"));
    let lines = report
        .transcript
        .iter()
        .filter(|line| line.contains("ours     on link 1: LLC DELETE LINK request all"))
        .count();
    assert_eq!(lines, 1);
}
