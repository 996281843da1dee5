//! One end: an endpoint in static memory, and the RNIC it has.

use smc_proto::command::{EYE_CATCHER, RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::{BufferSpans, Endpoint};
use smc_proto::event::{CloseReason, FallbackReason};
use smc_proto::id::{BufferId, ConnId, DeviceId, GroupId, LinkId};
use smc_proto::path::LocalPath;
use smc_proto::time::Instant;
use smc_proto::wire::types::{DiagnosisCode, Gid, Mac, PeerId, Qpn, RKey, RToken};

use super::{BASE, BUFFERS, CONNECTIONS, DEVICE, LINKS, MEMORY, Tables};
use crate::Failure;
use crate::observed::{Stored, stored};

/// What a server does with a Proposal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Accept,
    Decline(DiagnosisCode),
    Wait,
}

/// What the RNIC of a host refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Nothing,
    QueuePairs,
    Registrations,
}

/// What is known of a connection, by its index.
#[derive(Clone, Copy)]
pub struct Known {
    pub peer: Option<ConnId>,
    /// Whether it was a first contact.
    pub established: Option<bool>,
    pub group: Option<GroupId>,
    pub fell_back: Option<FallbackReason>,
    pub closed: Option<CloseReason>,
    pub tcp: Option<TcpCommand>,
    pub urgent: u32,
    pub readable: u32,
    pub writable: u32,
}

impl Known {
    pub(super) const NOTHING: Self = Self {
        peer: None,
        established: None,
        group: None,
        fell_back: None,
        closed: None,
        tcp: None,
        urgent: 0,
        readable: 0,
        writable: 0,
    };
}

/// One end: an endpoint, its memory and its RNIC.
pub struct Host {
    pub endpoint: Endpoint<Stored<Tables>>,
    pub path: LocalPath,
    pub(super) memory: [[u8; MEMORY]; BUFFERS],
    pub(super) buffers: [Option<BufferId>; BUFFERS],
    /// Handle of each link, and the link at the other end.
    pub links: [Option<(LinkId, Option<LinkId>)>; LINKS],
    next_qpn: u32,
    pub(super) known: [Known; CONNECTIONS],
    pub answer: Answer,
    pub refusal: Refusal,
    pub groups_up: u32,
    pub groups_down: u32,
}

pub(super) const fn config(number: u8) -> Config {
    Config::new(PeerId::new(number as u16, mac(number)))
}

pub(super) const fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

pub(super) const fn path(number: u8, device: DeviceId) -> LocalPath {
    let mut path = LocalPath::new(
        device,
        1,
        Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number]),
        mac(number),
    );
    path.subnet_match = true;
    path
}

impl Host {
    pub(super) const fn new(number: u8) -> Self {
        Self {
            endpoint: Endpoint::new(config(number), number as u64, stored(Tables::new())),
            path: path(number, DEVICE),
            memory: [[0; MEMORY]; BUFFERS],
            buffers: [None; BUFFERS],
            links: [None; LINKS],
            next_qpn: 0,
            known: [Known::NOTHING; CONNECTIONS],
            answer: Answer::Accept,
            refusal: Refusal::Nothing,
            groups_up: 0,
            groups_down: 0,
        }
    }

    /// What is known of a connection.
    pub fn known(&self, conn: ConnId) -> Known {
        let known = self.known.get(conn.index() as usize);
        known.copied().unwrap_or(Known::NOTHING)
    }

    pub(super) fn know(&mut self, conn: ConnId, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known.get_mut(conn.index() as usize) {
            change(known);
        }
    }

    pub(super) fn buffer(&mut self, index: u32) -> Result<&mut [u8; MEMORY], Failure> {
        self.memory
            .get_mut(index as usize)
            .ok_or(Failure::NoSuchBuffer)
    }

    /// The bytes of some pieces of a buffer, in stream order.
    pub(super) fn octets<'a>(
        memory: &'a mut [[u8; MEMORY]; BUFFERS],
        spans: &BufferSpans,
    ) -> Result<impl Iterator<Item = &'a mut u8> + use<'a>, Failure> {
        let buffer = memory
            .get_mut(spans.buffer.index() as usize)
            .ok_or(Failure::NoSuchBuffer)?;
        let [first, second] = spans.segments;
        // The second is before the first in memory: the ring wrapped.
        let (low, high) = buffer
            .split_at_mut_checked(first.offset as usize)
            .ok_or(Failure::OutsideBuffer)?;
        let first = high
            .get_mut(..first.length as usize)
            .ok_or(Failure::OutsideBuffer)?;
        let end = second.offset.saturating_add(second.length) as usize;
        let second = low.get_mut(second.offset as usize..end).unwrap_or(&mut []);
        Ok(first.iter_mut().chain(second))
    }

    /// Puts octets of the stream into the send buffer, at most `most`, and sends them:
    /// how many.
    pub fn write(
        &mut self,
        now: Instant,
        conn: ConnId,
        most: u32,
        urgent: bool,
        mut stream: impl FnMut() -> u8,
    ) -> Result<u32, Failure> {
        let mut connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some(space) = connection.send_space() else {
            return Ok(0);
        };
        let n = space.len().min(most);
        let mut put = 0;
        for octet in Self::octets(&mut self.memory, &space)?.take(n as usize) {
            *octet = stream();
            put = u32::saturating_add(put, 1);
        }
        if put != n {
            return Err(Failure::OutsideBuffer);
        }
        if n > 0 {
            let sent = if urgent {
                connection.commit_urgent(now, n)
            } else {
                connection.commit(now, n)
            };
            sent.map_err(|_| Failure::CommitRefused)?;
        }
        Ok(n)
    }

    /// Takes what can be read and compares it with the stream: how many bytes.
    pub fn read(
        &mut self,
        now: Instant,
        conn: ConnId,
        mut stream: impl FnMut() -> u8,
    ) -> Result<u32, Failure> {
        let mut connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some(spans) = connection.readable() else {
            return Ok(0);
        };
        if spans.is_empty() {
            return Ok(0);
        }
        let mut taken = 0u32;
        for octet in Self::octets(&mut self.memory, &spans)? {
            if *octet != stream() {
                return Err(Failure::WrongOctet);
            }
            taken = taken.saturating_add(1);
        }
        if taken != spans.len() {
            return Err(Failure::OutsideBuffer);
        }
        connection
            .consume(now, taken)
            .map_err(|_| Failure::ConsumeRefused)?;
        Ok(taken)
    }

    /// Takes the urgent byte out of line.
    pub fn read_urgent(&mut self, now: Instant, conn: ConnId) -> Result<Option<u8>, Failure> {
        let mut connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some((_, spans)) = connection.urgent() else {
            return Ok(None);
        };
        let octet = Self::octets(&mut self.memory, &spans)?.next().copied();
        connection.take_urgent(now).map_err(|_| Failure::NoUrgent)?;
        Ok(octet)
    }

    /// What can be answered without the other host.
    pub(super) fn execute(&mut self, now: Instant, command: &RdmaCommand) -> Result<(), Failure> {
        let completion = match *command {
            RdmaCommand::CreateQp { link, .. } if self.refusal == Refusal::QueuePairs => {
                RdmaCompletion::LinkRefused { link }
            }
            RdmaCommand::RegisterBuffer { buffer, .. }
                if self.refusal == Refusal::Registrations =>
            {
                RdmaCompletion::BufferRefused { buffer }
            }
            RdmaCommand::CreateQp { link, .. } => {
                let slot = self.links.get_mut(link.index() as usize);
                *slot.ok_or(Failure::NoSuchLink)? = Some((link, None));
                self.next_qpn = self.next_qpn.wrapping_add(1);
                RdmaCompletion::QpCreated {
                    link,
                    qpn: Qpn::new(self.next_qpn << 8 | link.index()),
                }
            }
            RdmaCommand::ActivateQp { link, .. } => RdmaCompletion::QpActive { link },
            RdmaCommand::QpToError { link } => RdmaCompletion::QpDrained { link },
            RdmaCommand::DestroyQp { link } => {
                if let Some(slot) = self.links.get_mut(link.index() as usize) {
                    *slot = None;
                }
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer {
                buffer,
                elements,
                element_size,
                eye_catcher,
                ..
            } => {
                let needed = u32::from(elements).saturating_mul(element_size) as usize;
                let memory = self.buffer(buffer.index())?;
                if needed <= memory.len() {
                    memory.fill(0);
                    for element in memory.chunks_mut(element_size.max(1) as usize) {
                        if eye_catcher && let Some(head) = element.first_chunk_mut() {
                            *head = EYE_CATCHER;
                        }
                    }
                    if let Some(slot) = self.buffers.get_mut(buffer.index() as usize) {
                        *slot = Some(buffer);
                    }
                    RdmaCompletion::BufferAllocated { buffer }
                } else {
                    RdmaCompletion::BufferRefused { buffer }
                }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => RdmaCompletion::BufferRegistered {
                buffer,
                link,
                rtoken: RToken {
                    rkey: RKey(buffer.index().saturating_add(1)),
                    address: BASE,
                },
            },
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => RdmaCompletion::BufferFreed { buffer },
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                eye_catcher,
            } => {
                let end = offset.saturating_add(length) as usize;
                let memory = self.buffer(buffer.index())?;
                let element = memory.get_mut(offset as usize..end);
                let element = element.ok_or(Failure::OutsideBuffer)?;
                element.fill(0);
                if eye_catcher && let Some(head) = element.first_chunk_mut() {
                    *head = EYE_CATCHER;
                }
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::ConnectQp { .. }
            | RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return Ok(()),
        };
        self.endpoint.handle_rdma(now, completion);
        Ok(())
    }

    /// Whether the element still has its eye catcher.
    pub fn eye_catcher_stands(&mut self, conn: ConnId) -> Result<bool, Failure> {
        let connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some(spans) = connection.readable() else {
            return Ok(false);
        };
        let Some(at) = spans.eye_catcher_at else {
            return Ok(false);
        };
        let found = self
            .buffer(spans.buffer.index())?
            .get(at as usize..)
            .and_then(<[u8]>::first_chunk);
        Ok(found == Some(&EYE_CATCHER))
    }
}
