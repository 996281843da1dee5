//! The device as the engine's adapter drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::device::{Attached, Device, OwnDmb, is_stranger};
use super::facts;
use super::kept::Named;
use super::offers::Offer;
use super::pairing::Peer;
use super::ring_suppression::MOST_POLLED;
use crate::device::{
    CDC_LEN, Cdc, DeviceFacts, Dmb, DmbToken, Gid128, IsmDevice, IsmError, IsmReport, RemoteDmb,
    VlanId, check_bounds, check_cdc_bounds, check_len, element_bit,
};
use crate::doorbell::Ring;
use crate::memory::{SharedRegion, UNKNOWN, system};
use crate::slots::Key;

/// DMBs for peers of one user that is neither root nor this process's own.
pub(super) const DMBS_OF_A_STRANGER: usize = 1024;

/// Attachments of DMBs of peers of such a user.
const ATTACHED_OF_A_STRANGER: usize = 2048;

/// More messages than a socket ever holds.
const SOCKET: usize = 1024;

/// Pause before a DMB is attached again of which a thread takes pages out.
const RETRY: Duration = Duration::from_millis(1);

impl IsmDevice for Device {
    fn facts(&self) -> DeviceFacts {
        facts(self.gid, self.limits.dmbs)
    }

    fn register_dmb(
        &mut self,
        len: u32,
        peer: Gid128,
        vlan: Option<VlanId>,
    ) -> Result<Dmb, IsmError> {
        check_len(len, &self.facts())?;
        check_vlan(vlan)?;
        let channel = self.channel_to(peer)?;
        if self.dmbs.is_full() {
            return Err(IsmError::Exhausted);
        }
        if self.dmbs.len() >= MOST_POLLED {
            self.restore_rings();
        }
        // Nothing is made that could not be offered.
        let to = self.channels.at(channel).ok_or(IsmError::Unreachable)?;
        let uid = to.uid;
        to.outbox.check_room(Instant::now())?;
        self.check_share(uid, DMBS_OF_A_STRANGER, Channel::dmbs)?;
        self.check_in_flight(uid)?;
        // A new file each time: it is zero, and a peer that could write an earlier one cannot
        // write this one.
        //= SHM-021
        let (mut region, fd) = SharedRegion::create(len, false).map_err(|error| system(&error))?;
        if let Some(reaper) = self.reaper_toward(channel)? {
            region.discard_by(reaper);
        }
        let token = DmbToken(super::random().map_err(|error| system(&error))?);
        let own = OwnDmb {
            channel,
            slot: Key::default(),
            token,
            region: Arc::new(region),
            next: AtomicU32::new(CDC_LEN as u32),
            is_queued: false,
            heads: Default::default(),
        };
        let key = self.dmbs.insert_with(|_| own).ok_or(IsmError::Exhausted)?;
        let to = self.channels.at_mut(channel).ok_or(IsmError::Unreachable)?;
        let Some(slot) = to.take_slot(key) else {
            self.dmbs.remove(key);
            return Err(IsmError::Exhausted);
        };
        if let Some(own) = self.dmbs.at_mut(key) {
            own.slot = slot;
        }
        to.offer((key, slot), token, len, fd);
        self.after_send(channel);
        if let Some(error) = self.take_failure(Dmb(key)) {
            return Err(error);
        }
        Ok(Dmb(key))
    }

    fn unregister_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        let key = dmb.0;
        let own = self.dmbs.remove(key).ok_or(IsmError::Stale)?;
        self.reports.retain(|report| match report {
            IsmReport::DmbRegistered { dmb: of, .. } | IsmReport::Signalled { dmb: of, .. } => {
                *of != dmb
            }
            _ => true,
        });
        if let Some(channel) = self.channels.at_mut(own.channel) {
            channel.free_slot(own.slot);
            channel.withdraw(key, own.token);
        }
        self.after_send(own.channel);
        Ok(())
    }

    /// Zeroes the head of a DMB, which its owner may then name again: the peer keeps its mapping.
    //= SHM-057
    fn clear_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        let own = self.dmbs.at_mut(dmb.0).ok_or(IsmError::Stale)?;
        // A peer whose channel has ended has unmapped it.
        self.channels.at(own.channel).ok_or(IsmError::Unreachable)?;
        own.clear()?;
        self.reports
            .retain(|report| !matches!(report, IsmReport::Signalled { dmb: of, .. } if *of == dmb));
        Ok(())
    }

    fn attach_dmb(
        &mut self,
        peer: Gid128,
        token: DmbToken,
        len: u32,
    ) -> Result<RemoteDmb, IsmError> {
        let peer = self.channels.at(self.channel_to(peer)?);
        let peer = peer.ok_or(IsmError::Unreachable)?.owner();
        check_len(len, &self.facts())?;
        if self.attached.is_full() {
            return Err(IsmError::Exhausted);
        }
        let known = match self.find_attached(peer, token) {
            Some(known) => Some(known),
            None => self
                .find_finished(peer, token, len)?
                .map(|(channel, dmb)| (channel, dmb.region, dmb.ring)),
        };
        let (channel, region, ring) = match known {
            Some(known) => known,
            None => {
                let channel = self.find_offer(peer, token).ok_or(IsmError::Token)?;
                self.check_attached(channel)?;
                let Offer { region, ring, .. } = self.claim(channel, token, len)?;
                (channel, region, ring)
            }
        };
        if len as usize > region.len() {
            return Err(IsmError::Length);
        }
        let live = Attached::Live {
            channel,
            token,
            region,
            ring,
            len,
            flags: Arc::new(AtomicU64::new(UNKNOWN)),
        };
        let key = self
            .attached
            .insert_with(|_| live)
            .ok_or(IsmError::Exhausted)?;
        if let Some(at) = self.channels.at_mut(channel) {
            at.attach(ring);
        }
        self.extend_doorbells(channel);
        Ok(RemoteDmb(key))
    }

    fn detach_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError> {
        self.detach(remote, false)
    }

    fn discard_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError> {
        self.detach(remote, true)
    }

    fn query_reach(&mut self, peer: Gid128, vlan: Option<VlanId>) -> bool {
        check_vlan(vlan).is_ok() && self.channel_to(peer).is_ok()
    }

    fn add_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        check_vlan(Some(vlan))
    }

    fn del_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        check_vlan(Some(vlan))
    }

    #[inline(always)]
    fn move_data(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
    ) -> Result<(), IsmError> {
        let to = match self.target(remote, element) {
            Ok(to) => to,
            Err(error) => return self.moved_behind_end(remote, error),
        };
        check_bounds(offset, source.len(), to.len)?;
        to.region.copy_in(offset, source)
    }

    #[inline(always)]
    fn move_cdc(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        cdc: &Cdc,
        signal: bool,
    ) -> Result<(), IsmError> {
        let to = match self.target(remote, element) {
            Ok(to) => to,
            Err(error) => return self.moved_behind_end(remote, error),
        };
        check_cdc_bounds(offset, to.len)?;
        match offset {
            0 => to.region.write_cdc(0, cdc, to.flags)?,
            // Not where those of streams are: what is there is not remembered.
            at => to.region.write_cdc(at, cdc, &AtomicU64::new(UNKNOWN))?,
        }
        let (channel, ring) = (to.channel, to.ring);
        if signal && let Some(channel) = self.channels.at_mut(channel) {
            channel.ring_after_cdc(ring);
        }
        Ok(())
    }

    fn signal_event(
        &mut self,
        peer: Gid128,
        vlan: Option<VlanId>,
        code: u32,
        info: u64,
    ) -> Result<(), IsmError> {
        check_vlan(vlan)?;
        let key = self.channel_to(peer)?;
        let channel = self.channels.at_mut(key).ok_or(IsmError::Unreachable)?;
        channel.event(code, info)?;
        self.after_send(key);
        Ok(())
    }

    #[inline]
    fn poll(&mut self) -> Option<IsmReport> {
        self.next_report()
    }

    #[inline(always)]
    fn read(&self, dmb: Dmb, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        let own = self.own(dmb)?;
        own.region.copy_out(offset, into)?;
        // It fits, as has just been checked.
        let next = offset.wrapping_add(into.len() as u32);
        own.next.store(next, Ordering::Relaxed);
        Ok(())
    }

    //= SHM-034
    #[inline(always)]
    fn poll_head(&self, dmb: Dmb, into: &mut Cdc) -> bool {
        // A sleeping owner is woken by a ring, and earlier reports come first.
        if self.parked || !self.reports.is_empty() {
            return false;
        }
        let Some(own) = self.dmbs.at(dmb.0) else {
            return false;
        };
        let new = own.has_changed();
        if new {
            own.fetch_next();
            own.read_head(into);
        }
        new
    }

    fn read_cdc(&self, dmb: Dmb, offset: u32) -> Result<Cdc, IsmError> {
        self.own(dmb)?.region.read_cdc(offset)
    }
}

/// Where a move goes.
struct Target<'a> {
    region: &'a SharedRegion,
    channel: Key,
    ring: Ring,
    len: usize,
    flags: &'a AtomicU64,
}

impl Device {
    /// Ends an attachment. With `finished` the owner reads nothing more but the head.
    fn detach(&mut self, remote: RemoteDmb, finished: bool) -> Result<(), IsmError> {
        let attached = self.attached.remove(remote.0).ok_or(IsmError::Stale)?;
        let withdrawn = IsmReport::Withdrawn { remote };
        self.reports.retain(|report| *report != withdrawn);
        if let Attached::Live {
            channel,
            token,
            region,
            ring,
            ..
        } = attached
        {
            if let Some(at) = self.channels.at_mut(channel) {
                at.attached = at.attached.saturating_sub(1);
            }
            let dmb = Named {
                token,
                region,
                ring,
            };
            self.keep(channel, dmb, finished);
        }
        Ok(())
    }

    /// Whether the user of a peer may have one more of what `count` counts of a channel: root
    /// and this process's own user as many as there are, each other user `most`.
    ///
    /// # Errors
    /// [`IsmError::Exhausted`].
    //= SHM-073
    fn check_share(
        &self,
        uid: u32,
        most: usize,
        count: impl Fn(&Channel) -> usize,
    ) -> Result<(), IsmError> {
        if !is_stranger(uid) {
            return Ok(());
        }
        let of_user = self.channels.iter().filter(|(_, at)| at.uid == uid);
        if of_user.map(|(_, at)| count(at)).sum::<usize>() >= most {
            return Err(IsmError::Exhausted);
        }
        Ok(())
    }

    /// Checks that one more DMB that was offered over a channel can be attached.
    ///
    /// # Errors
    /// [`IsmError::Exhausted`] if the peer's user is a stranger that has no more of either: memory
    /// by [`Self::check_unread`], or attachments.
    fn check_attached(&self, channel: Key) -> Result<(), IsmError> {
        self.check_unread(channel)?;
        let uid = self.channels.at(channel).map_or(0, |at| at.uid);
        self.check_share(uid, ATTACHED_OF_A_STRANGER, |at| at.attached as usize)
    }

    fn own(&self, dmb: Dmb) -> Result<&OwnDmb, IsmError> {
        self.dmbs.at(dmb.0).ok_or(IsmError::Stale)
    }

    /// The channel that a peer's DMB was offered on: there may be several to a peer, and
    /// each side uses which it likes.
    //= SHM-013
    fn find_offer(&mut self, peer: Peer, token: DmbToken) -> Option<Key> {
        let to_peer = self.channels.iter().filter(|(_, at)| at.owner() == peer);
        let channels: Vec<_> = to_peer.map(|(key, _)| key).collect();
        let has_it = |device: &Self, key| {
            let channel = device.channels.at(key);
            channel.is_some_and(|at| at.offers.get(token).is_some())
        };
        let known = channels.iter().find(|key| has_it(self, **key));
        known.copied().or_else(|| {
            channels.iter().copied().find(|key| {
                // The offer was sent before the token was announced, so it can be read.
                // What is behind it stays: it may be the end of the peer, which is reported
                // after everything that came before.
                //= SHM-029
                for _ in 0..SOCKET.saturating_sub(self.reports.len()) {
                    let more = self.read_message(*key);
                    let found = has_it(self, *key);
                    if found || !more {
                        return found;
                    }
                }
                false
            })
        })
    }

    /// A peer's DMB that is attached already.
    fn find_attached(&self, peer: Peer, token: DmbToken) -> Option<(Key, Arc<SharedRegion>, Ring)> {
        let owner = |key| self.channels.at(key).map(Channel::owner);
        let is_peer = |key| owner(key) == Some(peer);
        self.attached.iter().find_map(|(_, at)| match at {
            Attached::Live {
                channel,
                token: of,
                region,
                ring,
                ..
            } if *of == token && is_peer(*channel) => Some((*channel, region.clone(), *ring)),
            _ => None,
        })
    }

    /// Takes an offer of at least this length out of the unclaimed ones.
    fn claim(&mut self, channel: Key, token: DmbToken, len: u32) -> Result<Offer, IsmError> {
        let at = self.channels.at_mut(channel).ok_or(IsmError::Unreachable)?;
        let offer = at.offers.get(token).ok_or(IsmError::Token)?;
        if len as usize > offer.region.len() {
            return Err(IsmError::Length);
        }
        let offer = at.offers.remove(token).ok_or(IsmError::Token)?;
        self.expected_is_claimed(channel);
        Ok(offer)
    }

    /// A rendezvous has claimed a DMB that was offered over this channel.
    fn expected_is_claimed(&mut self, channel: Key) {
        let Some(at) = self.channels.at_mut(channel) else {
            return;
        };
        // The rendezvous may have begun over another channel to the same peer.
        if !at.offers.claim() {
            let peer = at.owner();
            let of_peer = |at: &Channel| at.owner() == peer;
            let mut is_claimed = false;
            self.channels
                .for_each(|at| is_claimed = is_claimed || of_peer(at) && at.offers.claim());
        }
    }

    /// Takes a DMB out of those whose connections have ended, which the peer names again.
    ///
    /// # Errors
    /// The errors of [`Self::check_attached`] and of [`Kept::take`]; it stays there.
    //= SHM-057
    fn find_finished(
        &mut self,
        peer: Peer,
        token: DmbToken,
        len: u32,
    ) -> Result<Option<(Key, Named)>, IsmError> {
        let of_peer = self.channels.iter().filter(|(_, at)| at.owner() == peer);
        let known = of_peer.filter_map(|(key, at)| Some((key, at.kept.find(token)?)));
        let Some((key, place)) = { known }.next() else {
            return Ok(None);
        };
        self.check_attached(key)?;
        let channel = self.channels.at_mut(key).ok_or(IsmError::Unreachable)?;
        let now = Instant::now();
        let dmb = channel.kept.take(place, len, now).inspect_err(|error| {
            // It is tried again when the device is polled.
            if *error == IsmError::Busy {
                self.alarm.set_by(now + RETRY);
            }
        })?;
        self.expected_is_claimed(key);
        Ok(Some((key, dmb)))
    }

    #[inline]
    fn target(&self, remote: RemoteDmb, element: u16) -> Result<Target<'_>, IsmError> {
        element_bit(element, &facts(self.gid, self.limits.dmbs))?;
        match self.attached.at(remote.0) {
            Some(Attached::Live {
                channel,
                region,
                ring,
                len,
                flags,
                ..
            }) => Ok(Target {
                region,
                channel: *channel,
                ring: *ring,
                len: *len as usize,
                flags,
            }),
            Some(Attached::Vanished(_)) => Err(IsmError::Unreachable),
            Some(Attached::Withdrawn) | None => Err(IsmError::Stale),
        }
    }

    /// The outcome of a move without a target. The end of a peer fails no move before it is
    /// reported: a failure would overtake the reports of what the peer did before, and the
    /// bytes that it wrote would be lost.
    //= SHM-029
    #[cold]
    fn moved_behind_end(&self, remote: RemoteDmb, error: IsmError) -> Result<(), IsmError> {
        match self.attached.at(remote.0) {
            Some(Attached::Vanished(peer)) if self.departed.contains(peer) => Ok(()),
            _ => Err(error),
        }
    }

    /// The report of a ring for a DMB.
    #[inline]
    pub(super) fn signalled(&self, key: Key) -> Option<IsmReport> {
        let own = self.dmbs.at(key)?;
        own.fetch_next();
        let mut cdc = [0; CDC_LEN];
        own.read_head(&mut cdc);
        Some(IsmReport::Signalled {
            dmb: Dmb(key),
            mask: 0x8000,
            cdc,
        })
    }
}

/// There is one network here: no VLAN, but what version 2 asks for.
fn check_vlan(vlan: Option<VlanId>) -> Result<(), IsmError> {
    let fine = vlan.is_none_or(|vlan| vlan == VlanId::V2);
    fine.then_some(()).ok_or(IsmError::Vlan)
}
