//! Attempts whose program makes no call when TCP has connected: the driver sends the Proposal.
//!
//! A server that has seen SMC's TCP option waits some seconds for the Proposal, and a kernel's serves
//! one handshake after the other. The program may make no call for as long: it works on something, or
//! writes to one connection until that has room, as redis-benchmark does. What follows the Proposal
//! comes over TCP and over RNICs, where the driver receives it.
//!
//! ```text
//!   TCP connects ─┬─ the program calls finish ────► Proposal ──► Accept, CONFIRM LINK: the driver,
//!                 └─ the driver's poller shows it ──┘            or whichever thread is first
//! ```

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::epoll::{self, EventFlags};

use super::{Attempt, Stage, Step, WaitMode};
use crate::driver::Token;
use crate::shard::Shard;
use crate::socket::Socket;

/// An attempt, shared by its program and the driver. None once it is finished.
pub(super) type Slot = Mutex<Option<Box<Attempt>>>;

/// Attempts whose TCP connects, by their TCP sockets, each of which the program has open.
#[derive(Default)]
pub(crate) struct Unattended(Mutex<BTreeMap<RawFd, Weak<Slot>>>);

impl Unattended {
    /// Sends the Proposal of an attempt whose TCP has connected, unless the program has.
    pub(crate) fn go_on(&self, tcp: RawFd) {
        // The lock of the list is taken with that of an attempt, not the other way round.
        let slot = self.listed().get(&tcp).and_then(Weak::upgrade);
        let Some(slot) = slot else {
            return;
        };
        if let Some(attempt) = &mut *lock(&slot) {
            attempt.go_on_unattended();
        }
    }

    fn listed(&self) -> MutexGuard<'_, BTreeMap<RawFd, Weak<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks an attempt. In a child, a thread of the parent may have had the lock at the fork.
pub(super) fn lock(slot: &Slot) -> MutexGuard<'_, Option<Box<Attempt>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the driver wait for TCP as well, for an attempt that has begun, if CLC may go over TCP and no
/// thread of the program waits.
pub(super) fn list(shard: &Shard, slot: &Arc<Slot>) {
    let attempt = lock(slot);
    let Some(attempt) = attempt.as_deref() else {
        return;
    };
    let is_over_tcp = matches!(attempt.stage, Stage::Tcp(None, _)) && !attempt.is_plain();
    if !is_over_tcp || !attempt.may_be_unattended() {
        return;
    }
    let fd = attempt.tcp.as_raw_fd();
    shard.unattended.listed().insert(fd, Arc::downgrade(slot));
    let flags = EventFlags::OUT | EventFlags::ET;
    let listed = shard.poll_for(Token::Unattended(fd), &attempt.tcp, flags);
    if listed.is_err() {
        // The program goes on with it alone.
        attempt.unlist();
    }
}

impl Attempt {
    /// Whether its program may do something else: no thread waits that goes on with it.
    pub(super) fn may_be_unattended(&self) -> bool {
        matches!(self.waits, WaitMode::Descriptor | WaitMode::EventLoop)
    }

    /// Ends what [`list`] began, if it did.
    pub(super) fn unlist(&self) {
        let listed = self.shard.unattended.listed().remove(&self.tcp.as_raw_fd());
        if listed.is_some() {
            let _ = epoll::delete(&self.shard.poller, &self.tcp);
        }
    }

    /// Sends the Proposal if TCP has connected, and no more: what the server answers is handled in calls
    /// of the program, which may connect once more. An outcome without a Proposal is kept for the
    /// program, whose descriptor is ready because of TCP.
    fn go_on_unattended(&mut self) {
        if !matches!(self.stage, Stage::Tcp(None, _)) {
            return;
        }
        match self.propose_unattended() {
            Ok(None) => {}
            Ok(Some(socket)) => self.stage = Stage::Decided(socket),
            Err(error) => self.stage = Stage::Failed(error),
        }
    }

    /// Goes on from TCP to the Proposal, if TCP has connected. Returns the stream's socket if the
    /// connection is TCP.
    fn propose_unattended(&mut self) -> io::Result<Option<Arc<Socket>>> {
        if !self.is_connected()? {
            return Ok(None);
        }
        self.unlist();
        let place = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Tcp(_, place) => place,
            other => {
                self.stage = other;
                return Ok(None);
            }
        };
        if let Some(Step::Done(socket)) = self.negotiate_over_tcp(place, false)? {
            return Ok(Some(socket));
        }
        let now = self.shard.now();
        self.shard.lock().drain_and_park(&self.shard, now);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;

    use super::lock;
    use crate::children::fork;
    use crate::connecting::Connecting;
    use crate::{Policy, Settings, Stack};

    /// The driver is in the midst of [`super::Unattended::go_on`], as it may be for long when a process
    /// is copied. The child has no such thread.
    //= SHM-061 test
    #[test]
    fn a_child_of_a_process_whose_driver_goes_on_with_an_attempt_keeps_no_socket_of_it() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let mut settings = Settings::default();
        let port = address.port();
        settings.policy = Policy::parse(&format!(
            "assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{port}] }}]"
        ))
        .unwrap();
        let stack = Stack::with(settings).unwrap();
        let mut connecting = Some(Connecting::begin(&stack, None, address).unwrap());
        let slot = connecting.as_ref().unwrap().attempt.clone();
        let tcp = lock(&slot).as_deref().unwrap().tcp.as_raw_fd();
        let (has_locked, is_locked) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let driver = std::thread::spawn(move || {
            let _attempt = lock(&slot);
            has_locked.send(()).unwrap();
            ended.recv().unwrap();
        });
        is_locked.recv().unwrap();
        fork(|| {
            let names = || std::fs::read_link(format!("/proc/self/fd/{tcp}"));
            let is_socket = || names().is_ok_and(|at| at.to_string_lossy().starts_with("socket:"));
            assert!(is_socket());
            drop(connecting.take());
            assert!(!is_socket());
        })
        .succeeds();
        ends.send(()).unwrap();
        driver.join().unwrap();
        drop((connecting, server));
    }
}
