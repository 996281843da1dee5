//! The rendezvous of two endpoints, whatever the network does with time.

use smc_proto::command::TcpCommand;
use smc_proto::endpoint::ConnOptions;
use smc_proto::time::Duration;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::DiagnosisCode;

use super::Reader;
use super::net::{GREETING, Net};
use super::side::End;

/// Most steps decoded from one input.
const MAX_OPS: usize = 200;

/// Two endpoints open connections over TCP streams cut anywhere and devices
/// that answer in any order, or refuse.
///
/// In the end no side is still in rendezvous; both ends agree whether it is
/// SMC-R or TCP; after a fallback each application gets exactly what the other
/// one sent; and nothing is left when everything was closed.
pub fn handshake_pair(data: &[u8]) {
    let mut r = Reader::new(data);
    let choices = r.u8();
    let mut net = Net::new(|side, config| {
        config.eye_catcher = choices >> side & 1 != 0;
        config.elements_per_rmb = if choices & 4 != 0 { 3 } else { 1 };
    });
    let options = ConnOptions::new(Subnets::default());
    net.open(&options);
    let mut refused = false;
    for _ in 0..MAX_OPS {
        if r.is_empty() {
            break;
        }
        refused |= step(&mut net, &options, &mut r);
    }
    net.run(Duration::from_secs(45));
    for at in 0..net.tcp.len() {
        check_agreement(&mut net, at, refused);
    }
    net.wind_down();
}

/// One step: whether something was broken by force.
fn step(net: &mut Net, options: &ConnOptions, r: &mut Reader<'_>) -> bool {
    let op = r.below(16);
    let side = r.below(2);
    match op {
        0 => {
            if net.tcp.len() < 6 {
                net.open(options);
            }
        }
        1..=3 => {
            let at = r.below(net.tcp.len());
            let n = usize::from(r.u8());
            if at < net.tcp.len() {
                net.move_bytes(at, side, n);
            }
        }
        4 | 5 => {
            let at = r.below(net.sides[side].pending.len());
            net.sides[side].complete(at, true);
        }
        6 => {
            let at = r.below(net.sides[side].pending.len());
            net.sides[side].complete(at, false);
            return true;
        }
        7 => {
            net.deliver(side);
        }
        8 => {
            let at = r.below(net.sides[side].sent.len());
            net.sides[side].report(at);
        }
        9 | 10 => {
            net.poll(side, r.below(8));
        }
        11 => {
            if r.below(4) == 0 {
                let host = &mut net.sides[1];
                if let Some(conn) = host.proposed.pop() {
                    let why = DiagnosisCode::CONFIGURATION;
                    let _ = host.endpoint.decline(host.now, conn, why);
                }
            } else {
                net.accept();
            }
        }
        12 => net.advance(Duration::from_millis(u64::from(r.u8()))),
        13 => net.advance(Duration::from_millis(u64::from(r.u8()) * 32)),
        14 => net.run_until_idle(),
        _ => {
            let kind = r.below(4);
            let at = r.below(net.tcp.len());
            if kind == 0 && at < net.tcp.len() {
                net.reset(at);
            } else if kind == 1 {
                let links = &net.sides[side].contract.links;
                if let Some(link) = links.last().copied() {
                    net.fail(side, link);
                }
            }
            return true;
        }
    }
    false
}

fn check_agreement(net: &mut Net, at: usize, forced: bool) {
    let ids = net.tcp[at].ids;
    let [a, b] = [0, 1].map(|side| net.sides[side].conn(ids[side]).clone());
    for conn in [&a, &b] {
        assert!(
            conn.established || conn.end.is_some(),
            "{conn:?} is still in rendezvous"
        );
    }
    if net.tcp[at].disturbed {
        return;
    }
    let fell_back = |end| matches!(end, Some(End::FellBack(_)));
    match (a.end, b.end) {
        (x, y) if fell_back(x) && fell_back(y) => {
            for side in 0..2 {
                assert_eq!(net.received(at, side), GREETING, "side {side}");
            }
            let handed = |tcp| matches!(tcp, Some(TcpCommand::HandOver { .. }));
            assert!(handed(a.tcp) && handed(b.tcp));
        }
        (x, None) | (None, x) if !forced => {
            assert!(!fell_back(x), "SMC-R here, TCP there: {a:?} {b:?}");
        }
        _ => {}
    }
}
