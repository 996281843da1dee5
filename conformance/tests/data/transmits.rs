//! A connection's transmit in one call sends what its steps send one by one.

use std::hash::{DefaultHasher, Hasher};

use conformance::check;
use conformance::direct::{DEVICE, Pair};
use conformance::script::Script;
use proptest::prelude::*;
use smc_proto::command::{DataTransmit, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::ConnOptions;
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::llc::{DeleteRkey, Entries, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{BufferSize, PeerId, Qpn};

/// What the application of a side does with a connection.
#[derive(Clone, Copy, Debug)]
enum Action {
    Write(usize),
    WriteUrgent,
    Read(usize),
    Close,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (1..40_000_usize).prop_map(Action::Write),
        1 => Just(Action::WriteUrgent),
        8 => (1..40_000_usize).prop_map(Action::Read),
        1 => Just(Action::Close),
    ]
}

fn options() -> ConnOptions {
    let mut options = ConnOptions::new(Subnets::default());
    options.receive_buffer = Some(BufferSize::K16);
    options.send_buffer = Some(BufferSize::at_least(32 << 10));
    options
}

fn act(pair: &mut Pair, side: usize, conn: ConnId, action: Action) -> Vec<u8> {
    let now = pair.now;
    let host = &mut pair.hosts[side];
    match action {
        Action::Write(length) => {
            host.write(now, conn, &vec![length as u8; length]);
        }
        Action::WriteUrgent => {
            if let Some(mut connection) = host.endpoint.conn(conn) {
                let _ = connection.commit_urgent(now, 1);
            }
        }
        Action::Read(length) => {
            let mut bytes = vec![0; length];
            let read = host.read(now, conn, &mut bytes);
            bytes.truncate(read);
            return bytes;
        }
        Action::Close => {
            if let Some(mut connection) = host.endpoint.conn(conn) {
                connection.shutdown(now, Shutdown::Both);
            }
        }
    }
    Vec::new()
}

fn fingerprint(pair: &mut Pair, side: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    let now = pair.now;
    pair.hosts[side].endpoint.fingerprint(now, &mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn transmits_and_steps_lead_to_the_same(
        actions in prop::collection::vec((0..2_usize, 0..3_usize, action()), 1..200),
    ) {
        //= CASE-C13 test
        //= CDC-023 test
        //= CDC-031 test
        let mut transmits = Pair::new(3);
        let conns: Vec<ConnId> = (0..3)
            .map(|_| transmits.open_with(options(), options()).0)
            .collect();
        let mut steps = transmits.clone();
        for (side, conn, action) in actions {
            let read = act(&mut transmits, side, conns[conn], action);
            prop_assert_eq!(&read, &act(&mut steps, side, conns[conn], action));
            for side in 0..2 {
                transmits.pump_data(side);
            }
            transmits.pump();
            steps.pump();
            for side in 0..2 {
                let (a, b) = (&transmits.hosts[side], &steps.hosts[side]);
                prop_assert_eq!(a.endpoint.statistics(), b.endpoint.statistics());
                prop_assert_eq!(fingerprint(&mut transmits, side), fingerprint(&mut steps, side));
            }
        }
    }
}

#[test]
fn a_transmit_holds_both_writes_round_the_end_of_the_ring() {
    //= CDC-026 test
    //= CDC-025 test
    let mut pair = Pair::new(1);
    let (a, b) = pair.open_with(options(), options());
    let now = pair.now;
    let mut transmit = DataTransmit::EMPTY;
    assert!(!pair.hosts[0].endpoint.poll_data(now, DEVICE, &mut transmit));
    let mut bytes = vec![0; 12 << 10];
    pair.hosts[0].write(now, a, &bytes);
    pair.pump_data(0);
    assert_eq!(pair.hosts[1].read(now, b, &mut bytes), 12 << 10);

    pair.pump();
    pair.hosts[0].write(now, a, &bytes);
    assert!(pair.hosts[0].endpoint.poll_data(now, DEVICE, &mut transmit));
    assert_eq!(
        (transmit.conn, transmit.writes.map(|write| write.len())),
        (a, [4 << 10, 8 << 10])
    );
    assert_eq!(
        transmit.writes[1].address + (12 << 10),
        transmit.writes[0].address
    );
    assert!(!pair.hosts[0].endpoint.poll_data(now, DEVICE, &mut transmit));
    assert_eq!(pair.hosts[0].endpoint.poll_rdma(now, DEVICE), None);
}

#[test]
fn a_write_is_bytes_at_an_address_and_a_send_behind_it_announces_them() {
    //= CDC-002 test
    //= CDC-024 test
    let mut pair = Pair::new(1);
    let (a, _) = pair.open_with(options(), options());
    let now = pair.now;
    pair.hosts[0].write(now, a, &[1, 2, 3]);
    let engine = &mut pair.hosts[0].endpoint;
    // All of a WRITE: a field for immediate data would have to be checked here.
    let Some(RdmaCommand::Write {
        link: written_on,
        conn,
        buffer: _,
        source,
        rkey: _,
        address: _,
    }) = engine.poll_rdma(now, DEVICE)
    else {
        panic!("a WRITE was due");
    };
    assert_eq!(conn, a);
    assert_eq!(source.iter().map(|part| part.length).sum::<u32>(), 3);
    let Some(RdmaCommand::Send { link, payload, .. }) = engine.poll_rdma(now, DEVICE) else {
        panic!("a SEND was due");
    };
    assert_eq!(link, written_on);
    let cdc = Cdc::parse(&payload).expect("a CDC message");
    assert_eq!((cdc.sequence, cdc.producer.count), (1, 3));
    assert_eq!(engine.poll_rdma(now, DEVICE), None);
}

#[test]
fn a_send_buffer_is_kept_until_the_rnic_has_read_it() {
    // Contract rule 7.
    let mut pair = Pair::new(1);
    let (a, _) = pair.open_with(options(), options());
    let now = pair.now;
    pair.hosts[0].write(now, a, &[7; 100]);
    let host = &mut pair.hosts[0].endpoint;
    let Some(RdmaCommand::Write { link, rkey, .. }) = host.poll_rdma(now, DEVICE) else {
        panic!("no WRITE");
    };

    // Before the CDC message is posted the peer withdraws its RMB: all is lost, and
    // nothing is left to send.
    let withdrawn = LlcMessage::DeleteRkey(DeleteRkey {
        reply: false,
        flags: RkeyFlags::empty(),
        unknown: 0,
        rkeys: Entries::inline([rkey]),
    });
    let payload = &withdrawn.emit_short(SmcVersion::V1).unwrap();
    host.handle_rdma(now, RdmaCompletion::Received { link, payload });
    let ended = std::iter::from_fn(|| host.poll_event())
        .any(|event| matches!(event, Event::Closed { conn, .. } if conn == a));
    assert!(ended);
    while host.poll_tcp().is_some() {}

    // The WRITE is unsignalled: only a completion behind it covers its end.
    let posted = std::iter::from_fn(|| host.poll_rdma(now, DEVICE)).collect::<Vec<_>>();
    let [RdmaCommand::Send { wr_id, .. }, RdmaCommand::Send { .. }] = posted[..] else {
        panic!("the CDC message, then the answer: {posted:?}");
    };
    assert_eq!(host.usage().connections, 1);
    host.handle_rdma(now, RdmaCompletion::Sent { link, wr_id });
    assert_eq!(host.usage().connections, 0);
}

#[test]
fn each_connection_of_a_link_has_a_turn_before_another_link_has_one() {
    let (mut s, [(many, first, _), (few, other, _)]) = Script::two_groups();
    // The peer of the first group.
    s.peer.id = PeerId::new(0, s.peer.mac);
    s.peer.qpn = Qpn::new(0x100);
    let mut conns = vec![first];
    conns.extend([2, 3].map(|rmb| s.client_joins(rmb).0));
    conns.push(other);
    for _ in 0..2 {
        for conn in &conns {
            let mut conn = s.endpoint.conn(*conn).expect("a connection");
            conn.commit(s.now, 1).expect("room");
        }
        s.pump();
        check!(
            s,
            [(); 4].map(|()| s.expect_cdc().0),
            [many, many, many, few]
        );
    }
    s.end();
}
