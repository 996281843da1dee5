//! RNICs that go, dawdle or have no room at any time (docs/regressions.md).

use conformance::check;
use conformance::script::{DEVICE, Kind, Peer, Script, Waiting};
use core::time::Duration;
use smc_proto::connection::Shutdown;
use smc_proto::id::ConnId;
use smc_proto::path::PathEvent;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::clc::ClcMessage;

const C: ConnectionFlags = ConnectionFlags::PEER_CONNECTION_CLOSED;
const A: ConnectionFlags = ConnectionFlags::ABNORMAL_CLOSE;

#[test]
fn words_about_a_group_that_is_gone_are_ignored() {
    //= CASE-D12 test
    let mut s = Script::client();
    s.client_first_contact();
    let (link, group) = (s.link(), s.group.expect("a group"));
    s.break_link(1);
    s.skip();
    check!(s, s.endpoint.usage().groups, 0);
    s.path(PathEvent::PortDown {
        device: DEVICE,
        port: 1,
    });
    s.endpoint.delete_group(s.now, group);
    s.endpoint.delete_link(s.now, link);
    s.pump();
    check!(s, s.endpoint.link(link).is_none(), true);
    check!(s, s.endpoint.terms(group).is_none(), true);
    s.send_raw(link, &[0; 44]);
    s.expect_silence();
    // The next group has the same slots, and is not meant.
    s.client_first_contact();
    s.endpoint.delete_group(s.now, group);
    s.endpoint.delete_link(s.now, link);
    s.pump();
    s.expect_silence();
    check!(s, s.endpoint.usage().groups, 1);
    check!(s, s.adapter.asked(Kind::DestroyQp), 1);
    s.end();
}

#[test]
fn a_last_message_waits_for_a_free_slot_and_is_not_lost() {
    //= CASE-E07 test
    type Way = (fn(&mut Script, ConnId), ConnectionFlags);
    let ways: [Way; 2] = [
        (
            |s, conn| s.on(conn, |c, now| c.shutdown(now, Shutdown::Both)),
            C,
        ),
        (|s, conn| s.on(conn, |c, now| c.abort(now)), A),
    ];
    for (end, flag) in ways {
        let mut s = Script::client();
        let (conn, _) = s.client_first_contact();
        let others: Vec<_> = (2..40).map(|rmb| s.client_joins(rmb).0).collect();
        s.skip();
        // No SEND completes, and all slots of the link are taken.
        s.adapter.hold = Some(Kind::Send);
        for other in &others {
            s.write(*other, 1);
        }
        let mut sent = 0;
        while s.poll_cdc_over(1).is_some() {
            sent += 1;
        }
        check!(s, sent < others.len(), true);
        end(&mut s, conn);
        check!(s, s.poll_cdc_over(1).is_none(), true);
        s.release();
        let mut last = None;
        while let Some(cdc) = s.poll_cdc_over(1) {
            if cdc.connection_flags.contains(flag) {
                last = Some(cdc.alert_token);
            }
        }
        check!(s, last, Some(s.peer.accept(1).alert_token));
        s.end();
    }
}

#[test]
fn a_device_that_goes_at_any_step_of_a_rendezvous_leaves_nothing() {
    //= CASE-A12 test
    let removed = PathEvent::DeviceRemoved { device: DEVICE };
    let down = PathEvent::PortDown {
        device: DEVICE,
        port: 1,
    };
    let held = [
        None,
        Some(Kind::CreateQp),
        Some(Kind::ConnectQp),
        Some(Kind::ActivateQp),
        Some(Kind::Alloc),
        Some(Kind::Register),
    ];
    for waiting in Waiting::ALL {
        for events in [&[removed][..], &[down], &[down, removed], &[removed, down]] {
            // Once as it is, and once while the RNIC takes its time with what the
            // peer's next message brings about.
            for hold in held {
                let (mut s, conn) = waiting.reach();
                s.adapter.hold = hold;
                let next = match waiting {
                    Waiting::Accept => Some(Peer::octets(&ClcMessage::Accept(s.peer.accept(1)))),
                    Waiting::Confirm => Some(Peer::octets(&ClcMessage::Confirm(s.peer.accept(1)))),
                    Waiting::Proposal => Some(Peer::octets(&s.peer.proposal())),
                    _ => None,
                };
                if let Some(bytes) = next.filter(|_| hold.is_some()) {
                    let _ = s.octets(conn, &bytes);
                    if waiting == Waiting::Proposal {
                        s.take_proposal(conn);
                    }
                }
                for event in events {
                    s.path(*event);
                }
                s.expect_agreement();
                s.release();
                s.expect_agreement();
                s.wait(Duration::from_secs(30));
                check!(s, s.endpoint.usage().handshakes, 0);
                check!(s, s.endpoint.usage().links, 0);
                s.end();
            }
        }
    }
}
