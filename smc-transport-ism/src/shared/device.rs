//! The device: its DMBs, its attachments and its channels.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::epoll::{CreateFlags, EventData, EventFlags};

use super::alarm::Alarm;
use super::channel::{Begun, Channel};
use super::gids::Gids;
use super::in_flight::InFlight;
use super::own_user::own_user;
use super::pairing::{Paired, Peer};
use super::socket::Socket;
use super::spin::SpinBudget;
use crate::descriptors;
use crate::device::{CDC_LEN, Cdc, DmbToken, Gid128, IsmError, IsmReport};
use crate::doorbell::{Ring, SLOTS};
use crate::memory::{PRODUCER, Reapers, SharedRegion, UNKNOWN};
use crate::slots::{Key, Slots};

/// Peers a device can have.
const MAX_CHANNELS: u32 = 1024;
/// Of these, peers of one user that is neither root nor this process's own: each holds a
/// descriptor, and is polled, as long as the peer likes.
pub(super) const OF_A_STRANGER: usize = 64;

/// How much a device may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most DMBs at a time; there may be twice as many attachments. One peer can have 16,640.
    /// Each DMB and each attachment is a mapping, of which a process has a limited number
    /// (`vm.max_map_count`).
    pub dmbs: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { dmbs: 16_384 }
    }
}

const _: () = assert!(SLOTS >= 16_384);

/// Event data of the alarm at the poller: no channel has this key.
pub(super) const ALARM: u64 = u64::MAX;

/// Whether a peer of this user is bounded as one that means harm: root and this process's
/// own user could do worse by other means.
pub(super) fn is_stranger(uid: u32) -> bool {
    uid != 0 && uid != own_user()
}

/// Whether this user is the process's own, so that a peer of it takes this process for one of its
/// own user's, too. A peer of root does not, unless this process is root's.
pub(super) fn is_own_user(uid: u32) -> bool {
    uid == own_user()
}

/// Event data of sockets that are left of channels.
pub(super) const LEFT: u64 = u64::MAX - 1;

/// Events of a channel's socket that the poller always waits for.
pub(super) const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// An ISM device of this process, joined to devices of other processes by channels.
pub struct Device {
    pub(super) gid: Gid128,
    gids: Gids,
    pub(super) poller: Arc<OwnedFd>,
    pub(super) channels: Slots<Channel>,
    pub(super) dmbs: Slots<OwnDmb>,
    pub(super) attached: Slots<Attached>,
    pub(super) reports: VecDeque<IsmReport>,
    /// Peers whose end waits among the reports.
    pub(super) departed: Vec<Peer>,
    pub(super) limits: Limits,
    pub(super) polls: u32,
    pub(super) behind: bool,
    pub(super) parked: bool,
    /// Whether the peers were asked not to ring for DMBs.
    pub(super) suppresses_rings: bool,
    /// Whether the descriptor is polled externally, and [`Device::note_readable`] is called then.
    pub(super) externally_polled: bool,
    /// Number of calls of [`Device::note_readable`], modulo 2^32.
    pub(super) readable_events: u32,
    /// Whether there may be something in a socket.
    pub(super) unread: bool,
    /// Whether the next read of the sockets reads everything.
    pub(super) drains: bool,
    /// Spins before the next poll in [`Device::wait`].
    pub(super) pause: u32,
    pub(super) crowded: bool,
    /// Index of the channel to be polled next.
    pub(super) next_channel: u32,
    pub(super) spin: SpinBudget,
    pub(super) alarm: Alarm,
    pub(super) in_flight: InFlight,
    /// Give pages of files back that strangers have.
    pub(super) reapers: Reapers,
}

/// A DMB of this device.
pub(super) struct OwnDmb {
    pub(super) channel: Key,
    /// Slot of the DMB at the channel.
    pub(super) slot: Key,
    pub(super) token: DmbToken,
    pub(super) region: Arc<SharedRegion>,
    /// Behind what was read last: what comes next most likely lies there.
    pub(super) next: AtomicU32,
    /// A report of a signal to it waits to be taken.
    pub(super) is_queued: bool,
    /// The units of the head with the producer cursor and the flags, as they were when last read.
    pub(super) heads: [AtomicU64; 2],
}

/// Before the mapping goes: the peer keeps the file as long as it likes, and what this side
/// touched in it would stay charged to this process.
//= SHM-051
impl Drop for OwnDmb {
    fn drop(&mut self) {
        self.region.discard();
    }
}

/// Bytes of a cache line of most processors.
const LINE: u32 = 64;

impl OwnDmb {
    /// Prefetches the first bytes of data that come with a message.
    #[inline]
    pub(super) fn fetch_next(&self) {
        let next = self.next.load(Ordering::Relaxed);
        self.region.fetch_ahead(next);
        self.region.fetch_ahead(next.saturating_add(LINE));
    }

    /// Whether the head may have changed since it was last read.
    #[inline]
    pub(super) fn has_changed(&self) -> bool {
        let [cursor, flags] = &self.heads;
        let known = [cursor, flags].map(|unit| unit.load(Ordering::Relaxed));
        self.region.is_other(known)
    }

    /// Zeroes the head, for the next use.
    pub(super) fn clear(&mut self) -> Result<(), IsmError> {
        self.region
            .write_cdc(0, &[0; CDC_LEN], &AtomicU64::new(UNKNOWN))?;
        self.heads = Default::default();
        self.next = AtomicU32::new(CDC_LEN as u32);
        self.is_queued = false;
        Ok(())
    }

    /// Reads the head.
    #[inline]
    pub(super) fn read_head(&self, into: &mut Cdc) {
        // Every DMB has one.
        let _ = self.region.read_cdc_into(0, into);
        for (unit, now) in self
            .heads
            .iter()
            .zip(into.as_chunks().0.iter().skip(PRODUCER))
        {
            unit.store(u64::from_ne_bytes(*now), Ordering::Relaxed);
        }
    }
}

/// A peer's DMB, attached here.
pub(super) enum Attached {
    Live {
        channel: Key,
        token: DmbToken,
        region: Arc<SharedRegion>,
        ring: Ring,
        len: u32,
        /// The unit of its head with the flags, as this side wrote it last.
        flags: Arc<AtomicU64>,
    },
    Withdrawn,
    /// The peer that owned it has gone.
    Vanished(Peer),
}

impl Attached {
    /// Ends it, as its owner took the DMB back or has gone, and gives its memory back.
    //= SHM-051
    pub(super) fn end(&mut self, now: Self) {
        let is_withdrawn = matches!(now, Self::Withdrawn);
        if let Self::Live { region, .. } = core::mem::replace(self, now) {
            if is_withdrawn {
                region.discard_withdrawn();
            } else {
                region.discard();
            }
        }
    }

    /// Whether it was offered over this channel, and is there.
    pub(super) fn is_over(&self, channel: Key) -> bool {
        matches!(self, Self::Live { channel: of, .. } if *of == channel)
    }
}

impl Device {
    /// A device with a GID of 128 random bits, joined to no peer yet.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open() -> io::Result<Self> {
        Self::with(Limits::default())
    }

    /// A device with a GID of 128 random bits, joined to no peer yet, and with these limits.
    ///
    /// # Errors
    /// The operating system's.
    pub fn with(limits: Limits) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let poller = descriptors::keep(|| rustix::event::epoll::create(CreateFlags::CLOEXEC))?;
        let alarm = Alarm::new()?;
        let data = EventData::new_u64(ALARM);
        rustix::event::epoll::add(&poller, &alarm, data, EventFlags::IN)?;
        Ok(Self {
            gids: Gids::secret()?,
            gid: Gid128 {
                gid: super::random()?,
                ext: super::random()?,
            },
            poller: Arc::new(poller),
            channels: Slots::new(MAX_CHANNELS),
            dmbs: Slots::new(limits.dmbs),
            attached: Slots::new(limits.dmbs.saturating_mul(2)),
            reports: VecDeque::new(),
            departed: Vec::new(),
            limits,
            polls: 0,
            behind: false,
            parked: false,
            suppresses_rings: false,
            externally_polled: false,
            readable_events: 0,
            unread: false,
            drains: false,
            pause: 0,
            crowded: false,
            next_channel: 0,
            spin: SpinBudget::new(if cores > 1 {
                super::spin::MOST
            } else {
                Duration::ZERO
            }),
            alarm,
            in_flight: InFlight::default(),
            reapers: Reapers::default(),
        })
    }

    /// Joins two devices of one process.
    ///
    /// # Errors
    /// The operating system's.
    pub fn join(one: &mut Self, two: &mut Self) -> io::Result<()> {
        let (left, right) = Socket::pair()?;
        let (left, right) = (Begun::begin(left, one.gid)?, Begun::begin(right, two.gid)?);
        let now = Instant::now();
        one.adopt(left.finish(now)?)?;
        two.adopt(right.finish(now)?)
    }

    /// Joins the device at the other end of a connected Unix socket of type
    /// `SOCK_SEQPACKET`, which does the same; waits for it at most `timeout`. For
    /// processes that have such a socket from elsewhere, as a child has from its
    /// parent; see [`pairing`](super::pairing) for those that have not.
    ///
    /// # Errors
    /// The operating system's, [`io::ErrorKind::TimedOut`], or
    /// [`io::ErrorKind::InvalidData`] if no such device is at the other end.
    pub fn join_over(&mut self, socket: OwnedFd, timeout: Duration) -> io::Result<Gid128> {
        let begun = Begun::begin(Socket::new(socket), self.gid)?;
        let channel = begun.finish(Instant::now() + timeout)?;
        let peer = channel.peer;
        self.adopt(channel)?;
        Ok(peer)
    }

    /// The descriptor that is readable when there may be a report to take, to be
    /// polled while the device is used elsewhere.
    #[must_use]
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.poller.clone()
    }

    /// The GIDs that peers learn by [`pairing`](super::pairing), one for each user of
    /// peers.
    #[must_use]
    pub fn gids(&self) -> Gids {
        self.gids.clone()
    }

    /// Takes a channel over.
    pub(super) fn adopt(&mut self, channel: Channel) -> io::Result<()> {
        let (peer, uid) = (channel.peer, channel.uid);
        // Commands and reports name a peer by its GID alone: it is one user's until the end of
        // that user's last peer of this GID was reported.
        //= SHM-055
        let is_anothers = |known: Peer| known.gid == peer && known.uid != uid;
        let known = self.channels.iter().map(|(_, at)| at.owner());
        let is_taken = known.chain(self.departed.iter().copied()).any(is_anothers);
        let is_own = peer == self.gid || peer == self.gids.toward(uid);
        if is_own || is_taken {
            self.keep_ended_socket(uid, channel.socket);
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let full = || io::Error::from(io::ErrorKind::QuotaExceeded);
        //= SHM-033
        let of_theirs = |(_, known): &(Key, &Channel)| known.uid == uid;
        if is_stranger(uid) && self.channels.iter().filter(of_theirs).count() >= OF_A_STRANGER {
            self.keep_ended_socket(uid, channel.socket);
            return Err(full());
        }
        let key = self.channels.insert_with(|_| channel).ok_or_else(full)?;
        let added = self.channels.at(key).map(|channel| {
            if self.parked {
                channel.park();
            } else if self.suppresses_rings {
                channel.suppress_rings();
            }
            let data = EventData::new_u64(pack(key));
            rustix::event::epoll::add(&*self.poller, channel, data, READABLE)
        });
        if let Some(Err(error)) = added {
            self.channels.remove(key);
            return Err(error.into());
        }
        Ok(())
    }

    /// Takes over what pairing has made; the peer's device can then be reached.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::NotConnected`] if there is no channel
    /// to the peer after all. CLC is to be spoken nevertheless, and declined.
    pub fn admit(&mut self, paired: Paired) -> io::Result<Gid128> {
        let peer = paired.peer;
        self.in_flight.remove_handshake(peer.uid);
        if let Some(socket) = paired.left {
            self.keep_ended_socket(peer.uid, socket);
        }
        if let Some(channel) = paired.channel {
            self.adopt(*channel)?;
        }
        let of_peer = |at: &Channel| at.owner() == peer;
        let found = self.channels.iter().find(|(_, at)| of_peer(at));
        let key = found.map(|(key, _)| key);
        let channel = key.and_then(|key| self.channels.at_mut(key));
        let channel = channel.ok_or(io::ErrorKind::NotConnected)?;
        // The connection is to claim a DMB that the peer offers.
        channel.offers.expect(Instant::now());
        if let Some(key) = key {
            if !self.retry_handshakes(key) {
                self.close(key);
                return Err(io::ErrorKind::NotConnected.into());
            }
            self.offer_handshakes(key);
        }
        Ok(peer.gid)
    }

    /// Whether there is a channel to this peer.
    #[must_use]
    pub fn is_joined(&self, peer: &Peer) -> bool {
        self.channels.iter().any(|(_, at)| at.owner() == *peer)
    }

    /// The channel to the peer of this GID: [`Self::adopt`] sees to it that there is one user
    /// of it.
    pub(super) fn channel_to(&self, peer: Gid128) -> Result<Key, IsmError> {
        let mut channels = self.channels.iter();
        let found = channels.find(|(_, channel)| channel.peer == peer);
        found.map(|(key, _)| key).ok_or(IsmError::Unreachable)
    }
}

pub(super) fn pack((index, generation): Key) -> u64 {
    (u64::from(index) << 32) | u64::from(generation)
}

pub(super) fn unpack(data: u64) -> Key {
    ((data >> 32) as u32, data as u32)
}
