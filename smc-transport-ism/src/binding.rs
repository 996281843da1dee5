//! Binding of an ISM device to an engine: commands in, completions out, and bytes to and
//! from the buffers that the engine names.
//!
//! ```text
//!   Endpoint ── IsmCommand ──► Binding::execute ──► IsmDevice
//!            ◄─ IsmCompletion ─ Binding::poll ◄────── IsmReport
//!   application ── bytes ──► fill ──► the peer's DMB, or memory to move from
//!               ◄─ bytes ─── take ◄── a DMB of this side
//! ```
//!
//! What the device cannot do at once ([`IsmError::Busy`]) is tried again by each
//! [`Binding::poll`] and answered then. For a device that has no way to zero a DMB under
//! the same token `ClearDmb` is refused, and the engine asks for a new one, which is zero
//! and which no earlier peer can write to.

mod buffers;
mod control;
mod reports;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use smc_proto::command::{BufferSpans, IsmCommand, Segment, Signal};
use smc_proto::completion::IsmCompletion;
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::wire::cdc_ism::{CDC_ISM_LENGTH, Endianness};
use smc_proto::wire::types::{Chid, IsmGid};

use crate::device::{Gid128, IsmDevice, IsmError, RemoteDmb, VlanId};
use buffers::Buffers;
use control::refusal;

/// Commands that are tried again at a time: a device that is busy costs each poll no more.
const RETRIES: usize = 16;

/// An ISM device that an engine drives under a number.
#[derive(Debug)]
pub struct Binding<D> {
    device: D,
    id: DeviceId,
    chid: Chid,
    buffers: Buffers,
    /// Answers that are due already.
    answers: VecDeque<IsmCompletion>,
    /// Commands the device was too busy for.
    deferred: VecDeque<IsmCommand>,
}

impl<D: IsmDevice> Binding<D> {
    /// Binds a device, which must have no DMBs yet, to its number at the endpoint.
    pub fn new(device: D, id: DeviceId) -> Self {
        Self {
            chid: Chid(device.facts().chid),
            device,
            id,
            buffers: Buffers::default(),
            answers: VecDeque::new(),
            deferred: VecDeque::new(),
        }
    }

    /// Copies the binding over a copy of its device, in which every handle is good.
    pub fn fork<E: IsmDevice>(&self, copy: impl FnOnce(&D) -> E) -> Binding<E> {
        Binding {
            device: copy(&self.device),
            id: self.id,
            chid: self.chid,
            buffers: self.buffers.clone(),
            answers: self.answers.clone(),
            deferred: self.deferred.clone(),
        }
    }

    /// Hashes everything the future depends on, but for the device.
    pub fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.id, self.chid, &self.buffers, &self.answers).hash(hasher);
        for command in &self.deferred {
            format!("{command:?}").hash(hasher);
        }
    }

    /// Whether a buffer has memory in this binding, or is bound to a peer's DMB.
    #[must_use]
    pub fn holds(&self, buffer: BufferId) -> bool {
        self.buffers.holds(buffer)
    }

    /// Number of buffers that the engine has not given back yet.
    #[must_use]
    pub fn buffers_in_use(&self) -> usize {
        self.buffers.len()
    }

    /// The DMB of a peer to which a send buffer is bound.
    #[must_use]
    pub fn remote(&self, buffer: BufferId) -> Option<RemoteDmb> {
        self.buffers.remote(buffer).ok()
    }

    /// The device's number at the endpoint.
    #[must_use]
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, for what the engine does not command: joining peers, sleeping.
    /// Reports that are taken from it directly are lost to the engine.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Name of the device in CLC messages.
    #[must_use]
    pub fn gid(&self) -> IsmGid {
        self.name_of(self.device.facts().gid)
    }

    /// Name in CLC messages of a device that has this GID.
    #[must_use]
    pub fn named(&self, gid: Gid128) -> IsmGid {
        self.name_of(gid)
    }

    /// Whether a peer's device can be reached, as a server reports to the engine in
    /// [`IsmPath::reaches`](smc_proto::path::IsmPath::reaches).
    pub fn reaches(&mut self, peer: IsmGid) -> bool {
        let vlan = Some(VlanId::V2);
        peer.chid == self.chid && self.device.query_reach(gid_of(peer), vlan)
    }

    /// Executes a command. Its answer, if it has one, is given by [`Self::poll`].
    #[inline]
    pub fn execute(&mut self, command: IsmCommand) {
        match command {
            IsmCommand::Signal { conn, .. } | IsmCommand::Move { conn, .. }
                if self.has_unreported_failure(conn) => {}
            IsmCommand::Signal { conn, buffer, cdc } => self.signal(conn, buffer, &cdc),
            _ => self.execute_other(command),
        }
    }

    #[inline(never)]
    fn execute_other(&mut self, command: IsmCommand) {
        match command {
            IsmCommand::Move {
                conn,
                buffer,
                source,
                offset,
            } => {
                if self.move_source(buffer, source, offset).is_err() {
                    self.answers.push_back(IsmCompletion::MoveFailed { conn });
                }
            }
            _ => match self.control(command) {
                Ok(answer) => self.answers.extend(answer),
                Err(IsmError::Busy) => self.deferred.push_back(command),
                Err(_) => self.answers.extend(refusal(command)),
            },
        }
    }

    /// Whether a move of this connection has failed, and the engine has not polled that yet. Signals
    /// are dropped meanwhile: the peer must not be notified of bytes that were not written.
    #[inline]
    fn has_unreported_failure(&self, conn: ConnId) -> bool {
        if self.answers.is_empty() {
            return false;
        }
        self.answers.contains(&IsmCompletion::MoveFailed { conn })
    }

    #[inline(always)]
    fn signal(&mut self, conn: ConnId, buffer: BufferId, cdc: &[u8; 32]) {
        let remote = self.buffers.remote(buffer);
        let moved = remote.and_then(|to| self.device.move_cdc(to, 0, 0, cdc, true));
        if moved.is_err() {
            self.answers.push_back(IsmCompletion::MoveFailed { conn });
        }
    }

    /// The next completion, if there is one.
    #[inline]
    pub fn poll(&mut self) -> Option<IsmCompletion> {
        if (!self.answers.is_empty() || !self.deferred.is_empty())
            && let Some(answer) = self.answer()
        {
            return Some(answer);
        }
        loop {
            let report = self.device.poll()?;
            if let Some(completion) = self.completion(report) {
                return Some(completion);
            }
        }
    }

    /// Whether [`Self::poll`] has a completion to return without polling the device.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The next answer, if need be after trying again what the device was too busy for.
    #[inline(never)]
    fn answer(&mut self) -> Option<IsmCompletion> {
        self.answers.pop_front().or_else(|| self.try_again())
    }

    fn try_again(&mut self) -> Option<IsmCompletion> {
        for _ in 0..self.deferred.len().min(RETRIES) {
            let Some(command) = self.deferred.pop_front() else {
                break;
            };
            match self.control(command) {
                Ok(answer) => self.answers.extend(answer),
                // A command that one peer keeps busy delays no other.
                Err(IsmError::Busy) => self.deferred.push_back(command),
                Err(_) => self.answers.extend(refusal(command)),
            }
        }
        self.answers.pop_front()
    }

    fn move_source(
        &mut self,
        buffer: BufferId,
        source: [Segment; 2],
        offset: u32,
    ) -> Result<(), IsmError> {
        let remote = self.buffers.remote(buffer)?;
        let mut at = offset;
        for segment in source {
            let bytes = self.buffers.source(buffer, segment)?;
            self.device.move_data(remote, 0, at, bytes)?;
            at = at.checked_add(segment.length).ok_or(IsmError::Bounds)?;
        }
        Ok(())
    }

    fn name_of(&self, gid: Gid128) -> IsmGid {
        IsmGid {
            gid: gid.gid,
            gid_ext: gid.ext,
            chid: self.chid,
        }
    }

    /// Copies bytes into free space of a send buffer, which may be the peer's memory, and
    /// returns how many fitted. For
    /// [`ConnMut::write`](smc_proto::endpoint::ConnMut::write).
    ///
    /// # Errors
    /// [`IsmDevice::move_data`] fails: the peer's memory is gone, and soon the connection.
    #[inline(always)]
    pub fn fill(&mut self, space: &BufferSpans, bytes: &[u8]) -> Result<u32, IsmError> {
        let mut left = bytes;
        for segment in space.segments {
            let (now, rest) = left.split_at(left.len().min(segment.length as usize));
            if now.is_empty() {
                break;
            }
            match self.buffers.target(space.buffer)? {
                Some(remote) => self.device.move_data(remote, 0, segment.offset, now)?,
                None => self.buffers.copy_in(space.buffer, segment.offset, now)?,
            }
            left = rest;
        }
        // At most the length of a buffer.
        Ok((bytes.len() - left.len()) as u32)
    }

    /// Executes what [`Endpoint::write_and_signal`](smc_proto::endpoint::Endpoint::write_and_signal)
    /// returned, as [`Self::execute`] does [`IsmCommand::Signal`].
    #[inline(always)]
    pub fn write_signal(&mut self, signal: &Signal) {
        let Signal { conn, buffer, cdc } = signal;
        if !self.has_unreported_failure(*conn) {
            self.signal(*conn, *buffer, &cdc.emit(Endianness::NATIVE));
        }
    }

    /// Reads the head of a DMB, and returns whether there may be anything new. For
    /// [`Endpoint::poll_dmb`](smc_proto::endpoint::Endpoint::poll_dmb).
    #[inline(always)]
    pub fn poll_head(&self, buffer: BufferId, head: &mut [u8; CDC_ISM_LENGTH]) -> bool {
        // What was to be reported before comes first.
        let dmb = self.buffers.dmb(buffer).filter(|_| self.answers.is_empty());
        dmb.is_some_and(|dmb| self.device.poll_head(dmb, head))
    }

    /// The CDC message at the head of a DMB of this side as it is now, whether it was reported already
    /// or not, also while the device is parked. `None` if the DMB is gone.
    #[must_use]
    pub fn read_head(&self, buffer: BufferId) -> Option<[u8; CDC_ISM_LENGTH]> {
        let dmb = self.buffers.dmb(buffer)?;
        self.device.read_cdc(dmb, 0).ok()
    }

    /// Copies readable bytes out of a DMB, and returns how many fitted. For
    /// [`ConnMut::read`](smc_proto::endpoint::ConnMut::read).
    ///
    /// # Errors
    /// [`IsmDevice::read`] fails: the DMB is gone.
    #[inline(always)]
    pub fn take(&self, readable: &BufferSpans, into: &mut [u8]) -> Result<u32, IsmError> {
        let dmb = self.buffers.dmb(readable.buffer).ok_or(IsmError::Stale)?;
        let mut taken = 0;
        for segment in readable.segments {
            let room = into.get_mut(taken..).unwrap_or_default();
            let len = room.len().min(segment.length as usize);
            let Some(now) = room.get_mut(..len).filter(|now| !now.is_empty()) else {
                break;
            };
            self.device.read(dmb, segment.offset, now)?;
            taken += len;
        }
        Ok(taken as u32)
    }
}

#[cfg(target_os = "linux")]
impl Binding<crate::shared::Device> {
    /// The memory of a connection that receives in one buffer and writes to another, for a thread
    /// that uses it beside the device. `None` unless both are DMBs.
    #[must_use]
    pub fn lane(&self, receive: BufferId, send: BufferId) -> Option<crate::shared::Lane> {
        let dmb = self.buffers.dmb(receive)?;
        let remote = self.buffers.target(send).ok()??;
        self.device.lane(dmb, remote)
    }
}

fn gid_of(peer: IsmGid) -> Gid128 {
    Gid128 {
        gid: peer.gid,
        ext: peer.gid_ext,
    }
}
