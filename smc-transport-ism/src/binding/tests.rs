//! Two engines, each with a device of one machine, and nothing between them but a
//! queue of CLC bytes.

mod ends;

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::config::{Config, Offers};
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::Fixed;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::types::{Eid, Mac, PeerId};

mod busy;

use super::Binding;
use crate::device::{Gid128, IsmDevice};
use crate::in_process::{Device, Machine};

struct Side<D> {
    engine: Endpoint<Fixed<4, 4, 2, 2, 8, 8>>,
    binding: Binding<D>,
    conn: Option<ConnId>,
    inbox: Vec<u8>,
    events: Vec<Event>,
    /// Buffers that the engine has had memory for.
    buffers: Vec<BufferId>,
    attaches: bool,
    /// Of each DMB that was detached: whether it was discarded.
    discarded: Vec<bool>,
}

impl<D: IsmDevice> Side<D> {
    fn new(device: D, gid: u64, attaches: bool, configure: fn(&mut Config)) -> Self {
        let mut config = Config::new(PeerId::new(1, Mac::default()));
        config.offers = Offers::SMCD_V2;
        config.v2.ueids.push(Eid::user("TEST").unwrap()).unwrap();
        configure(&mut config);
        Self {
            engine: Endpoint::new(config, gid, Fixed::new()),
            binding: Binding::new(device, DeviceId(3)),
            conn: None,
            inbox: Vec::new(),
            events: Vec::new(),
            buffers: Vec::new(),
            attaches,
            discarded: Vec::new(),
        }
    }

    fn path(&self) -> IsmPath {
        let mut path = IsmPath::new(self.binding.id(), self.binding.gid());
        path.attaches = self.attaches;
        path
    }

    /// Everything that this side can do now; the bytes it sends.
    fn step(&mut self, now: Instant) -> Vec<u8> {
        let mut sent = Vec::new();
        if let Some(conn) = self.conn
            && !self.inbox.is_empty()
            && let ClcProgress::Consumed { len, .. } =
                self.engine.handle_clc(now, conn, &self.inbox).unwrap()
        {
            self.inbox.drain(..len);
        }
        loop {
            let mut bytes = [0; MAX_LENGTH];
            if let Some((_, len)) = self.engine.poll_clc(now, &mut bytes).unwrap() {
                sent.extend_from_slice(&bytes[..len]);
            } else if let Some(command) = self.engine.poll_ism(now, self.binding.id()) {
                if let IsmCommand::DetachDmb { discard, .. } = command {
                    self.discarded.push(discard);
                }
                if let IsmCommand::RegisterDmb { buffer, .. }
                | IsmCommand::AttachDmb { buffer, .. } = command
                {
                    self.buffers.push(buffer);
                }
                self.binding.execute(command);
            } else if let Some(completion) = self.binding.poll() {
                self.engine.handle_ism(now, completion);
            } else if let Some(event) = self.engine.poll_event() {
                self.events.push(event);
                if let Event::Proposed { conn } = event {
                    let proposal = self.engine.proposal(conn).unwrap();
                    let mut path = self.path();
                    path.reaches = proposal.ism_gids().find(|gid| self.binding.reaches(*gid));
                    let ism = [path];
                    let paths = Paths::new(&[], &ism);
                    self.engine.accept(now, conn, paths).unwrap();
                }
            } else if self.engine.poll_tcp().is_none() {
                return sent;
            }
        }
    }

    fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut conn = self.engine.conn(self.conn.unwrap()).unwrap();
        let fill = |space: &_| self.binding.fill(space, bytes).unwrap();
        conn.write(now, fill).unwrap() as usize
    }

    fn read(&mut self, now: Instant, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut conn = self.engine.conn(self.conn.unwrap()).unwrap();
        let take = |readable: &_| self.binding.take(readable, &mut bytes).unwrap();
        let len = conn.read(now, take).unwrap();
        bytes.truncate(len as usize);
        bytes
    }

    fn has_reported(&self, event: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(event)
    }
}

struct Pair<D> {
    sides: [Side<D>; 2],
    now: Instant,
}

impl Pair<Device> {
    fn connected(attaches: bool) -> Self {
        let machine = Machine::new(7);
        let device = |gid| machine.add(Gid128 { gid, ext: gid }).unwrap();
        Self::over(device(1), device(2), attaches)
    }
}

impl<D: IsmDevice> Pair<D> {
    fn over(client: D, server: D, attaches: bool) -> Self {
        Self::configured(client, server, attaches, |_| {})
    }

    fn configured(client: D, server: D, attaches: bool, configure: fn(&mut Config)) -> Self {
        let now = Instant::from_nanos(1);
        let mut client = Side::new(client, 1, attaches, configure);
        let mut server = Side::new(server, 2, attaches, configure);
        let options = ConnOptions::new(Subnets::default());
        let ism = [client.path()];
        let paths = Paths::new(&[], &ism);
        client.conn = Some(client.engine.connect(now, options.clone(), paths).unwrap());
        server.conn = Some(server.engine.listen(now, options).unwrap());
        let sides = [client, server];
        let mut pair = Self { sides, now };
        pair.run_until_idle();
        for side in &pair.sides {
            let up = |event: &Event| matches!(event, Event::Established { .. });
            assert!(side.has_reported(up), "{:?}", side.events);
        }
        pair
    }

    fn run_until_idle(&mut self) {
        for _ in 0..20 {
            for at in 0..2 {
                let sent = self.sides[at].step(self.now);
                self.sides[1 - at].inbox.extend(sent);
            }
        }
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn octets_cross_in_place_and_by_moves() {
    for attaches in [true, false] {
        let mut pair = Pair::connected(attaches);
        let message = bytes(500_000);
        let (mut written, mut read) = (0, Vec::new());
        while read.len() < message.len() {
            written += pair.sides[0].write(pair.now, &message[written..]);
            pair.run_until_idle();
            read.extend(pair.sides[1].read(pair.now, 10_007));
            pair.run_until_idle();
        }
        assert!(read == message, "attached: {attaches}");
        for side in &mut pair.sides {
            let conn = side.conn.unwrap();
            let mut conn = side.engine.conn(conn).unwrap();
            conn.shutdown(pair.now, Shutdown::Both);
        }
        pair.run_until_idle();
        for side in &mut pair.sides {
            let normal = |event: &Event| {
                matches!(
                    event,
                    Event::Closed {
                        reason: CloseReason::Normal,
                        ..
                    }
                )
            };
            assert!(side.has_reported(normal), "{:?}", side.events);
        }
        // Idle buffers, then the group, go back to the device in their time.
        for _ in 0..100 {
            pair.now = pair.now.after(Duration::from_secs(10));
            for side in &mut pair.sides {
                side.engine.handle_timeout(pair.now);
            }
            pair.run_until_idle();
        }
        for side in &mut pair.sides {
            assert_eq!(side.engine.usage().buffers, 0);
            assert!(side.binding.buffers.is_empty());
        }
    }
}

#[test]
fn a_device_that_goes_ends_its_peers_connections() {
    let mut pair = Pair::connected(true);
    let [client, server] = &mut pair.sides;
    let elsewhere = Machine::new(8).add(Gid128 { gid: 9, ext: 9 }).unwrap();
    drop(std::mem::replace(client.binding.device_mut(), elsewhere));
    server.step(pair.now);
    let lost = |event: &Event| {
        matches!(
            event,
            Event::Closed {
                reason: CloseReason::LinksLost,
                ..
            }
        )
    };
    assert!(server.has_reported(lost), "{:?}", server.events);
}

#[test]
fn no_signal_follows_a_move_that_failed() {
    //= D-053 test
    let mut pair = Pair::connected(false);
    let now = pair.now;
    let [writer, reader] = &mut pair.sides;
    assert_eq!(writer.write(now, b"lost"), 4);
    let mut signalled = 0;
    while let Some(mut command) = writer.engine.poll_ism(now, writer.binding.id()) {
        match &mut command {
            // As if the device could not do it.
            IsmCommand::Move { offset, .. } => *offset = 1 << 30,
            IsmCommand::Signal { .. } => signalled += 1,
            _ => {}
        }
        writer.binding.execute(command);
    }
    assert_eq!(signalled, 1);
    assert_eq!(reader.binding.poll(), None);
    // The engine gets the report, and from then on may end the connection.
    pair.run_until_idle();
    let [writer, reader] = &pair.sides;
    for side in [writer, reader] {
        let reset = |event: &Event| match event {
            Event::Closed { reason, .. } => *reason != CloseReason::Normal,
            _ => false,
        };
        assert!(side.has_reported(reset), "{:?}", side.events);
    }
}

#[test]
fn a_signal_that_fails_is_reported_to_the_engine() {
    //= D-053 test
    let mut pair = Pair::connected(true);
    let now = pair.now;
    let [writer, _] = &mut pair.sides;
    let conn = writer.conn.unwrap();
    assert_eq!(writer.write(now, b"there"), 5);
    let command = writer.engine.poll_ism(now, writer.binding.id());
    let Some(IsmCommand::Signal { cdc, .. }) = command else {
        panic!("{command:?}");
    };
    let own = |buffer: &&BufferId| writer.binding.buffers.dmb(**buffer).is_some();
    // Nothing of the peer's is attached to it.
    let buffer = *writer.buffers.iter().find(own).unwrap();
    writer
        .binding
        .execute(IsmCommand::Signal { conn, buffer, cdc });
    let failed = IsmCompletion::MoveFailed { conn };
    assert_eq!(writer.binding.poll(), Some(failed));
    assert_eq!(writer.binding.poll(), None);
}
