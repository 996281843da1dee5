//! How a device polls its doorbells and sockets, and waits when both are idle.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{Event, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::channel::Channel;
use super::device::{ALARM, Device, LEFT, unpack};
use super::handshakes::RUNG;
use super::pairing::Peer;
use super::socket::timespec;
use crate::device::{DeviceEvent, IsmDevice, IsmReport};
use crate::slots::Key;

/// Number of polls of the doorbells after which the sockets are read, too.
const SOCKETS_EVERY: u32 = 256;
/// Longest pause, in spins, before a peer is polled that rings without pause.
const PAUSE: u32 = 32;
/// Longest pause, in spins, while no second ring came between two polls: short enough for a
/// peer that answers.
const SHORT_PAUSE: u32 = 1;
/// Reports that may wait before sockets are left unread.
pub(super) const REPORTS: usize = 64;
/// Sockets that one poll reads.
const SOCKETS: usize = 16;
/// Polls between two readings of the clock.
const POLLS_PER_CLOCK: u32 = 16;

impl Device {
    /// The next report, for which this waits at most `timeout`, or without end.
    ///
    /// Spins for a while without a system call if that has paid lately, then waits in the kernel.
    ///
    /// # Errors
    /// The operating system's.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Option<IsmReport>> {
        // Polling slows a peer that rings faster than this side polls: the line it writes is
        // the one that is read here.
        for _ in 0..self.pause {
            core::hint::spin_loop();
        }
        if let Some(report) = self.poll() {
            let most = if self.crowded { PAUSE } else { SHORT_PAUSE };
            self.pause = (self.pause * 2 + 1).min(most);
            return Ok(Some(report));
        }
        self.pause = 0;
        let begin = Instant::now();
        if let Some(report) = self.spin_for_report(begin, timeout) {
            return Ok(Some(report));
        }
        loop {
            if self.unread {
                self.read_sockets()?;
            }
            let asleep = self.park();
            if asleep {
                let left = timeout.map(|time| time.saturating_sub(begin.elapsed()));
                let slept = self.sleep(left);
                self.unpark();
                slept?;
            }
            let report = self.after_park(asleep);
            if report.is_some() || timeout.is_some_and(|time| begin.elapsed() >= time) {
                return Ok(report);
            }
        }
    }

    /// The next report after parking, and after waiting if that was allowed.
    pub(super) fn after_park(&mut self, slept: bool) -> Option<IsmReport> {
        // What woke this side most likely rang. But a report that was queued while parking
        // comes before any that is received now.
        let signal = if slept { self.next_signal() } else { None };
        signal.or_else(|| self.poll())
    }

    /// Waits until there is something in a socket, which is then left there: what rang is
    /// reported first.
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let alarm = self.alarm.at();
        let until_alarm = alarm.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.into_iter().chain(until_alarm).min().map(timespec);
        let mut channels = self.channels.iter();
        let slept = match (channels.next(), channels.next()) {
            // Most have one peer, and are woken a little sooner at its very socket.
            (Some((_, only)), None) if !self.behind => {
                let mut polled = [PollFd::new(&only.socket, PollFlags::IN)];
                rustix::event::poll(&mut polled, timeout.as_ref())
            }
            _ => {
                let mut event = [MaybeUninit::<Event>::uninit(); 1];
                let slept = rustix::event::epoll::wait(&*self.poller, &mut event, timeout.as_ref());
                slept.map(|(events, _)| events.len())
            }
        };
        match slept {
            Ok(ready) => {
                self.unread |= ready > 0 || alarm.is_some_and(|at| at <= Instant::now());
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sets how long [`Self::wait`] spins at most before it waits in the kernel; zero makes it do
    /// so at once. The default is 100 microseconds, or zero on a machine with one core.
    pub fn limit_spin(&mut self, time: Duration) {
        self.spin.limit(time);
    }

    /// Polls the doorbells as long as that may pay.
    fn spin_for_report(&mut self, begin: Instant, timeout: Option<Duration>) -> Option<IsmReport> {
        let budget = self.spin.begin().min(timeout.unwrap_or(Duration::MAX));
        if budget.is_zero() {
            return None;
        }
        let mut last = begin;
        loop {
            for _ in 0..POLLS_PER_CLOCK {
                if let Some(report) = self.poll() {
                    self.spin.found();
                    return Some(report);
                }
                core::hint::spin_loop();
            }
            let now = Instant::now();
            if self.spin.was_interrupted(now - last) {
                return None;
            }
            if now - begin > budget {
                self.spin.missed();
                return None;
            }
            last = now;
        }
    }

    /// Prepares for a wait: whether there is nothing to report, so that a thread which waits
    /// until [`Self::as_fd`] is readable misses nothing. Any other call ends it.
    pub fn park(&mut self) -> bool {
        if !self.parked {
            self.parked = true;
            self.channels.iter().for_each(|(_, channel)| channel.park());
            // Parking makes the peers ring again, too.
            if std::mem::take(&mut self.suppresses_rings) {
                self.poll_heads();
            }
        }
        // A ring before the peer could see that this side is parked causes no wake.
        if self.reports.is_empty() {
            let signal = self.next_signal();
            self.queue_signal(signal);
        }
        let asleep = self.reports.is_empty();
        if !asleep {
            self.unpark();
        }
        asleep
    }

    /// Declares that another poller waits for the descriptor all the time, and calls
    /// [`Device::note_readable`] for each of its events: polls then need not read the sockets
    /// unasked.
    pub fn set_externally_polled(&mut self) {
        self.externally_polled = true;
    }

    /// Makes the next poll read the sockets: the descriptor was readable.
    pub fn note_readable(&mut self) {
        self.readable_events = self.readable_events.wrapping_add(1);
        self.unread = true;
    }

    /// Makes the next poll read the sockets: the descriptor was readable for a thread that is
    /// not the one of [`Device::note_readable`], and does not know what the peers announced by other
    /// means.
    ///
    /// Everything is read, as an edge-triggered poller needs it; if not,
    /// [`Device::has_unread_sockets`] is true.
    pub fn on_readable(&mut self) {
        (self.unread, self.drains) = (true, true);
    }

    /// Whether sockets may have messages that were left unread, so that the descriptor has to
    /// be taken for readable although an edge-triggered poller reports nothing.
    #[must_use]
    pub fn has_unread_sockets(&self) -> bool {
        self.unread
    }

    /// Whether the end of a peer waits until [`Device::note_readable`] is called: the peer had offered
    /// a DMB that it may have announced by other means.
    //= SHM-037
    #[must_use]
    pub fn has_ended_channels(&self) -> bool {
        self.channels.iter().any(|(_, at)| at.ended.is_some())
    }

    /// Whether the device is parked, so that everything that happens wakes a thread.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.parked
    }

    pub(super) fn unpark(&mut self) {
        if self.parked {
            self.parked = false;
            self.channels.iter().for_each(|(_, at)| at.unpark());
        }
    }

    /// The next report.
    #[inline]
    pub(super) fn next_report(&mut self) -> Option<IsmReport> {
        self.polls = self.polls.wrapping_add(1);
        let due = !self.externally_polled && self.polls.is_multiple_of(SOCKETS_EVERY);
        if due || self.parked || self.behind || self.unread || !self.reports.is_empty() {
            return self.next_of_all(due);
        }
        self.next_signal()
    }

    /// The next report, also of what the sockets or earlier polls brought.
    #[inline(never)]
    fn next_of_all(&mut self, due: bool) -> Option<IsmReport> {
        if self.parked {
            // A thread that waited by other means was woken by something in a socket. Where the descriptor
            // is polled all the time, its poller reports that.
            self.unread |= !self.externally_polled
                && self
                    .channels
                    .iter()
                    .any(|(_, channel)| !channel.at_futex_word);
            self.unpark();
        }
        if let Some(report) = self.next_waiting() {
            return Some(report);
        }
        if due || self.behind || self.unread {
            // A poller that fails has nothing to report; a lasting failure shows in `wait`.
            let _ = self.read_sockets();
        }
        let signal = self.next_signal();
        signal.or_else(|| self.next_waiting())
    }

    /// The report of the next ring, round-robin over the channels.
    #[inline]
    fn next_signal(&mut self) -> Option<IsmReport> {
        let used = self.channels.used();
        for _ in 0..used {
            // The one after the last that rang: no peer keeps the others waiting.
            let index = if self.next_channel < used {
                self.next_channel
            } else {
                0
            };
            self.next_channel = index + 1;
            let Some((key, mut channel)) = self.channels.at_index_mut(index) else {
                continue;
            };
            if channel.awaits_page() {
                self.read_page(key);
                match self.channels.at_mut(key) {
                    Some(still) => channel = still,
                    None => continue,
                }
            }
            let Some(ring) = channel.next_ring() else {
                continue;
            };
            let dmb = channel.rung(ring);
            self.crowded = channel.is_crowded();
            // A ring for what is gone reports nothing.
            let report = match dmb {
                Some(RUNG) => self.rung_for_handshakes(key),
                dmb => dmb.and_then(|dmb| self.signalled(dmb)),
            };
            if report.is_some() {
                return report;
            }
        }
        None
    }

    /// Reads a channel's socket up to the page of doorbells that the peer has rung in, if that
    /// has been sent.
    //= SHM-071
    #[cold]
    fn read_page(&mut self, key: Key) {
        for _ in 0..REPORTS {
            let is_awaited = self.channels.at(key).is_some_and(Channel::awaits_page);
            if !is_awaited || self.reports.len() >= REPORTS || !self.read_message(key) {
                return;
            }
        }
    }

    /// Reads the sockets that are readable.
    fn read_sockets(&mut self) -> io::Result<()> {
        self.unread = false;
        let drains = std::mem::replace(&mut self.drains, false);
        if let Some(key) = self.only_socket() {
            let room = REPORTS.saturating_sub(self.reports.len());
            if !self.read_channel(key, room, drains) && drains {
                (self.unread, self.drains) = (true, true);
            }
            return Ok(());
        }
        let mut events = [MaybeUninit::<Event>::uninit(); SOCKETS];
        let now = timespec(Duration::ZERO);
        let events = match rustix::event::epoll::wait(&*self.poller, &mut events, Some(&now)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Further sockets may be readable.
        let mut more = events.len() == SOCKETS;
        for event in events.iter() {
            // The kernel packs these; each is copied out.
            let (flags, data) = (event.flags, event.data);
            if data.u64() == ALARM {
                self.handle_alarm();
                continue;
            }
            if data.u64() == LEFT {
                self.in_flight.sweep();
                continue;
            }
            let key = unpack(data.u64());
            if flags.contains(EventFlags::OUT) {
                self.catch_up(key);
            }
            let room = REPORTS.saturating_sub(self.reports.len());
            more |= !self.read_channel(key, room, drains);
        }
        if drains && more {
            (self.unread, self.drains) = (true, true);
        }
        Ok(())
    }

    /// The channel, if there is one, and nothing else that the poller may report: reading its
    /// socket then takes less than asking the poller first.
    fn only_socket(&self) -> Option<Key> {
        let mut channels = self.channels.iter();
        let (key, channel) = channels.next()?;
        let is_only = channels.next().is_none();
        let is_due = |at| at <= Instant::now();
        let has_others = self.behind || channel.awaits_room || self.in_flight.has_ended_sockets();
        (is_only && !has_others && !self.alarm.at().is_some_and(is_due)).then_some(key)
    }

    /// The report that has waited longest; a signal with the head as it is now.
    fn next_waiting(&mut self) -> Option<IsmReport> {
        let mut report = self.reports.pop_front()?;
        if let IsmReport::Signalled { dmb, cdc, .. } = &mut report
            && let Some(own) = self.dmbs.at_mut(dmb.0)
        {
            own.is_queued = false;
            own.read_head(cdc);
        }
        let departed = |peer: &Peer| report == IsmReport::Event(DeviceEvent::vanished(peer.gid));
        if let Some(at) = self.departed.iter().position(departed) {
            self.departed.swap_remove(at);
        }
        Some(report)
    }
}

impl AsFd for Device {
    /// Readable when [`IsmDevice::poll`] may have something to report; sure to be so
    /// only after [`Device::park`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
