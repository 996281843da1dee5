//! Floods and lies: bounded memory, bounded work, and harm to one group only.

use conformance::check;
use conformance::script::{Kind, LIMITS, Peer, Script};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::event::CloseReason;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, Qpn};

/// Messages of a flood.
const FLOOD: u32 = 100_000;
/// Most steps one message may take. RKeys are searched among at most 255.
const STEPS: u32 = 2_100;

/// The other group still works, whatever happened to the first.
#[track_caller]
fn works(s: &mut Script, (link, conn, token): (LinkId, ConnId, AlertToken)) {
    s.skip();
    s.send_cdc(link, Peer::cdc(token, 1, 9, 0));
    check!(s, s.readable(conn), 9);
    s.write(conn, 4);
    check!(s, s.expect_cdc().0, link);
}

#[test]
fn a_flood_on_one_link_keeps_memory_and_work_bounded() {
    //= CASE-H14 test
    //= LLC-005 test
    //= LLC-075 test
    type Message = fn(u32) -> [u8; 44];
    let floods: [(&str, Message); 9] = [
        ("TEST LINK", |n| {
            Peer::test_link(n as u8, false)
                .emit_short(SmcVersion::V1)
                .unwrap()
        }),
        ("TEST LINK reply", |n| {
            Peer::test_link(n as u8, true)
                .emit_short(SmcVersion::V1)
                .unwrap()
        }),
        ("CONFIRM RKEY", |n| {
            Peer::confirm_rkey(n).emit_short(SmcVersion::V1).unwrap()
        }),
        ("DELETE RKEY", |n| {
            Peer::delete_rkey(&[n, n + 1, n + 2, n + 3, 2, 3, 4, 5])
                .emit_short(SmcVersion::V1)
                .unwrap()
        }),
        ("ADD LINK", |_| {
            Peer::default()
                .add_link()
                .emit_short(SmcVersion::V1)
                .unwrap()
        }),
        ("DELETE LINK", |n| {
            Peer::delete_link(n as u8 | 2)
                .emit_short(SmcVersion::V1)
                .unwrap()
        }),
        ("optional", |n| {
            let mut bytes = [n as u8; 44];
            bytes[0] = 0x80 | (n as u8 & 0x3f);
            bytes
        }),
        ("CDC", |n| Peer::cdc(AlertToken(n), n as u16, n, n).emit()),
        ("CDC flags", |n| {
            let flags = smc_proto::wire::cdc::ConnectionFlags::from_bits_truncate(n as u8);
            Peer::cdc_flags(AlertToken(n), n as u16, flags).emit()
        }),
    ];
    for (name, message) in floods {
        let (mut s, [flooded, other]) = Script::two_groups();
        let mut most = 0;
        for n in 0..FLOOD / 10 {
            let payload = message(n);
            let (link, now) = (flooded.0, s.now);
            s.endpoint.handle_rdma(
                now,
                RdmaCompletion::Received {
                    link,
                    payload: &payload,
                },
            );
            most = most.max(s.endpoint.last_steps());
            s.pump();
            s.skip();
        }
        if most > STEPS {
            s.fail(format_args!("{name}: {most} steps"));
        }
        let usage = s.endpoint.usage();
        check!(s, usage.remote_rmbs <= 256, true);
        check!(s, usage.buffers, 4);
        check!(s, usage.groups, 2);
        works(&mut s, other);
        s.end();
    }
}

#[test]
fn a_hundred_thousand_messages_leave_what_was_there() {
    let (mut s, [flooded, other]) = Script::two_groups();
    let before = s.endpoint.usage();
    let payload = Peer::test_link(1, false)
        .emit_short(SmcVersion::V1)
        .unwrap();
    for _ in 0..FLOOD {
        s.send_raw(flooded.0, &payload);
        s.skip();
    }
    check!(s, s.endpoint.usage(), before);
    check!(s, s.endpoint.last_steps() < 10, true);
    works(&mut s, other);
    s.end();
}

#[test]
fn a_burst_of_unanswerable_requests_ends_that_link_only() {
    //= CASE-H18 test
    //= LLC-079 test
    let (mut s, [flooded, other]) = Script::two_groups();
    let now = s.now;
    for n in 0..64 {
        let payload = Peer::test_link(n, false)
            .emit_short(SmcVersion::V1)
            .unwrap();
        let link = flooded.0;
        s.endpoint.handle_rdma(
            now,
            RdmaCompletion::Received {
                link,
                payload: &payload,
            },
        );
    }
    s.pump();
    s.expect_reset(flooded.1, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 1);
    works(&mut s, other);
    s.end();
}

#[test]
fn a_token_of_another_group_names_nothing() {
    //= CASE-H07 test
    //= CDC-005 test
    let (mut s, [one, other]) = Script::two_groups();
    s.send_cdc(one.0, Peer::cdc(other.2, 1, 100, 0));
    check!(s, s.readable(other.1), 0);
    check!(s, s.endpoint.statistics().cdc_unknown, 1);
    works(&mut s, other);
    s.end();
}

#[test]
fn unknown_and_old_tokens_are_dropped() {
    //= CASE-H07 test
    //= CASE-C06 test
    //= CDC-004 test
    //= CLC-037 test
    let mut s = Script::client();
    let (conn, token) = s.client_first_contact();
    let link = s.link();
    for guess in (0..0x2_0000u32).map(|n| n.wrapping_mul(0x9e37_79b1)) {
        if guess != token.0 {
            s.endpoint.handle_rdma(
                s.now,
                RdmaCompletion::Received {
                    link,
                    payload: &Peer::cdc(AlertToken(guess), 1, 100, 0).emit(),
                },
            );
        }
    }
    check!(s, s.endpoint.statistics().cdc_unknown >= 0x2_0000 - 1, true);
    check!(s, s.readable(conn), 0);
    s.on(conn, |c, now| c.abort(now));
    s.wait(core::time::Duration::from_secs(6));
    s.skip();
    s.client_joins(2);
    s.send_cdc(link, Peer::cdc(token, 1, 100, 0));
    s.expect_silence();
    s.end();
}

#[test]
fn a_write_the_peer_refuses_is_blamed_on_its_connection() {
    //= CASE-H05 test
    let (mut s, [one, other]) = Script::two_groups();
    s.complete(RdmaCompletion::LinkFailed {
        link: one.0,
        cause: LinkFailure::RemoteAccess,
        conn: Some(one.1),
    });
    s.expect_reset(one.1, CloseReason::LinksLost);
    works(&mut s, other);
    s.end();
}

#[test]
fn completions_with_stale_handles_do_nothing() {
    //= CASE-D11 test
    //= CASE-C07 test
    let mut s = Script::client();
    let (conn, _) = s.client_first_contact();
    let link = s.link();
    s.path(smc_proto::path::PathEvent::DeviceRemoved {
        device: conformance::script::DEVICE,
    });
    s.skip();
    let payload = &Peer::test_link(1, false)
        .emit_short(SmcVersion::V1)
        .unwrap();
    for completion in [
        RdmaCompletion::QpCreated {
            link,
            qpn: Qpn::new(1),
        },
        RdmaCompletion::QpConnected { link },
        RdmaCompletion::QpActive { link },
        RdmaCompletion::QpDrained { link },
        RdmaCompletion::QpDestroyed { link },
        RdmaCompletion::LinkRefused { link },
        RdmaCompletion::Received { link, payload },
        RdmaCompletion::LinkFailed {
            link,
            cause: LinkFailure::Other,
            conn: Some(conn),
        },
        RdmaCompletion::EyeCatcherDamaged { conn },
    ] {
        s.complete(completion);
        s.expect_silence();
    }
    s.end();
}

#[test]
fn any_announced_buffer_size_only_changes_the_window() {
    //= CASE-H06 test
    //= CLC-038 test
    for code in 0..=15 {
        let mut s = Script::client();
        let conn = s.connect();
        s.expect_proposal(conn);
        let accept = AcceptConfirm {
            buffer_size: smc_proto::wire::types::BufferSize::from_code(code),
            ..s.peer.accept(1)
        };
        s.accept(conn, accept);
        s.expect_confirm(conn);
        s.send(s.peer.confirm_link());
        s.expect_confirm_link_reply();
        s.send(s.peer.add_link());
        s.expect_add_link_rejection();
        s.expect_established(conn);
        s.write(conn, 40_000);
        let written: u32 = s.writes.iter().map(|w| w.2).sum();
        check!(s, written, 40_000.min(accept.buffer_size.octets()));
        s.end();
    }
}

#[test]
fn a_peer_that_fills_its_group_leaves_room_for_others() {
    //= CASE-H22 test
    //= RMB-001 test
    let (mut s, [hostile, other]) = Script::two_groups();
    for rmb in 0..LIMITS.remote_rmbs as u32 {
        s.send_on(hostile.0, Peer::confirm_rkey(rmb));
    }
    s.skip();
    check!(s, s.endpoint.usage().remote_rmbs, 256);
    works(&mut s, other);
    s.end();
}

#[test]
fn a_group_with_few_connections_has_few_rmbs_while_the_table_is_short() {
    let mut limits = LIMITS;
    limits.remote_rmbs = 16;
    let mut s = Script::limited(limits, |_| {});
    s.server_first_contact();
    for rmb in 2..=16 {
        s.send(Peer::confirm_rkey(rmb));
    }
    s.skip();
    // Two for its only connection, and eight ahead of need.
    check!(s, s.endpoint.usage().remote_rmbs, 10);
    s.end();
}

#[test]
fn a_send_that_never_completes_stalls_only_its_link() {
    let (mut s, [stalled, other]) = Script::two_groups();
    s.adapter.hold = Some(Kind::Send);
    for n in 0..40 {
        s.send_on(stalled.0, Peer::test_link(n, false));
        let usage = s.endpoint.usage();
        if usage.groups == 1 {
            break;
        }
    }
    // Sixteen are in flight, eight wait, one more is too many.
    check!(s, s.endpoint.usage().connections, 1);
    s.release();
    works(&mut s, other);
    check!(
        s,
        matches!(s.poll_llc(), None | Some(LlcMessage::TestLink(_))),
        true
    );
    s.end();
}
