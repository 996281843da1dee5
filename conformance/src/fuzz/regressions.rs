//! What the targets found, each as a test of its own.

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::connection::Shutdown;
use smc_proto::id::ConnId;
use smc_proto::path::PathEvent;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags};

use super::conn_pair::establish;
use super::model::Model;
use super::side::DEVICE;
use super::solo::Solo;

/// A server with the first connection established.
fn established() -> (Solo, ConnId) {
    let mut solo = Solo::new(0);
    let conn = solo.open(false).expect("tables are empty");
    for _ in 0..10 {
        solo.honest();
        solo.side.advance(Duration::from_millis(2));
    }
    assert!(solo.side.conn(conn).established);
    (solo, conn)
}

fn port_down(solo: &mut Solo) {
    let event = PathEvent::PortDown {
        device: DEVICE,
        port: 1,
    };
    solo.side.endpoint.handle_path(solo.side.now, event);
    solo.side.check();
}

/// Position of the control command that is not answered yet.
fn pending(solo: &Solo, wanted: impl Fn(&RdmaCommand) -> bool) -> usize {
    let at = solo.side.pending.iter().position(wanted);
    at.unwrap_or_else(|| panic!("{:?}", solo.side.pending))
}

/// Polls and answers until a control command is in progress.
fn until_pending(solo: &mut Solo, wanted: impl Fn(&RdmaCommand) -> bool) -> usize {
    for _ in 0..20 {
        solo.side.poll(usize::MAX);
        if solo.side.pending.iter().any(&wanted) {
            return pending(solo, wanted);
        }
        solo.honest();
        solo.side.advance(Duration::from_millis(2));
    }
    panic!("never asked for");
}

#[test]
fn a_registration_refused_after_the_end_of_its_group_is_not_waited_for() {
    //= CASE-C08 test
    let mut solo = Solo::new(0);
    solo.open(false);
    let register = |c: &RdmaCommand| matches!(c, RdmaCommand::RegisterBuffer { .. });
    let at = until_pending(&mut solo, register);
    port_down(&mut solo);
    solo.side.complete(at, false);
    solo.wind_down();
}

#[test]
fn memory_of_a_retired_buffer_is_freed_although_clearing_it_is_refused() {
    let (mut solo, conn) = established();
    let now = solo.side.now;
    solo.side.endpoint.conn(conn).expect("open").abort(now);
    solo.side.advance(Duration::from_secs(6));
    let clear = |c: &RdmaCommand| matches!(c, RdmaCommand::ClearElement { .. });
    let at = until_pending(&mut solo, clear);
    port_down(&mut solo);
    solo.side.complete(at, false);
    solo.wind_down();
}

#[test]
fn a_queue_pair_whose_move_was_refused_is_drained_before_it_is_destroyed() {
    let mut solo = Solo::new(0);
    solo.open(false);
    let activate = |c: &RdmaCommand| matches!(c, RdmaCommand::ActivateQp { .. });
    let at = until_pending(&mut solo, activate);
    port_down(&mut solo);
    solo.side.complete(at, false);
    // The contract counts a DestroyQp of a queue pair not in error as a fault.
    solo.side.poll(usize::MAX);
    pending(&solo, |c| matches!(c, RdmaCommand::QpToError { .. }));
    solo.wind_down();
}

#[test]
fn a_second_queue_pair_given_up_and_then_refused_leaves_the_group_alone() {
    let mut solo = Solo::new(0);
    let conn = solo.open(false).expect("tables are empty");
    let first = until_pending(&mut solo, |c| matches!(c, RdmaCommand::CreateQp { .. }));
    solo.side.complete(first, true);
    let second = until_pending(&mut solo, |c| matches!(c, RdmaCommand::CreateQp { .. }));
    // Past the wait for the second queue pair: the group goes on with one link.
    solo.side.advance(Duration::from_secs(6));
    solo.side.poll(usize::MAX);
    assert!(solo.side.conn(conn).established);
    solo.side.complete(second, false);
    solo.side.poll(usize::MAX);
    assert!(solo.side.is_open(conn));
    solo.wind_down();
}

#[test]
fn a_link_lost_after_an_abort_resets_tcp_once() {
    let (mut solo, conn) = established();
    let now = solo.side.now;
    solo.side.endpoint.conn(conn).expect("open").abort(now);
    solo.side.poll(usize::MAX);
    assert_eq!(solo.side.conn(conn).tcp, Some(TcpCommand::Reset));
    port_down(&mut solo);
    // A second command would be a fault of the contract.
    solo.side.poll(usize::MAX);
    solo.wind_down();
}

#[test]
fn a_closed_connection_with_a_message_unsent_ends_with_its_group() {
    //= CASE-E07 test
    let (mut solo, conn) = established();
    // The peer's abort, and the link is lost before ours could be sent.
    let mut abort = [0; 44];
    abort[..4].copy_from_slice(&[0xfe, 44, 0, 1]);
    abort[4..8].copy_from_slice(&solo.side.tokens[0].1.0.to_be_bytes());
    abort[25] = 0x20;
    let now = solo.side.now;
    solo.side.endpoint.conn(conn).expect("open").abort(now);
    let link = solo.side.contract.links[0];
    solo.side.receive(link, &abort);
    port_down(&mut solo);
    solo.wind_down();
}

#[test]
fn no_event_follows_the_last_one() {
    //= CASE-B05 test
    let (mut solo, conn) = established();
    let now = solo.side.now;
    let shutdown = |solo: &mut Solo, how| {
        if let Some(mut conn) = solo.side.endpoint.conn(conn) {
            conn.shutdown(now, how);
        }
    };
    shutdown(&mut solo, Shutdown::Both);
    solo.side.poll(usize::MAX);
    // The close is sent and not completed while its wait runs out.
    solo.side.advance(Duration::from_secs(61));
    solo.side.poll(usize::MAX);
    assert!(solo.side.conn(conn).end.is_some());
    shutdown(&mut solo, Shutdown::Read);
    solo.side.poll(usize::MAX);
    solo.wind_down();
}

#[test]
fn a_second_link_that_outlives_its_connections_harms_no_other_group() {
    let mut solo = Solo::new(0);
    solo.open(false);
    let first = until_pending(&mut solo, |c| matches!(c, RdmaCommand::CreateQp { .. }));
    solo.side.complete(first, true);
    let second = until_pending(&mut solo, |c| matches!(c, RdmaCommand::CreateQp { .. }));
    solo.side.complete(second, true);
    solo.side.advance(Duration::from_secs(6));
    let [first, second] = [0, 1].map(|at| solo.side.contract.links[at]);
    port_down(&mut solo);
    // Everything is answered but what the second link waits for.
    for _ in 0..20 {
        solo.side.poll(usize::MAX);
        let other =
            |c: &RdmaCommand| !matches!(c, RdmaCommand::QpToError { link } if *link == second);
        while let Some(at) = solo.side.pending.iter().position(other) {
            solo.side.complete(at, true);
        }
        solo.side.clc.clear();
        solo.side.wire.clear();
    }
    assert!(solo.side.contract.nic.qp(first).is_none());
    let usage = solo.side.endpoint.usage();
    assert_eq!(
        (usage.links, usage.groups),
        (1, 1),
        "the link lost its group"
    );
    solo.side.rdma(RdmaCompletion::LinkFailed {
        link: second,
        cause: LinkFailure::PortDown,
        conn: None,
    });
    solo.wind_down();
}

#[test]
fn a_group_that_ends_while_it_answers_add_link_stays_ended() {
    let mut solo = Solo::new(0);
    let conn = solo.open(true).expect("tables are empty");
    let activate = |c: &RdmaCommand| matches!(c, RdmaCommand::ActivateQp { .. });
    let at = until_pending(&mut solo, activate);
    let link = solo.side.contract.links[0];
    // CONFIRM LINK is answered, and nothing leaves: seven more replies fill the
    // link, and that to ADD LINK is one too many.
    solo.side.complete(at, true);
    let mut request = [0; 44];
    for kind in [7, 7, 7, 7, 7, 7, 7, 2] {
        request[..2].copy_from_slice(&[kind, 44]);
        solo.side.receive(link, &request);
    }
    solo.side.poll(usize::MAX);
    assert!(!solo.side.conn(conn).established);
    solo.wind_down();
}

#[test]
fn half_of_a_turn_is_all_there_is_of_a_connection_that_ended_amid_it() {
    //= ABORT-007 test
    let mut net = establish(0, 1);
    let mut stream = Model::default();
    // The next bytes wrap around the end of the ring.
    stream.write(&mut net.sides[0], 0, 10_000, false);
    net.run_until_idle();
    stream.read(&mut net.sides[1], 0, 10_000);
    net.run_until_idle();
    stream.write(&mut net.sides[0], 0, 16_000, false);
    let [side, _] = &mut net.sides;
    side.poll(1);
    let writes = |commands: &[RdmaCommand]| {
        let write = |c: &&RdmaCommand| matches!(c, RdmaCommand::Write { .. });
        commands.iter().filter(write).count()
    };
    assert_eq!(writes(side.wire.make_contiguous()), 1);
    let (now, id) = (side.now, side.conns[0].id);
    side.endpoint.conn(id).expect("open").abort(now);
    // Nothing is asked of the device until the wait for the peer's abort is over.
    side.advance(Duration::from_secs(61));
    side.poll(0);
    assert!(side.conns[0].end.is_some());
    side.poll(usize::MAX);
    assert_eq!(writes(side.wire.make_contiguous()), 1, "{:?}", side.wire);
    // The message behind it announces bytes that were not written, so it asks the peer
    // not to read them.
    let flags = side.wire.iter().filter_map(|command| match command {
        RdmaCommand::Send { payload, .. } => Cdc::parse(payload).ok(),
        _ => None,
    });
    let flags: Vec<_> = flags.map(|cdc| cdc.connection_flags).collect();
    assert_eq!(flags, [ConnectionFlags::ABNORMAL_CLOSE]);
    net.wind_down();
}
