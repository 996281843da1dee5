//! What a peer may write to a DMB of ours through its device, and the outcome
//! (reliability C16, H2 to H4, H6 for SMC-D); `hostile_cdc.rs` has what cursors may claim.

use conformance::smcd::{DEVICE, Setup};
use conformance::world::World;
use smc_proto::connection::ApiMisuse;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::types::Cursor;
use smc_transport_sim::sim::SocketId;

/// Bytes of the ring of the smallest DMB.
const RING: u32 = 16_384 - 32;

const fn cursor(wrap: u16, count: u32) -> Cursor {
    Cursor { wrap, count }
}

/// A connection whose client is about to misbehave.
struct Attack {
    pair: World,
    near: SocketId,
    far: SocketId,
}

impl Attack {
    fn begin(attaches: bool) -> Self {
        let mut pair = Setup::new(attaches).build();
        let [near, far] = pair.connect();
        Self { pair, near, far }
    }

    /// The client's device writes these bytes to the head of the server's DMB.
    fn head(&mut self, bytes: [u8; 32]) {
        let conn = self.pair.conn(self.near);
        let engine = self.pair.sim.endpoint(self.pair.client).unwrap();
        let buffer = engine.conn(conn).unwrap().send_space().unwrap().buffer;
        let fabric = self.pair.sim.fabric();
        fabric
            .ism_write(self.pair.client, buffer, 0, &bytes, true)
            .unwrap();
        self.pair.run(Duration::from_millis(1));
    }

    fn signal(&mut self, producer: Cursor, consumer: Cursor) {
        let cdc = CdcIsm {
            producer,
            consumer,
            ..CdcIsm::default()
        };
        self.head(cdc.emit(Endianness::NATIVE));
    }

    /// Bytes the server could read now.
    fn readable(&mut self) -> Option<u32> {
        let conn = self.pair.conn(self.far);
        let engine = self.pair.sim.endpoint(self.pair.server).unwrap();
        Some(engine.conn(conn)?.readable()?.len())
    }

    fn closed(&self) -> Option<CloseReason> {
        self.pair.sim.state(self.far).unwrap().closed
    }

    /// The server aborted the connection because of its peer, and notified it.
    #[track_caller]
    fn assert_aborted(&mut self) {
        self.pair.run(Duration::from_secs(6));
        assert_eq!(self.closed(), Some(CloseReason::PeerMisbehaved));
        // (Its engine did not do what its device did, and may find the answer odd.)
        assert!(self.pair.sim.state(self.near).unwrap().closed.is_some());
    }
}

#[test]
fn a_cursor_that_goes_back_is_not_followed() {
    //= CASE-C21 test
    let mut attack = Attack::begin(true);
    attack.pair.sim.app_mut(attack.far).unwrap().pause(true);
    attack.signal(cursor(0, 100), cursor(0, 0));
    assert_eq!(attack.readable(), Some(100));
    attack.signal(cursor(0, 40), cursor(0, 0));
    assert_eq!((attack.readable(), attack.closed()), (Some(100), None));
    // The same once more changes nothing, and what comes then counts from where it was.
    attack.signal(cursor(0, 40), cursor(0, 0));
    attack.signal(cursor(0, 140), cursor(0, 0));
    assert_eq!((attack.readable(), attack.closed()), (Some(140), None));
    let engine = attack.pair.sim.endpoint(attack.pair.server).unwrap();
    assert_eq!(engine.statistics().backward_cursors, 2);
}

#[test]
fn the_first_byte_decides_what_the_head_is() {
    //= D-043 test
    for kind in [0x01, 0x7f, 0xff, 0x2c] {
        let mut attack = Attack::begin(true);
        let mut head = CdcIsm::default().emit(Endianness::NATIVE);
        head[0] = kind;
        attack.head(head);
        attack.assert_aborted();
    }
    let mut attack = Attack::begin(true);
    attack.head([0; 32]);
    assert_eq!(attack.closed(), None, "nothing was written yet");
}

#[test]
fn flags_that_mean_nothing_here_are_ignored() {
    let mut attack = Attack::begin(true);
    let cdc = CdcIsm {
        producer_flags: ProducerFlags::FAILOVER_VALIDATION,
        producer: cursor(0, 3),
        ..CdcIsm::default()
    };
    attack.pair.sim.app_mut(attack.far).unwrap().pause(true);
    attack.head(cdc.emit(Endianness::NATIVE));
    assert_eq!((attack.readable(), attack.closed()), (Some(3), None));
    // Every flag there is, and every byte that is reserved.
    let cdc = CdcIsm {
        producer: cursor(0, 3),
        producer_flags: ProducerFlags::all(),
        connection_flags: ConnectionFlags::all(),
        ..CdcIsm::default()
    };
    let mut head = cdc.emit(Endianness::NATIVE);
    for at in (1..8).chain(14..16).chain(24..32) {
        head[at] = 0xff;
    }
    attack.head(head);
    attack.pair.run(Duration::from_secs(6));
    assert_eq!(attack.closed(), Some(CloseReason::PeerAbort));
}

#[test]
fn a_peer_that_shrank_its_dmb_is_not_written_past() {
    //= CASE-H06 test
    // It announces 16 KiB and has less: the device refuses to bind, and both know.
    let mut pair = Setup::new(true).build();
    let (near, far) = pair.sim.connect(pair.client, pair.server);
    pair.run(Duration::from_millis(10));
    let conn = pair.conn(near);
    let space = {
        let engine = pair.sim.endpoint(pair.client).unwrap();
        engine.conn(conn).unwrap().send_space().unwrap()
    };
    assert_eq!(space.len(), RING);
    assert_eq!(space.segments[0].offset, 32, "the head is not written over");
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.client).unwrap();
    let misuse = engine.conn(conn).unwrap().commit(now, RING + 1);
    assert_eq!(misuse, Err(ApiMisuse::BeyondSpace { space: RING }));
    let error = pair
        .sim
        .fabric()
        .ism_write(pair.client, space.buffer, 16_384, &[1], false);
    assert!(error.is_err(), "one octet behind the DMB");
    let error = pair
        .sim
        .fabric()
        .ism_write(pair.client, space.buffer, u32::MAX, &[1; 9], false);
    assert!(error.is_err(), "a sum that wraps");
    let _ = (far, DEVICE);
}
