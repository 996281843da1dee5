//! Connections that a program has accepted and that become TCP without a stream of this crate,
//! although their clients may speak CLC: the bytes that follow are the application's.
//!
//! ```text
//!   client                        this side
//!     ◄──────────── Decline ────── at once
//!     ─ Proposal ────────────────► dropped
//!     ─ nothing in time ─────────► reset
//! ```
//!
//! No descriptor is needed. Where a stream can be made, it drops the messages when the application
//! reads (`Shard::decline`), and nothing has to be waited for.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use smc_proto::wire::clc::MAX_LENGTH;
use smc_proto::wire::types::DiagnosisCode;

use crate::carrier::Cause;
use crate::opening::{self, Opening, Step};
use crate::shard::{Shard, discard, has_ended, peek, timespec};
use crate::system;

/// Time since the client's last message after which its Decline may be on the way: half of what a
/// client waits for an answer to its Proposal.
const YOUNG: Duration = Duration::from_secs(3);

/// Pause between two polls for a message of which a part has come.
const PAUSE: Duration = Duration::from_micros(200);

/// Declines the client of an accepted connection if it is known to speak CLC. Its first message is
/// waited for so long at most.
///
/// # Errors
/// [`io::ErrorKind::ConnectionReset`]: the connection was reset, as the message has not come, or the
/// client has reset it.
pub(super) fn let_go(shard: &Shard, tcp: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let near = rustix::net::getsockname(tcp).and_then(SocketAddr::try_from);
    let far = rustix::net::getpeername(tcp).map(|far| far.and_then(|far| far.try_into().ok()));
    let (Ok(near), Ok(Some(far))) = (near, far) else {
        return drop_left_over(shard, tcp);
    };
    let far: SocketAddr = far;
    let verdict = shard.opt_in.accepted(tcp, near.port(), far.ip(), Ok(()));
    if verdict.discovery.is_err() {
        return Ok(());
    }
    let code = verdict.declines.map_or(DiagnosisCode::MEMORY, Cause::code);
    decline(shard, tcp, code, timeout)
}

/// Drops what has come over a connection that its client has reset since, if it may be a Proposal: of a
/// client that sent the TCP option, or that the policy may take to speak CLC. The kernel has forgotten
/// the client's address.
///
/// # Errors
/// [`io::ErrorKind::ConnectionReset`]: it was dropped.
pub(super) fn drop_left_over(shard: &Shard, tcp: BorrowedFd<'_>) -> io::Result<()> {
    let opt_in = &shard.opt_in;
    match opt_in.has_asked(tcp) || opt_in.assumes_any() && begins_with_clc(tcp) {
        true => reset(tcp),
        false => Ok(()),
    }
}

/// Whether bytes have come that begin as a Proposal or a Decline does.
fn begins_with_clc(tcp: BorrowedFd<'_>) -> bool {
    first_step(tcp).is_some_and(|step| step != Step::Over)
}

/// What to do with the bytes that have come; `None` if none have. The error of a connection that was
/// reset stays the application's to read, which a peek would take where no bytes are.
fn first_step(tcp: BorrowedFd<'_>) -> Option<Step> {
    if !rustix::io::ioctl_fionread(tcp).is_ok_and(|come| come > 0) {
        return None;
    }
    let mut bytes = [0; MAX_LENGTH];
    loop {
        match peek(tcp, &mut bytes) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return None,
            Ok(len) => {
                let come = bytes.get(..len).unwrap_or_default();
                return Some(Opening::Promised.classify(come));
            }
        }
    }
}

/// Waits until the first message of a client has come, all of it, or cannot come any more; for the time
/// of `timeout` at most. Reads nothing.
pub(super) fn wait_for_message(tcp: BorrowedFd<'_>, timeout: Duration) {
    let begin = Instant::now();
    loop {
        // Before the bytes: nothing comes behind the end.
        let has_ended = has_ended(tcp).is_some();
        let step = first_step(tcp);
        let left = timeout.saturating_sub(begin.elapsed());
        if has_ended || left.is_zero() || !matches!(step, None | Some(Step::Wait(_))) {
            return;
        }
        pause(tcp, step.is_none(), left);
    }
}

/// Waits until more bytes may have come, for this time at most.
fn pause(tcp: BorrowedFd<'_>, is_empty: bool, left: Duration) {
    if is_empty {
        let flags = PollFlags::IN | PollFlags::RDHUP;
        // A signal makes the caller look again.
        let _ = rustix::event::poll(&mut [PollFd::new(&tcp, flags)], Some(&timespec(left)));
    } else {
        std::thread::sleep(left.min(PAUSE));
    }
}

/// Declines the client of an accepted connection, which speaks CLC, and drops its first message, for
/// which it waits so long at most.
///
/// # Errors
/// [`io::ErrorKind::ConnectionReset`]: the connection was reset, as the message has not come.
pub(super) fn decline(
    shard: &Shard,
    tcp: BorrowedFd<'_>,
    code: DiagnosisCode,
    timeout: Duration,
) -> io::Result<()> {
    if let Some(message) = opening::decline(shard.peer_id(), code) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // If that fails, TCP has ended, which the application finds out.
        let _ = rustix::net::send(tcp, &message, flags);
    }
    match drop_proposal(tcp, timeout) {
        true => Ok(()),
        false => reset(tcp),
    }
}

/// Resets a connection: what has come over it is dropped.
fn reset(tcp: BorrowedFd<'_>) -> io::Result<()> {
    let _ = rustix::net::connect_unspec(tcp);
    Err(io::ErrorKind::ConnectionReset.into())
}

/// Drops the first message of a client that was declined, once it has come; whether the next bytes are
/// the application's. Waits for it so long at most.
pub(crate) fn drop_proposal(tcp: BorrowedFd<'_>, timeout: Duration) -> bool {
    let begin = Instant::now();
    let mut bytes = [0; MAX_LENGTH];
    loop {
        // Before the poll: nothing comes behind the end.
        let has_ended = has_ended(tcp).is_some();
        let come = match peek(tcp, &mut bytes) {
            Ok(0) => return true,
            Ok(len) => bytes.get(..len).unwrap_or_default(),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => &[],
            Err(_) => return false,
        };
        match Opening::Promised.classify(come) {
            Step::Drop(len) => {
                let age = system::last_received(tcp);
                discard(tcp, len);
                return drop_decline(tcp, age.is_none_or(|age| age >= YOUNG));
            }
            Step::Over => return true,
            Step::Malformed => return false,
            // Its rest does not come any more.
            Step::Wait(_) if has_ended => return false,
            Step::Wait(_) => {}
        }
        let left = timeout.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return false;
        }
        pause(tcp, come.is_empty(), left);
    }
}

/// Drops the Decline of a client that had waited too long; whether the next bytes are the
/// application's. `may_come` is whether one may be on the way.
fn drop_decline(tcp: BorrowedFd<'_>, may_come: bool) -> bool {
    let mut bytes = [0; MAX_LENGTH];
    let come = loop {
        match peek(tcp, &mut bytes) {
            Ok(len) => break bytes.get(..len).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => break &[],
        }
    };
    match Opening::MaybeDecline.classify(come) {
        Step::Drop(len) => {
            discard(tcp, len);
            true
        }
        Step::Over => true,
        Step::Wait(_) if come.is_empty() => !may_come || has_ended(tcp).is_some(),
        Step::Wait(_) | Step::Malformed => false,
    }
}
