//! Two engines, each with RNICs that one fabric joins, and nothing between them but a
//! queue of CLC bytes.

use std::time::Duration as Time;

use rustix::event::{PollFd, PollFlags, poll};
use smc_proto::command::{QpAddress, RdmaCommand};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::config::{Config, Offers};
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{LocalPath, PathEvent, RoceVersion};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::types::{DiagnosisCode, Eid, Gid, Mac, Mtu, PeerId, Psn, Qpn};

use super::{Binding, PathChange};
use crate::rnic::DeviceEvent;
use crate::soft::{Fabric, SoftRnic};

struct Side {
    number: u8,
    engine: Endpoint<Owned>,
    binding: Binding<SoftRnic>,
    conn: Option<ConnId>,
    inbox: Vec<u8>,
    events: Vec<Event>,
    roce: RoceVersion,
}

impl Side {
    fn new(fabric: &Fabric, number: u8, how: &How) -> Self {
        let mut config = Config::new(PeerId::new(u16::from(number), Mac([number; 6])));
        config.offers = match how.roce {
            RoceVersion::V1 => Offers::SMCR_V1,
            RoceVersion::V2 => Offers::SMCR_V2,
        };
        config.eye_catcher = how.eye_catcher;
        config.timeouts.confirm_link_delay = Duration::ZERO;
        config.v2.ueids.push(Eid::user("TEST").unwrap()).unwrap();
        let storage = Owned::new(Limits::for_connections(8));
        let mut binding = Binding::new().unwrap();
        for device in 0..how.rnics {
            let rnic = fabric.rnic(how.inline);
            binding.add(DeviceId(device), rnic).unwrap();
        }
        Self {
            number,
            engine: Endpoint::new(config, number.into(), storage),
            binding,
            conn: None,
            inbox: Vec::new(),
            events: Vec::new(),
            roce: how.roce,
        }
    }

    fn paths(&self) -> Vec<LocalPath> {
        let path = |device: DeviceId| {
            let mut path = LocalPath::new(
                device,
                1,
                Gid([
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0xff,
                    0xff,
                    10,
                    0,
                    device.0,
                    self.number,
                ]),
                Mac([2, 0, 0, 0, device.0, self.number]),
            );
            path.subnet_match = true;
            path.roce = self.roce;
            path
        };
        self.binding.devices().map(path).collect()
    }

    /// Everything that this side can do now; the bytes it sends.
    fn turn(&mut self, now: Instant) -> Vec<u8> {
        let mut sent = Vec::new();
        if let Some(conn) = self.conn
            && !self.inbox.is_empty()
            && let ClcProgress::Consumed { len, .. } =
                self.engine.handle_clc(now, conn, &self.inbox).unwrap()
        {
            self.inbox.drain(..len);
        }
        loop {
            self.engine.handle_timeout(now);
            let mut bytes = [0; MAX_LENGTH];
            if let Some((_, len)) = self.engine.poll_clc(now, &mut bytes).unwrap() {
                sent.extend_from_slice(&bytes[..len]);
            } else if self.binding.carry_out(&mut self.engine, now) {
            } else if let Some(completion) = self.binding.poll() {
                self.engine.handle_rdma(now, completion);
            } else if let Some(PathChange::Lost(event)) = self.binding.poll_path() {
                self.engine.handle_path(now, event);
            } else if let Some(event) = self.engine.poll_event() {
                self.events.push(event);
                if let Event::Proposed { conn } = event {
                    let paths = self.paths();
                    self.engine.accept(now, conn, &paths).unwrap();
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
        let id = self.conn.unwrap();
        let mut conn = self.engine.conn(id).unwrap();
        let take = |readable: &_| self.binding.take(id, readable, &mut bytes).unwrap();
        let len = conn.read(now, take).unwrap();
        bytes.truncate(len as usize);
        bytes
    }

    fn observed(&self, event: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(event)
    }

    fn closed(&self) -> Option<CloseReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { reason, .. } => Some(*reason),
            _ => None,
        })
    }
}

/// How two sides are made.
struct How {
    rnics: u8,
    inline: u32,
    roce: RoceVersion,
    eye_catcher: bool,
}

const PLAIN: How = How {
    rnics: 1,
    inline: 64,
    roce: RoceVersion::V2,
    eye_catcher: false,
};

struct Pair {
    fabric: Fabric,
    sides: [Side; 2],
    now: Instant,
}

impl Pair {
    fn new(how: &How) -> Self {
        let fabric = Fabric::default();
        let sides = [1, 2].map(|number| Side::new(&fabric, number, how));
        let now = Instant::from_nanos(1);
        Self { fabric, sides, now }
    }

    /// A client of the first side.
    fn connect(&mut self) {
        let options = ConnOptions::new(Subnets::default());
        let [client, server] = &mut self.sides;
        let paths = client.paths();
        let conn = client.engine.connect(self.now, options.clone(), &paths);
        client.conn = Some(conn.unwrap());
        server.conn = Some(server.engine.listen(self.now, options).unwrap());
        self.run_until_idle();
    }

    fn connected(how: &How) -> Self {
        let mut pair = Self::new(how);
        pair.connect();
        pair.until(|sides| {
            let up = |event: &Event| matches!(event, Event::Established { .. });
            sides.iter().all(|side| side.observed(up))
        });
        pair
    }

    fn run_until_idle(&mut self) {
        for _ in 0..20 {
            for at in 0..2 {
                let sent = self.sides[at].turn(self.now);
                self.sides[1 - at].inbox.extend(sent);
            }
        }
    }

    /// Lets time go by until something holds: in the world too, where errands run.
    fn until(&mut self, holds: impl Fn(&[Side; 2]) -> bool) {
        for _ in 0..2000 {
            self.run_until_idle();
            if holds(&self.sides) {
                return;
            }
            self.now = self.now.after(Duration::from_millis(1));
            std::thread::sleep(Time::from_millis(1));
        }
        for side in &self.sides {
            eprintln!("{:?} {:?}", side.events, side.binding.last_refusal());
        }
        panic!("it does not come about");
    }

    /// Bytes go from one side to the other, with `meanwhile` once at half of them.
    fn carry(&mut self, from: usize, len: usize, mut meanwhile: impl FnMut(&mut Self)) {
        let message: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        let (mut written, mut read, mut half) = (0, Vec::new(), false);
        while read.len() < len {
            written += self.sides[from].write(self.now, &message[written..]);
            if written > len / 2 && !std::mem::replace(&mut half, true) {
                meanwhile(self);
            }
            self.run_until_idle();
            read.extend(self.sides[1 - from].read(self.now, 10_007));
            self.run_until_idle();
            self.now = self.now.after(Duration::from_millis(1));
        }
        assert!(read == message);
    }
}

#[test]
fn bytes_cross_in_both_versions_inline_or_not_with_eye_catchers_or_not() {
    for roce in [RoceVersion::V1, RoceVersion::V2] {
        for (inline, eye_catcher) in [(0, false), (64, true), (1024, false)] {
            let how = How {
                inline,
                roce,
                eye_catcher,
                ..PLAIN
            };
            let mut pair = Pair::connected(&how);
            pair.carry(0, 300_000, |_| {});
            pair.carry(1, 40, |_| {});
            pair.carry(1, 300_000, |_| {});
            for side in &mut pair.sides {
                let conn = side.conn.unwrap();
                let mut conn = side.engine.conn(conn).unwrap();
                conn.shutdown(pair.now, Shutdown::Both);
            }
            pair.run_until_idle();
            for side in &pair.sides {
                assert_eq!(side.closed(), Some(CloseReason::Normal));
            }
            // Idle buffers, then the group, go back to the device in their time.
            for _ in 0..100 {
                pair.now = pair.now.after(Duration::from_secs(10));
                pair.run_until_idle();
            }
            let fabric = pair.fabric.clone();
            pair.until(|_| fabric.usage() == (0, 0));
            for side in &mut pair.sides {
                assert_eq!(side.binding.usage(), (0, 0));
                assert!(side.binding.last_refusal().is_none());
            }
        }
    }
}

#[test]
fn a_turn_takes_one_doorbell() {
    let mut pair = Pair::connected(&PLAIN);
    let before = pair.fabric.doorbells();
    pair.sides[0].write(pair.now, b"one WRITE and one SEND");
    let Side {
        engine, binding, ..
    } = &mut pair.sides[0];
    assert!(binding.carry_out(engine, pair.now));
    assert_eq!(pair.fabric.doorbells(), before + 1);
}

#[test]
fn connections_move_to_the_other_rnic_and_lose_no_byte() {
    for cut in 0..2 {
        let mut pair = Pair::connected(&How { rnics: 2, ..PLAIN });
        pair.until(|sides| {
            let links = |side: &Side| {
                let up = |event: &&Event| matches!(event, Event::LinkUp { .. });
                side.events.iter().filter(up).count() == 2
            };
            sides.iter().all(links)
        });
        pair.carry(0, 400_000, |pair| {
            // The client's first or second, and with it its peer at the server.
            pair.fabric.cut(cut);
            pair.fabric.cut(cut + 2);
        });
        let down = |event: &Event| matches!(event, Event::LinkDown { .. });
        assert!(pair.sides.iter().all(|side| side.observed(down)));
        pair.carry(1, 100_000, |_| {});
    }
}

#[test]
fn a_queue_pair_that_is_slow_to_go_delays_no_other() {
    let mut pair = Pair::connected(&How { rnics: 2, ..PLAIN });
    pair.until(|sides| {
        let up = |event: &&Event| matches!(event, Event::LinkUp { .. });
        let links = |side: &Side| side.events.iter().filter(up).count() == 2;
        sides.iter().all(links)
    });
    pair.fabric.hold_destroying(true);
    pair.carry(0, 400_000, |pair| {
        pair.fabric.cut(0);
        pair.fabric.cut(2);
    });
    // Both ends have taken the link down, and go on.
    let fabric = pair.fabric.clone();
    pair.until(|_| fabric.destroying() >= 2);
    pair.carry(1, 400_000, |_| {});
    assert!(fabric.destroying() >= 2);
    let (_, before) = fabric.usage();
    pair.fabric.hold_destroying(false);
    pair.until(|_| fabric.usage().1 < before);
}

#[test]
fn a_port_that_changed_has_its_paths_or_is_down() {
    let (device, port) = (DeviceId(0), 1);
    let changed = PathChange::Changed { device, port };
    let events = |paths| changed.events(|_, _| paths).collect::<Vec<_>>();
    assert_eq!(events(Vec::new()), [PathEvent::PortDown { device, port }]);
    let paths = Pair::connected(&PLAIN).sides[0].paths();
    let up = paths.iter().copied().map(PathEvent::PortUp);
    assert_eq!(events(paths.clone()), up.collect::<Vec<_>>());
    let removed = PathEvent::DeviceRemoved { device };
    let lost = PathChange::Lost(removed).events(|_, _| unreachable!("no port changed"));
    assert_eq!(lost.collect::<Vec<_>>(), [removed]);
}

#[test]
fn a_port_without_carrier_is_reported_and_a_device_that_goes_ends_its_links() {
    let mut pair = Pair::connected(&PLAIN);
    let client = &mut pair.sides[0];
    pair.fabric.report(0, DeviceEvent::PortChanged { port: 1 });
    pair.fabric.report(0, DeviceEvent::PortChanged { port: 1 });
    assert!(client.binding.poll().is_none());
    let device = DeviceId(0);
    let changed = PathChange::Changed { device, port: 1 };
    assert_eq!(client.binding.poll_path(), Some(changed));
    assert_eq!(client.binding.poll_path(), None);

    pair.fabric.report(0, DeviceEvent::Removed);
    let failed = client.binding.poll();
    let cause = LinkFailure::DeviceRemoved;
    assert!(
        matches!(failed, Some(RdmaCompletion::LinkFailed { cause: why, .. }) if why == cause),
        "{failed:?}"
    );
    let removed = PathEvent::DeviceRemoved { device };
    let change = client.binding.poll_path();
    assert_eq!(change, Some(PathChange::Lost(removed)));
    client.engine.handle_path(pair.now, removed);
    pair.run_until_idle();
    assert_eq!(pair.sides[0].closed(), Some(CloseReason::LinksLost));
    for _ in 0..100 {
        pair.now = pair.now.after(Duration::from_secs(10));
        pair.run_until_idle();
    }
    // All of it was taken down, and the place is free. Events of the device are not reported
    // again: what is gone would report errors for ever.
    pair.fabric.report(0, DeviceEvent::PortUp { port: 1 });
    let client = &mut pair.sides[0];
    assert!(client.binding.poll().is_none());
    pair.fabric.report(0, DeviceEvent::PortUp { port: 1 });
    let mut polled = [PollFd::new(&client.binding, PollFlags::IN)];
    assert_eq!(poll(&mut polled, Some(&Default::default())), Ok(0));
    assert_eq!(client.binding.usage(), (0, 0));
    let again = pair.fabric.rnic(0);
    client.binding.add(device, again).unwrap();
    let again = pair.fabric.rnic(0);
    assert!(client.binding.add(device, again).is_err());
}

#[test]
fn memory_that_may_not_be_locked_leads_to_tcp_and_the_limit_is_named() {
    let mut pair = Pair::new(&PLAIN);
    // Enough for the messages of both sides, not for buffers.
    pair.fabric.lock_at_most(100_000);
    pair.connect();
    pair.until(|sides| {
        let fell = |event: &Event| matches!(event, Event::FellBack { .. });
        sides.iter().all(|side| side.observed(fell))
    });
    let why = pair.sides.iter().find_map(|side| {
        side.events.iter().find_map(|event| match event {
            Event::FellBack { why, .. } if why.code == DiagnosisCode::MEMORY => Some(side),
            _ => None,
        })
    });
    let refusal = why.unwrap().binding.last_refusal().unwrap();
    assert!(refusal.is_memory_limit());
    assert!(refusal.to_string().contains("ulimit -l"), "{refusal}");
}

#[test]
fn a_peer_that_is_slow_to_find_delays_no_other() {
    let mut pair = Pair::connected(&PLAIN);
    pair.fabric.hold_connecting(true);
    let side = &mut pair.sides[0];
    let up = |event: &Event| match event {
        Event::LinkUp { link, .. } => Some(*link),
        _ => None,
    };
    let link = side.events.iter().find_map(up).unwrap();
    let peer = QpAddress::new(Qpn::new(2), Psn::new(0), Gid::default(), Mac::default());
    // The same queue pair to the same peer once more: the device does not mind.
    let again = RdmaCommand::ConnectQp {
        link,
        peer,
        mtu: Mtu::M1024,
        hop_limit: 1,
    };
    side.binding.execute(DeviceId(0), again);
    while pair.fabric.connecting() == 0 {
        std::thread::sleep(Time::from_millis(1));
    }
    pair.carry(0, 100_000, |_| {});
    assert_eq!(pair.fabric.connecting(), 1);
    pair.fabric.hold_connecting(false);
}
