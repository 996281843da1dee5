//! Two endpoints with an ISM device each, in static memory, without std, an allocator or
//! a reachable panic. (The tests that count allocations use it as well.)

use core::fmt::{self, Write};

use smc_proto::command::{IsmCommand, Segment, Signal, TcpCommand};
use smc_proto::completion::IsmCompletion;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{
    BufferSpans, ClcProgress, ConnOptions, Endpoint, LentConnection, TcpEvent,
};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::Fixed;
use smc_proto::time::Instant;
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::types::{BufferSize, Chid, DmbToken, Eid, IsmGid, Mac, PeerId};

use super::observed::{Stored, stored};

/// The ISM device of each end.
pub const DEVICE: DeviceId = DeviceId(0);
const BUFFERS: usize = 8;
/// Bytes of the smallest DMB.
const MEMORY: usize = 16 << 10;

/// The tables of an endpoint.
pub type Tables = Fixed<4, 2, 2, 0, BUFFERS, 1>;

/// One end: an endpoint, its memory and its device.
pub struct End {
    /// The engine.
    pub endpoint: Endpoint<Stored<Tables>>,
    memory: [[u8; MEMORY]; BUFFERS],
    buffers: [Option<BufferId>; BUFFERS],
    /// Which DMB of the peer each buffer is bound to, and whether it is that DMB.
    bound: [Option<(usize, bool)>; BUFFERS],
    number: u8,
    maps: bool,
    /// Control commands until one is refused.
    pub refuse_at: Option<u32>,
    /// The connection, from its beginning.
    pub conn: Option<ConnId>,
    /// Whether SMC-D carries it.
    pub established: bool,
    /// How it ended.
    pub closed: Option<CloseReason>,
    /// Software events the device was to send.
    pub events: u32,
}

/// A sink for text that is not read.
struct Nowhere;

impl Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

impl End {
    /// Gives a lent data path back to the endpoint.
    fn take_back(&mut self, now: Instant, lent: LentConnection) {
        let conn = lent.conn();
        let _ = write!(Nowhere, "{lent:?}");
        if self.endpoint.take_back(now, lent) {
            self.endpoint.end_lost(now, conn);
        }
    }
}

/// Two ends; 0 is the client.
pub struct IsmPair {
    /// The ends.
    pub ends: [End; 2],
    /// The present.
    pub now: Instant,
}

/// How the device of an end is known.
pub const fn gid(number: u8) -> IsmGid {
    IsmGid {
        gid: 0x1000 | number as u64,
        gid_ext: 5,
        chid: Chid::LOOPBACK,
    }
}

fn config(number: u8) -> Config {
    let mut config = Config::new(PeerId::new(number.into(), Mac([2; 6])));
    config.offers = Offers::SMCD_V2;
    config.receive_buffer = BufferSize::K16;
    config.send_buffer = BufferSize::K16;
    // There is room for the first one.
    let _ = config.v2.ueids.push(Eid([b'E'; 32]));
    config
}

impl End {
    const fn new(number: u8) -> Self {
        let config = Config::new(PeerId::new(number as u16, Mac([2; 6])));
        Self {
            endpoint: Endpoint::new(config, number as u64, stored(Tables::new())),
            memory: [[0; MEMORY]; BUFFERS],
            buffers: [None; BUFFERS],
            bound: [None; BUFFERS],
            number,
            maps: true,
            refuse_at: None,
            conn: None,
            established: false,
            closed: None,
            events: 0,
        }
    }

    fn path(&self) -> IsmPath {
        let mut path = IsmPath::new(DEVICE, gid(self.number));
        path.reaches = Some(gid(3_u8.saturating_sub(self.number)));
        path.attaches = self.maps;
        path
    }

    fn piece(&mut self, index: usize, at: Segment) -> Option<&mut [u8]> {
        let end = at.offset.checked_add(at.length)?;
        let memory = self.memory.get_mut(index)?;
        memory.get_mut(at.offset as usize..end as usize)
    }
}

impl IsmPair {
    /// Two ends that have not been started yet.
    pub const fn new() -> Self {
        Self {
            ends: [End::new(1), End::new(2)],
            now: Instant::ZERO,
        }
    }

    /// Starts both ends anew; `maps`: whether their devices map DMBs of the peer.
    pub fn restart(&mut self, seed: u64, maps: [bool; 2]) {
        for (end, maps) in self.ends.iter_mut().zip(maps) {
            let seed = seed.wrapping_add(end.number.into());
            end.endpoint = Endpoint::new(config(end.number), seed, stored(Tables::new()));
            end.buffers = [None; BUFFERS];
            end.bound = [None; BUFFERS];
            end.maps = maps;
            end.refuse_at = None;
            (end.conn, end.established, end.closed) = (None, false, None);
            end.events = 0;
        }
    }

    /// One end and the other.
    pub fn side(&mut self, side: usize) -> (&mut End, &mut End) {
        let [a, b] = &mut self.ends;
        if side == 0 { (a, b) } else { (b, a) }
    }

    /// Opens a connection and does all that follows.
    pub fn connect(&mut self) -> Option<()> {
        let now = self.now;
        let options = || ConnOptions::new(Subnets::default());
        let [client, server] = &mut self.ends;
        let ism = [client.path()];
        let paths = Paths::new(&[], &ism);
        client.conn = client.endpoint.connect(now, options(), paths).ok();
        server.conn = server.endpoint.listen(now, options()).ok();
        for end in &mut self.ends {
            (end.established, end.closed) = (false, None);
        }
        self.pump()
    }

    /// Writes as much as there is space for: how much.
    pub fn write(&mut self, side: usize, octets: &[u8], urgent: bool) -> Option<usize> {
        let now = self.now;
        let (end, peer) = self.side(side);
        let id = end.conn?;
        let space = end.endpoint.conn(id)?.send_space()?;
        let index = space.buffer.index() as usize;
        let mapped = end.bound.get(index).copied().flatten();
        let mut left = octets;
        for at in space.segments {
            let length = left.len().min(at.length as usize);
            let at = Segment {
                length: length as u32,
                ..at
            };
            let (part, rest) = left.split_at_checked(length)?;
            left = rest;
            let memory = match mapped {
                Some((dmb, true)) => peer.piece(dmb, at)?,
                _ => end.piece(index, at)?,
            };
            for (to, from) in memory.iter_mut().zip(part) {
                *to = *from;
            }
        }
        let taken = octets.len().saturating_sub(left.len());
        if urgent {
            let mut conn = end.endpoint.conn(id)?;
            let committed = conn.commit_urgent(now, taken as u32);
            return committed.ok().map(|()| taken);
        }
        let mut signalled = None;
        // Both ways, as it comes.
        let lent = if taken.is_multiple_of(2) {
            end.endpoint.lend(now, id)
        } else {
            None
        };
        let written = if let Some(mut lent) = lent {
            (lent.conn() == id && lent.send_buffer() == space.buffer).then_some(())?;
            let signals =
                |signalled: &mut Option<Signal>, signal: &Signal| *signalled = Some(*signal);
            let written = lent.write(&mut signalled, |_, _| taken as u32, signals);
            let _ = lent.is_settled();
            end.take_back(now, lent);
            written
        } else {
            end.endpoint.write_and_signal(
                now,
                id,
                &mut signalled,
                |_, _| taken as u32,
                |signalled, signal| *signalled = Some(*signal),
            )?
        };
        written.ok()?;
        if let Some(signal) = signalled {
            self.execute(side, &signal.into())?;
        }
        Some(taken)
    }

    /// Reads what there is, as far as it fits: how much.
    pub fn read(&mut self, side: usize, into: &mut [u8]) -> Option<usize> {
        let now = self.now;
        let (end, _) = self.side(side);
        let id = end.conn?;
        if !end.endpoint.is_readable(id)
            && let Some(mut lent) = end.endpoint.lend(now, id)
        {
            let buffer = lent.receive_buffer();
            let octets = end.memory.get(buffer.index() as usize);
            let head = octets.and_then(|octets| octets.first_chunk()).copied();
            let other = head.filter(|head| lent.handle_signal(head).is_none());
            let owner = end.endpoint.receiver(buffer);
            end.take_back(now, lent);
            (owner == Some(id)).then_some(())?;
            if let Some(cdc) = other {
                let completion = IsmCompletion::Signalled { buffer, cdc };
                end.endpoint.handle_ism(now, completion);
            }
        }
        let known = end.endpoint.readiness(id)?;
        (known.bytes == end.endpoint.is_readable(id)).then_some(())?;
        if !end.endpoint.is_readable(id) {
            // What was signalled is known: polling once more changes nothing.
            let (endpoint, memory) = (&mut end.endpoint, &end.memory);
            let polled = endpoint.poll_dmb(now, id, |buffer, head| {
                let octets = memory.get(buffer.index() as usize);
                let octets = octets.and_then(|octets| octets.first_chunk());
                octets.map(|octets| *head = *octets).is_some()
            });
            if !polled.is_anything() {
                return None;
            }
        }
        let BufferSpans {
            buffer, segments, ..
        } = end.endpoint.conn(id)?.readable()?;
        let mut taken = 0_usize;
        for at in segments {
            let piece = end.piece(buffer.index() as usize, at)?;
            for (to, from) in into.get_mut(taken..)?.iter_mut().zip(piece) {
                *to = *from;
                taken = taken.saturating_add(1);
            }
        }
        let mut signalled = None;
        let can_lend = end.endpoint.can_lend(id);
        let lent = if taken.is_multiple_of(2) {
            end.endpoint.lend(now, id)
        } else {
            None
        };
        if let Some(mut lent) = lent {
            lent.is_readable().then_some(())?;
            let signal =
                |signalled: &mut Option<Signal>, signal: &Signal| *signalled = Some(*signal);
            let read = lent.read(&mut signalled, |_, _| taken as u32, signal);
            end.take_back(now, lent);
            read.ok()?;
            if let Some(signal) = signalled {
                self.execute(side, &signal.into())?;
            }
            return can_lend.then_some(taken);
        }
        let read = end.endpoint.read(now, id, |_| taken as u32)?;
        read.ok().map(|_| taken)
    }

    /// Does everything the endpoints ask for.
    pub fn pump(&mut self) -> Option<()> {
        for _ in 0..10_000 {
            let mut idle = true;
            for side in 0..2 {
                idle &= !self.pump_clc(side)?;
                let now = self.now;
                while let Some(command) = self.side(side).0.endpoint.poll_ism(now, DEVICE) {
                    idle = false;
                    self.execute(side, &command)?;
                }
                idle &= !self.pump_events(side)?;
            }
            if idle {
                let [one, two] = [0, 1].map(|side| self.side(side).0.endpoint.is_idle(DEVICE));
                return (one && two).then_some(());
            }
        }
        None
    }

    /// Lets time pass until `end`, timer by timer.
    pub fn wait(&mut self, end: Instant) -> Option<()> {
        for _ in 0..1_000 {
            self.pump()?;
            let next = self
                .ends
                .iter_mut()
                .filter_map(|end| end.endpoint.poll_timeout());
            let at = next.min().filter(|at| *at <= end);
            let Some(at) = at else {
                self.now = self.now.max(end);
                return Some(());
            };
            self.now = self.now.max(at);
            let now = self.now;
            for end in &mut self.ends {
                end.endpoint.handle_timeout(now);
            }
        }
        None
    }

    fn pump_clc(&mut self, side: usize) -> Option<bool> {
        let mut octets = [0; MAX_LENGTH];
        let (now, mut moved) = (self.now, false);
        let (end, peer) = self.side(side);
        while let Ok(Some((_, length))) = end.endpoint.poll_clc(now, &mut octets) {
            moved = true;
            let message = octets.get(..length)?;
            match peer.endpoint.handle_clc(now, peer.conn?, message) {
                Ok(ClcProgress::Consumed { len, .. }) if len == length => {}
                // An end that was over before that takes nothing.
                Ok(ClcProgress::NotClc) => {}
                _ => return None,
            }
        }
        Some(moved)
    }

    fn pump_events(&mut self, side: usize) -> Option<bool> {
        let (now, mut moved) = (self.now, false);
        let (end, peer) = self.side(side);
        while end.endpoint.peek_tcp().is_some() {
            let (_, command) = end.endpoint.poll_tcp()?;
            moved = true;
            let event = match command {
                TcpCommand::Close => TcpEvent::PeerFin,
                TcpCommand::Reset => TcpEvent::PeerReset,
                TcpCommand::HandOver { .. } => continue,
            };
            if let Some(conn) = peer.conn {
                peer.endpoint.handle_tcp(now, conn, event);
            }
        }
        while let Some(event) = end.endpoint.poll_event() {
            moved = true;
            match event {
                Event::Proposed { conn } => {
                    let ism = [end.path()];
                    let paths = Paths::new(&[], &ism);
                    end.endpoint.accept(now, conn, paths).ok()?;
                }
                Event::Established { .. } => end.established = true,
                Event::Closed { reason, .. } => end.closed = Some(reason),
                _ => {}
            }
        }
        Some(moved)
    }

    fn execute(&mut self, side: usize, command: &IsmCommand) -> Option<()> {
        let now = self.now;
        let (end, peer) = self.side(side);
        let answer = match *command {
            IsmCommand::RegisterDmb { buffer, length, .. }
            | IsmCommand::AllocBuffer { buffer, length } => {
                let index = buffer.index() as usize;
                *end.buffers.get_mut(index)? = Some(buffer);
                let at = Segment { offset: 0, length };
                end.piece(index, at)?.fill(0);
                match command {
                    IsmCommand::AllocBuffer { .. } => IsmCompletion::BufferAllocated { buffer },
                    _ => IsmCompletion::DmbRegistered {
                        buffer,
                        token: DmbToken(u64::from(buffer.index())),
                    },
                }
            }
            IsmCommand::UnregisterDmb { buffer } => IsmCompletion::DmbUnregistered { buffer },
            IsmCommand::FreeBuffer { buffer } => IsmCompletion::BufferFreed { buffer },
            IsmCommand::ClearDmb { buffer } => {
                end.memory.get_mut(buffer.index() as usize)?.fill(0);
                IsmCompletion::DmbCleared { buffer }
            }
            IsmCommand::AttachDmb {
                buffer, token, map, ..
            } => {
                *end.bound.get_mut(buffer.index() as usize)? = Some((token.0 as usize, map));
                IsmCompletion::DmbAttached { buffer }
            }
            IsmCommand::DetachDmb { buffer, .. } => {
                *end.bound.get_mut(buffer.index() as usize)? = None;
                IsmCompletion::DmbDetached { buffer }
            }
            IsmCommand::Move {
                buffer,
                source,
                mut offset,
                ..
            } => {
                let index = buffer.index() as usize;
                let (dmb, _) = end.bound.get(index).copied().flatten()?;
                for from in source {
                    let length = from.length;
                    let from = end.piece(index, from)?;
                    let to = peer.piece(dmb, Segment { offset, length })?;
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = *from;
                    }
                    offset = offset.checked_add(length)?;
                }
                return Some(());
            }
            IsmCommand::Signal { buffer, cdc, .. } => {
                let (dmb, _) = end.bound.get(buffer.index() as usize).copied().flatten()?;
                *peer.memory.get_mut(dmb)?.first_chunk_mut()? = cdc;
                let buffer = peer.buffers.get(dmb).copied().flatten()?;
                let signalled = IsmCompletion::Signalled { buffer, cdc };
                peer.endpoint.handle_ism(now, signalled);
                return Some(());
            }
            IsmCommand::SignalEvent { code, info, .. } => {
                end.events = end.events.saturating_add(1);
                let event = IsmCompletion::Event {
                    device: DEVICE,
                    peer: gid(end.number),
                    code,
                    info,
                };
                peer.endpoint.handle_ism(now, event);
                return Some(());
            }
        };
        let refused = end.refuse_at == Some(0);
        end.refuse_at = end.refuse_at.and_then(|left| left.checked_sub(1));
        let answer = match (refused, end.buffer_of(command)) {
            (true, Some(buffer)) => IsmCompletion::Refused { buffer },
            _ => answer,
        };
        end.endpoint.handle_ism(now, answer);
        Some(())
    }
}

impl End {
    fn buffer_of(&self, command: &IsmCommand) -> Option<BufferId> {
        match *command {
            IsmCommand::RegisterDmb { buffer, .. }
            | IsmCommand::UnregisterDmb { buffer }
            | IsmCommand::ClearDmb { buffer }
            | IsmCommand::AllocBuffer { buffer, .. }
            | IsmCommand::FreeBuffer { buffer }
            | IsmCommand::AttachDmb { buffer, .. }
            | IsmCommand::DetachDmb { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    /// The buffer that the connection sends from.
    pub fn source(&mut self) -> Option<BufferId> {
        let id = self.conn?;
        Some(self.endpoint.conn(id)?.send_space()?.buffer)
    }

    /// The DMB of the connection.
    pub fn dmb(&mut self) -> Option<BufferId> {
        let id = self.conn?;
        Some(self.endpoint.conn(id)?.readable()?.buffer)
    }
}
