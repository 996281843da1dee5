//! TCP between hosts.

use smc_proto::time::Duration;

use crate::fabric::{Fabric, FabricConfig, HostId};
use crate::fault::{FaultAction, FaultPlan, Operation, Trigger};
use crate::tcp::{Side, SmcOption, TcpId, TcpNoticeKind, TcpSplit};

fn hosts(seed: u64) -> (Fabric, HostId, HostId) {
    let mut fabric = Fabric::new(FabricConfig::default(), seed);
    let (client, server) = (fabric.add_host("client"), fabric.add_host("server"));
    (fabric, client, server)
}

fn notices(fabric: &mut Fabric, host: HostId) -> Vec<TcpNoticeKind> {
    std::iter::from_fn(|| fabric.next_tcp_notice(host))
        .map(|notice| notice.kind)
        .collect()
}

fn open(fabric: &mut Fabric, client: HostId, server: HostId) -> TcpId {
    let tcp = fabric.tcp_open(client, server, SmcOption::BOTH);
    while fabric.step() {}
    notices(fabric, client);
    notices(fabric, server);
    tcp
}

#[test]
fn smc_is_tried_only_if_both_syns_say_so() {
    for (client_offers, server_answers) in [(true, true), (true, false), (false, true)] {
        let (mut fabric, client, server) = hosts(1);
        fabric.tcp_open(
            client,
            server,
            SmcOption {
                client_offers,
                server_answers,
            },
        );
        while fabric.step() {}
        let connected = TcpNoticeKind::Connected {
            smc: client_offers && server_answers,
        };
        assert_eq!(notices(&mut fabric, client), [connected]);
        assert_eq!(notices(&mut fabric, server), [connected]);
        assert_eq!(
            fabric.now().since(Default::default()),
            Duration::from_micros(75)
        );
    }
}

#[test]
fn bytes_arrive_in_order_however_they_are_cut() {
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for (split, segments) in [
        (TcpSplit::Whole, 4..=4),
        (TcpSplit::Every(1), 100_000..=100_000),
        (TcpSplit::Random(1000), 150..=300),
    ] {
        let (mut fabric, client, server) = hosts(1);
        let tcp = open(&mut fabric, client, server);
        let plan = FaultPlan::none().with(
            Trigger::Nth {
                operation: Operation::TcpByte,
                number: 1,
            },
            client,
            FaultAction::TcpSplit(split),
        );
        fabric.set_faults(plan);
        fabric.tcp_send(tcp, Side::Client, &bytes);
        fabric.tcp_close(tcp, Side::Client);
        let (mut pieces, mut got) = (0, Vec::new());
        while fabric.step() {
            for piece in notices(&mut fabric, server) {
                pieces += u32::from(piece == TcpNoticeKind::Readable);
                let unread = fabric.tcp_unread(tcp, Side::Server).to_vec();
                fabric.tcp_consume(tcp, Side::Server, unread.len() / 2);
                got.extend_from_slice(&unread[..unread.len() / 2]);
            }
        }
        assert!(!fabric.tcp_at_end(tcp, Side::Server));
        got.extend_from_slice(fabric.tcp_unread(tcp, Side::Server));
        fabric.tcp_consume(tcp, Side::Server, bytes.len());
        assert!(fabric.tcp_at_end(tcp, Side::Server));
        assert!(!fabric.tcp_at_end(tcp, Side::Client));
        assert!(segments.contains(&pieces), "{split:?}: {pieces}");
        assert!(got == bytes);
    }
}

#[test]
fn a_fin_stops_one_direction() {
    let (mut fabric, client, server) = hosts(1);
    let tcp = open(&mut fabric, client, server);
    fabric.tcp_send(tcp, Side::Client, b"last words");
    fabric.tcp_close(tcp, Side::Client);
    fabric.tcp_send(tcp, Side::Client, b"ghost");
    fabric.tcp_send(tcp, Side::Server, b"answer");
    while fabric.step() {}
    assert_eq!(
        notices(&mut fabric, server),
        [TcpNoticeKind::Readable, TcpNoticeKind::PeerFin]
    );
    assert_eq!(fabric.tcp_unread(tcp, Side::Server), b"last words");
    assert_eq!(notices(&mut fabric, client), [TcpNoticeKind::Readable]);
}

#[test]
fn a_reset_reaches_the_peer_and_ends_both() {
    let (mut fabric, client, server) = hosts(1);
    let tcp = open(&mut fabric, client, server);
    fabric.tcp_send(tcp, Side::Client, b"x");
    fabric.tcp_reset(tcp, Side::Client);
    fabric.tcp_send(tcp, Side::Client, b"y");
    while fabric.step() {}
    assert_eq!(
        notices(&mut fabric, server),
        [TcpNoticeKind::Readable, TcpNoticeKind::Reset]
    );
    assert_eq!(notices(&mut fabric, client), []);
    assert_eq!(fabric.tcp_unread(tcp, Side::Server), b"");
    assert!(fabric.tcp_at_end(tcp, Side::Server) && fabric.tcp_at_end(tcp, Side::Client));
}

#[test]
fn a_reset_can_strike_before_any_byte() {
    for number in 1..=10 {
        let (mut fabric, client, server) = hosts(1);
        let tcp = open(&mut fabric, client, server);
        let trigger = Trigger::Nth {
            operation: Operation::TcpByte,
            number,
        };
        fabric.set_faults(FaultPlan::none().with(trigger, client, FaultAction::TcpReset));
        fabric.tcp_send(tcp, Side::Client, b"01234");
        fabric.tcp_send(tcp, Side::Client, b"56789");
        let mut got = 0;
        while fabric.step() {
            got = got.max(fabric.tcp_unread(tcp, Side::Server).len() as u64);
        }
        assert_eq!(got, number - 1);
        assert_eq!(
            notices(&mut fabric, server).last(),
            Some(&TcpNoticeKind::Reset)
        );
        assert_eq!(
            notices(&mut fabric, client).last(),
            Some(&TcpNoticeKind::Reset)
        );
    }
}
