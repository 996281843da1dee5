//! What every RNIC does for a binding, whoever makes it: two bindings whose devices reach
//! each other, and commands as an engine gives them.

use std::time::{Duration as Time, Instant as Clock};

use rustix::event::{PollFd, PollFlags, poll};
use smc_proto::command::{BufferKind, BufferSpans, QpAddress, RdmaCommand, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, ConnId, DeviceId, LinkId, WrId};
use smc_proto::wire::types::{Gid, Mac, Mtu, Psn, Qpn, RToken};

use super::{How, PLAIN, Pair};
use crate::binding::Binding;
use crate::rnic::Rnic;

const DEVICE: DeviceId = DeviceId(0);

/// Handles, which only an engine can make.
#[derive(Clone, Copy)]
struct Handles {
    link: LinkId,
    conn: ConnId,
    rmb: BufferId,
    send: BufferId,
}

impl Handles {
    fn new() -> Self {
        let mut pair = Pair::new(&How { rnics: 1, ..PLAIN });
        let [client, server] = &mut pair.sides;
        let options = smc_proto::endpoint::ConnOptions::new(Default::default());
        let paths = client.paths();
        let conn = client.engine.connect(pair.now, options.clone(), &paths);
        client.conn = Some(conn.unwrap());
        let conn = server.engine.listen(pair.now, options).unwrap();
        let proposal = client.turn(pair.now);
        let _ = server.engine.handle_clc(pair.now, conn, &proposal).unwrap();
        server.engine.accept(pair.now, conn, &paths).unwrap();
        let (mut link, mut rmb, mut send) = (None, None, None);
        while let Some(command) = server.engine.poll_rdma(pair.now, DEVICE) {
            match command {
                RdmaCommand::CreateQp { link: of, .. } => link = Some(of),
                RdmaCommand::AllocBuffer { buffer, kind, .. } => match kind {
                    BufferKind::Rmb => rmb = Some(buffer),
                    BufferKind::Send => send = Some(buffer),
                },
                _ => {}
            }
        }
        Self {
            link: link.unwrap(),
            conn,
            rmb: rmb.unwrap(),
            send: send.unwrap(),
        }
    }
}

/// One end, and what it heard.
struct End<R: Rnic> {
    binding: Binding<R>,
    of: Handles,
    qpn: Qpn,
    rmb: Option<RToken>,
    received: Vec<Vec<u8>>,
    sent: u32,
    failed: Option<(LinkFailure, Option<ConnId>)>,
    others: Vec<RdmaCompletion<'static>>,
}

const LENGTH: u32 = 10_000;

impl<R: Rnic> End<R> {
    fn new(rnic: R, gid_index: u16, receive_size: u32) -> Self {
        let mut binding = Binding::new().unwrap();
        binding.add(DEVICE, rnic).unwrap();
        let of = Handles::new();
        let mut end = Self {
            binding,
            of,
            qpn: Qpn::default(),
            rmb: None,
            received: Vec::new(),
            sent: 0,
            failed: None,
            others: Vec::new(),
        };
        end.binding.execute(
            DEVICE,
            RdmaCommand::CreateQp {
                link: of.link,
                device: DEVICE,
                port: 1,
                gid_index,
                receive_size,
            },
        );
        for (buffer, kind) in [(of.rmb, BufferKind::Rmb), (of.send, BufferKind::Send)] {
            end.binding.execute(
                DEVICE,
                RdmaCommand::AllocBuffer {
                    buffer,
                    kind,
                    elements: 1,
                    element_size: LENGTH,
                    eye_catcher: false,
                },
            );
            let link = of.link;
            let register = RdmaCommand::RegisterBuffer { buffer, link };
            end.binding.execute(DEVICE, register);
        }
        end.listen();
        end
    }

    /// Hears everything that is there.
    fn listen(&mut self) {
        while let Some(completion) = self.binding.poll() {
            match completion {
                RdmaCompletion::Received { payload, .. } => self.received.push(payload.to_vec()),
                RdmaCompletion::Sent { wr_id, .. } => {
                    assert_eq!(wr_id.0, self.sent);
                    self.sent += 1;
                }
                RdmaCompletion::QpCreated { qpn, .. } => self.qpn = qpn,
                RdmaCompletion::BufferRegistered { buffer, rtoken, .. } => {
                    if buffer == self.of.rmb {
                        self.rmb = Some(rtoken);
                    }
                }
                RdmaCompletion::LinkFailed { cause, conn, .. } => {
                    assert_eq!(self.failed, None, "told twice");
                    self.failed = Some((cause, conn));
                }
                RdmaCompletion::BufferAllocated { .. } => {}
                RdmaCompletion::QpConnected { link } => {
                    self.others.push(RdmaCompletion::QpConnected { link });
                }
                RdmaCompletion::QpActive { link } => {
                    self.others.push(RdmaCompletion::QpActive { link });
                }
                RdmaCompletion::QpDrained { link } => {
                    self.others.push(RdmaCompletion::QpDrained { link });
                }
                RdmaCompletion::QpDestroyed { link } => {
                    self.others.push(RdmaCompletion::QpDestroyed { link });
                }
                RdmaCompletion::BufferDeregistered { .. } | RdmaCompletion::BufferFreed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn command(&mut self, command: RdmaCommand) {
        self.binding.execute(DEVICE, command);
    }

    fn send(&mut self, number: u32) {
        let mut payload = [0; 44];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        let (link, wr_id) = (self.of.link, WrId(number));
        self.command(RdmaCommand::Send {
            link,
            wr_id,
            payload,
        });
    }

    /// Writes pieces of the send buffer to the peer's.
    fn write(&mut self, source: [Segment; 2], to: RToken, offset: u64) {
        self.command(RdmaCommand::Write {
            link: self.of.link,
            conn: self.of.conn,
            buffer: self.of.send,
            source,
            rkey: to.rkey,
            address: to.address + offset,
        });
    }

    fn memory(&mut self, buffer: BufferId, offset: u32, length: u32) -> Vec<u8> {
        let mut octets = vec![0; length as usize];
        let segments = [Segment { offset, length }, Segment::default()];
        let spans = BufferSpans {
            buffer,
            segments,
            eye_catcher_at: None,
        };
        self.binding
            .take(self.of.conn, &spans, &mut octets)
            .unwrap();
        octets
    }
}

/// Two ends that reach each other.
struct Ends<R: Rnic>([End<R>; 2]);

impl<R: Rnic> Ends<R> {
    fn up(make: &impl Fn() -> R, gid: (u16, Gid), receive_size: u32) -> Self {
        Self::sized(make, gid, [receive_size; 2])
    }

    fn sized(make: &impl Fn() -> R, (gid_index, gid): (u16, Gid), sizes: [u32; 2]) -> Self {
        let mut ends = Self(sizes.map(|size| End::new(make(), gid_index, size)));
        let psn = |at: usize| Psn::new(0xff_fff0 + at as u32);
        for at in 0..2 {
            let peer = QpAddress {
                qpn: ends.0[1 - at].qpn,
                psn: psn(1 - at),
                gid,
                mac: Mac::default(),
            };
            let link = ends.0[at].of.link;
            ends.0[at].command(RdmaCommand::ConnectQp {
                link,
                peer,
                mtu: Mtu::M1024,
                hop_limit: 1,
            });
            let connected = RdmaCompletion::QpConnected { link };
            ends.until(|ends| ends[at].others.contains(&connected));
        }
        for at in 0..2 {
            let link = ends.0[at].of.link;
            let psn = psn(at);
            ends.0[at].command(RdmaCommand::ActivateQp { link, psn });
            let active = RdmaCompletion::QpActive { link };
            ends.until(|ends| ends[at].others.contains(&active));
        }
        ends
    }

    /// Sleeps at the descriptors until something holds.
    fn until(&mut self, holds: impl Fn(&[End<R>; 2]) -> bool) {
        let begun = Clock::now();
        loop {
            self.0.iter_mut().for_each(End::listen);
            if holds(&self.0) {
                return;
            }
            assert!(
                begun.elapsed() < Time::from_secs(20),
                "it does not come about"
            );
            let [a, b] = &self.0;
            let mut fds = [
                PollFd::new(&a.binding, PollFlags::IN),
                PollFd::new(&b.binding, PollFlags::IN),
            ];
            let time = Time::from_secs(5).try_into().unwrap();
            let woken = poll(&mut fds, Some(&time)).unwrap();
            assert!(woken > 0, "nothing happens, and it does not come about");
        }
    }

    /// Takes everything down, in the order of an engine.
    fn down(mut self) {
        for at in 0..2 {
            let Handles {
                link, rmb, send, ..
            } = self.0[at].of;
            self.0[at].command(RdmaCommand::QpToError { link });
            let drained = RdmaCompletion::QpDrained { link };
            self.until(|ends| ends[at].others.contains(&drained));
            for buffer in [rmb, send] {
                self.0[at].command(RdmaCommand::DeregisterBuffer { buffer, link });
                self.0[at].command(RdmaCommand::FreeBuffer { buffer });
            }
            self.0[at].command(RdmaCommand::DestroyQp { link });
            let destroyed = RdmaCompletion::QpDestroyed { link };
            self.until(|ends| ends[at].others.contains(&destroyed));
            assert_eq!(self.0[at].binding.usage(), (0, 0));
        }
    }
}

fn piece(offset: u32, length: u32) -> Segment {
    Segment { offset, length }
}

/// The contract. `make` opens the device, `gid` is one of its GIDs.
pub(super) fn holds<R: Rnic>(make: impl Fn() -> R, gid: (u16, Gid)) {
    writes_are_there_when_the_send_behind_them_is(&make, gid);
    bursts_arrive_in_order(&make, gid);
    large_messages_arrive_whole(&make, gid);
    a_write_to_where_it_may_not_names_its_connection(&make, gid);
    a_message_longer_than_the_receive_breaks_the_link(&make, gid);
}

fn writes_are_there_when_the_send_behind_them_is<R: Rnic>(make: &impl Fn() -> R, gid: (u16, Gid)) {
    let mut ends = Ends::up(make, gid, 44);
    let [a, b] = &mut ends.0;
    let theirs = b.rmb.unwrap();
    let octets: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    let all = [piece(0, LENGTH), Segment::default()];
    let spans = BufferSpans {
        buffer: a.of.send,
        segments: all,
        eye_catcher_at: None,
    };
    assert_eq!(a.binding.fill(&spans, &octets), Ok(LENGTH));
    // Long, in two pieces, and as short as may go inline.
    a.write([piece(100, 5000), Segment::default()], theirs, 0);
    a.write([piece(9000, 1000), piece(0, 500)], theirs, 5000);
    a.write([piece(7, 3), Segment::default()], theirs, 9000);
    a.send(0);
    ends.until(|[a, b]| a.sent == 1 && b.received.len() == 1);
    let [_, b] = &mut ends.0;
    assert_eq!(b.memory(b.of.rmb, 0, 5000), octets[100..5100]);
    assert_eq!(b.memory(b.of.rmb, 5000, 1000), octets[9000..]);
    assert_eq!(b.memory(b.of.rmb, 6000, 500), octets[..500]);
    assert_eq!(b.memory(b.of.rmb, 9000, 4), [7, 8, 9, 0]);
    ends.down();
}

fn bursts_arrive_in_order<R: Rnic>(make: &impl Fn() -> R, gid: (u16, Gid)) {
    let mut ends = Ends::up(make, gid, 8192);
    for round in 1..=40 {
        for number in (round - 1) * 16..round * 16 {
            ends.0.iter_mut().for_each(|end| end.send(number));
        }
        let all = round * 16;
        ends.until(|ends| {
            let done = |end: &End<R>| end.sent == all && end.received.len() == all as usize;
            ends.iter().all(done)
        });
    }
    for end in &ends.0 {
        for (number, message) in (0u32..).zip(&end.received) {
            assert_eq!(message.len(), 44);
            assert_eq!(message[..4], number.to_be_bytes());
        }
    }
    ends.down();
}

fn large_messages_arrive_whole<R: Rnic>(make: &impl Fn() -> R, gid: (u16, Gid)) {
    let mut ends = Ends::up(make, gid, 8192);
    for (number, length) in (0..).zip([45, 88, 5000, 8192]) {
        let message: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
        let [a, _] = &mut ends.0;
        let link = a.of.link;
        a.binding.send_large(link, WrId(number), &message);
        ends.until(|[a, b]| a.sent == number + 1 && b.received.len() as u32 == number + 1);
        assert!(ends.0[1].received.last() == Some(&message), "{length}");
    }
    ends.down();
}

fn a_write_to_where_it_may_not_names_its_connection<R: Rnic>(
    make: &impl Fn() -> R,
    gid: (u16, Gid),
) {
    let ten = [piece(0, 10), Segment::default()];
    for case in 0..4 {
        let mut ends = Ends::up(make, gid, 44);
        let [a, b] = &mut ends.0;
        let mut theirs = b.rmb.unwrap();
        let mut offset = 0;
        match case {
            // One octet beyond the end.
            0 => offset = u64::from(LENGTH) - 9,
            // Before the beginning.
            1 => theirs.address -= 1,
            // Another key.
            2 => theirs.rkey.0 ^= 0x10,
            // A registration that was undone.
            _ => {
                let (buffer, link) = (b.of.rmb, b.of.link);
                b.command(RdmaCommand::DeregisterBuffer { buffer, link });
            }
        }
        let conn = a.of.conn;
        a.write(ten, theirs, offset);
        a.send(0);
        ends.until(|ends| ends.iter().all(|end| end.failed.is_some()));
        let [a, b] = &ends.0;
        assert_eq!(a.failed, Some((LinkFailure::RemoteAccess, Some(conn))));
        assert_eq!((a.sent, b.received.len()), (0, 0), "case {case}");
        // What is posted now is not told of any more.
        ends.0[0].send(1);
        ends.down();
    }
}

fn a_message_longer_than_the_receive_breaks_the_link<R: Rnic>(
    make: &impl Fn() -> R,
    gid: (u16, Gid),
) {
    let mut ends = Ends::sized(make, gid, [8192, 44]);
    let [a, _] = &mut ends.0;
    let link = a.of.link;
    a.binding.send_large(link, WrId(0), &[1; 100]);
    ends.until(|ends| ends.iter().all(|end| end.failed.is_some()));
    assert!(ends.0[1].received.is_empty());
    assert_eq!(ends.0[0].sent, 0);
    ends.down();
    // An end of version 1 has no room for one of its own.
    let mut ends = Ends::up(make, gid, 44);
    let [a, _] = &mut ends.0;
    a.binding.send_large(link, WrId(0), &[1; 4097]);
    ends.until(|[a, _]| a.failed.is_some());
    assert_eq!(ends.0[0].failed, Some((LinkFailure::Other, None)));
    ends.down();
}

#[test]
fn rnics_of_the_tests_keep_the_contract() {
    let fabric = crate::soft::Fabric::default();
    for inline in [0, 64, 4096] {
        holds(|| fabric.rnic(inline), (0, Gid::default()));
    }
}

/// On a machine with an RNIC that has an IPv4 GID: with it.
#[cfg(feature = "rdma")]
#[test]
fn real_rnics_keep_the_contract() {
    use crate::ports::GidKind;
    use crate::rdma::{RoceDevice, device_names};

    for name in device_names().unwrap_or_default() {
        let ports = RoceDevice::open(&name).unwrap().ports().unwrap();
        let first = ports.iter().find(|port| port.port == 1 && port.active);
        let mut gids = first.into_iter().flat_map(|port| &port.gids);
        let gid = gids.find(|gid| gid.kind == GidKind::RoceV2 && gid.gid.0[10] == 0xff);
        let Some(gid) = gid else {
            continue;
        };
        eprintln!("{name}, GID {}", gid.gid);
        holds(|| RoceDevice::open(&name).unwrap(), (gid.index, gid.gid));
    }
}
