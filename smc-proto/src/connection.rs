//! The protocol half of one SMC connection: cursors, window, urgent data, close
//! and abort (RFC 7609 4.3 to 4.8, A.4). Data in, data out: no tables, no links,
//! no memory of its own. The engine stores it in a slot and calls it.
//!
//! ```text
//!  sending half, in bytes since the connection began
//!
//!    completed                      written              produced
//!   ----+-------------------------------+--------------------+------->
//!       | in flight: written, announced | committed, not     | free space of
//!       | of, CDC message not           | written: no window,| the send buffer
//!       | completed                     | held, or urgent    |
//!       +---------------- send buffer ring in use -----------+
//!
//!    consumer (the peer's)              written      consumer + peer's ring
//!   ----+-------------------------------+--------------------+------->
//!       | used in the peer's RMBE       | window             |
//!
//!  receiving half
//!
//!    published        consumed                  received
//!   ----+---------------+---------------------------+---------------->
//!       | gain: the     | unread                    | what is left of the
//!       | peer does not |                           | ring as the peer
//!       | know of it    |                           | knows it
//! ```
//!
//! Work for the link is derived from these positions and a few levels whenever
//! [`Connection::next_transmit`] asks, never queued. So nothing overflows, back
//! pressure is not asking, and a change of link is moving `written` back. A transmit is
//! whole: no write is without the CDC message whose completion shows that the RNIC
//! has read the send buffer.
//!
//! The application's methods are [`Connection::send_space`], `commit`, `readable`,
//! `consume`, `shutdown`, `abort`; the network's are those starting with `on_`.
//! After any of them the owner polls [`Connection::take_notices`],
//! [`Connection::wants_work`] and [`Connection::next_timeout`].

mod application;
mod close;
mod cursor;
mod failover;
mod fast;
mod faults;
mod inbound;
#[cfg(feature = "smc-d")]
mod ism;
mod kept;
mod notices;
mod progress;
mod rx;
mod segments;
mod spans;
mod timers;
mod transitions;
mod tx;
mod urgent;
mod window;
mod work;

#[cfg(test)]
mod tests;

use close::{Act, Close, Pending};
use core::hash::Hasher;
#[cfg(target_pointer_width = "64")]
use core::mem::offset_of;
use notices::Counts;
use rx::Rx;
use timers::Timers;
use tx::Tx;
use work::Wants;

pub use close::CloseState;
pub use cursor::Ring;
pub use faults::{ApiMisuse, FatalCause, PeerMisbehaved};
pub use notices::{CdcOutcome, CloseCause, Notices, Stats};
pub use progress::Progress;
pub(crate) use segments::segments;
pub use spans::{Span, Spans};
pub use work::{NotifyRecord, Sent};

#[allow(deprecated)]
pub use crate::renamed::Told;

use crate::config::ConnectionConfig;
use crate::time::Instant;
use crate::wire::types::AlertToken;

/// Parameters of a connection that the rendezvous decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionParams {
    /// The peer's token, sent in every CDC message (CDC-004).
    pub alert_token_peer: AlertToken,
    /// Ring in our RMB element.
    pub receive: Ring,
    /// Ring in the peer's RMB element.
    pub peer: Ring,
    /// Size of the local send buffer in bytes, at most [`Ring::MAX`].
    pub send_buffer: u32,
    /// Never hold small writes back (FLOW-023).
    pub nodelay: bool,
    /// Read urgent bytes in their place in the stream. Otherwise reading stops
    /// before an urgent byte until [`Connection::take_urgent`].
    pub urgent_inline: bool,
}

impl ConnectionParams {
    /// A connection with these rings and `send_buffer` bytes of send buffer, which coalesces small
    /// writes and leaves urgent bytes in their place.
    #[must_use]
    pub const fn new(
        alert_token_peer: AlertToken,
        receive: Ring,
        peer: Ring,
        send_buffer: u32,
    ) -> Self {
        Self {
            alert_token_peer,
            receive,
            peer,
            send_buffer,
            nodelay: false,
            urgent_inline: true,
        }
    }
}

/// Which direction an application shuts down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shutdown {
    /// Receiving: nothing on the wire.
    Read,
    /// Sending.
    Write,
    /// Both: the same as close (CLOSE-002).
    Both,
}

/// An urgent byte in the local RMB element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Urgent {
    /// Where it is: bytes from the start of the element.
    pub offset: u32,
    /// Bytes of the stream to be read before it.
    pub ahead: u32,
}

/// One connection, from the rendezvous to the end of its close handshake.
///
/// Laid out for the cache, as one of many connections is seldom in it. Lines begin where
/// its record says, see [`ConnectionRecord`](crate::storage::ConnectionRecord):
///
/// ```text
///   rare        counts, timers, urgent bytes sent
///   sending     send buffer, window, numbers
///   both        the cursors that each CDC message carries or moves; what there is to do
///   receiving   ring, the peer's producer cursor and flags; and the close handshake
/// ```
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Connection {
    counts: Counts,
    timers: Timers,
    tx: Tx,
    notices: Notices,
    wants: Wants,
    /// Nothing goes to the peer any more (ABORT-007).
    silent: bool,
    /// ACTIVE, and no end in sight: what the close handshake asks on the data
    /// path needs one comparison.
    steady: bool,
    /// A deadline changed since the owner last asked.
    moved_timeout: bool,
    read_shut: bool,
    /// A deadline ends with the next CDC message, see [`Timers::wait_for_message`].
    waiting: bool,
    rx: Rx,
    close: Close,
    /// The peer has validated a failover to another link, perhaps before any message.
    validated: bool,
    /// The connection was reset, and what had arrived before was left to the application.
    kept: bool,
    /// The peer writes into memory that it may give back once this side has sent C or A (D-061).
    #[cfg(feature = "smc-d")]
    smcd: bool,
    /// TCP was to be finished in order.
    closed_tcp: bool,
}

/// Bytes of a cache line, of most processors.
#[cfg(target_pointer_width = "64")]
#[allow(
    dead_code,
    reason = "used by nameless constants, which Rust 1.88 overlooks"
)]
pub(crate) const LINE: usize = 64;

#[cfg(target_pointer_width = "64")]
#[allow(
    dead_code,
    reason = "used by nameless constants, which Rust 1.88 overlooks"
)]
impl Connection {
    /// Offset of the first whole cache line in a connection, in bytes.
    pub(crate) const LINES_AT: usize = offset_of!(Self, tx).wrapping_add(offset_of!(Tx, peer));
}

// Where `u64` is aligned to its size.
#[cfg(target_pointer_width = "64")]
const _: () = {
    let cursors = offset_of!(Connection, tx).wrapping_add(offset_of!(Tx, consumer));
    let receiving = offset_of!(Connection, rx).wrapping_add(offset_of!(Rx, received));
    assert!(cursors == Connection::LINES_AT.wrapping_add(LINE));
    assert!(receiving == cursors.wrapping_add(LINE));
};

impl Connection {
    /// A connection in state ACTIVE.
    #[must_use]
    pub fn new(params: &ConnectionParams, cfg: &ConnectionConfig) -> Self {
        //= FLOW-023
        let hold = if params.nodelay {
            0
        } else {
            cfg.coalesce_limit
        };
        Self {
            tx: Tx::new(
                params.alert_token_peer,
                params.peer,
                params.send_buffer,
                hold,
                cfg.urgent_flags,
            ),
            rx: Rx::new(params.receive, params.urgent_inline),
            close: Close::new(),
            timers: Timers::NONE,
            waiting: false,
            notices: Notices::empty(),
            wants: Wants::empty(),
            silent: false,
            steady: true,
            moved_timeout: true,
            read_shut: false,
            validated: false,
            kept: false,
            #[cfg(feature = "smc-d")]
            smcd: false,
            closed_tcp: false,
            counts: Counts::default(),
        }
    }

    /// A CDC message and all writes before it completed.
    #[inline]
    pub fn on_notify_completed(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        record: NotifyRecord,
    ) {
        if self.tx.complete(record) > 0 {
            self.note_writable();
        }
        self.finish_close(now, cfg);
    }

    /// The peer reset the TCP connection and the configuration says that this
    /// ends SMC-R as well (decision 5). A FIN never does.
    pub fn on_tcp_reset(&mut self, now: Instant, cfg: &ConnectionConfig) {
        //= CLOSE-034
        let act = self.close.tcp_reset();
        self.perform(now, cfg, act);
    }

    /// Something ends the connection from this side or from the network.
    pub fn on_fatal(&mut self, now: Instant, cfg: &ConnectionConfig, cause: FatalCause) {
        let act = if cause.can_notify_peer() {
            self.close.abort(CloseCause::Fatal(cause))
        } else {
            self.close.lose(CloseCause::Fatal(cause))
        };
        self.perform(now, cfg, act);
    }

    /// Notices that [`Connection::take_notices`] returns next.
    #[inline(always)]
    pub(crate) const fn notices(&self) -> Notices {
        self.notices
    }

    /// Takes the notice that bytes arrived, if there is no other one. Returns whether it did.
    #[inline(always)]
    pub(crate) fn take_readable(&mut self) -> bool {
        let readable = self.notices == Notices::READABLE;
        if readable {
            self.notices = Notices::empty();
        }
        readable
    }

    /// Whether the owner has anything to do since it last asked: notices to take, a deadline to
    /// set, or something to send.
    #[inline(always)]
    pub(crate) fn has_follow_up(&self) -> bool {
        !self.notices.is_empty() || self.moved_timeout || self.has_work()
    }

    /// What happened since the last call.
    #[inline]
    pub fn take_notices(&mut self) -> Notices {
        core::mem::take(&mut self.notices)
    }

    /// The ring that the peer writes to.
    pub(crate) const fn receive_ring(&self) -> Ring {
        self.rx.ring
    }

    /// State of the close handshake.
    #[must_use]
    pub fn state(&self) -> CloseState {
        self.close.state
    }

    /// Why the connection ended or is ending, once that is known.
    #[must_use]
    pub fn cause(&self) -> Option<CloseCause> {
        self.close.cause
    }

    /// Whether the peer's last CDC message (C or A) arrived: it reads nothing of its
    /// element any more.
    #[must_use]
    pub const fn is_peer_finished(&self) -> bool {
        self.close.peer_finished
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            bytes_committed: self.tx.produced,
            bytes_sent: self.tx.written.total,
            bytes_received: self.rx.received.total,
            notifies: self.tx.emitted,
            standalone: self.counts.standalone,
            stale: self.counts.stale,
            backward: self.counts.backward,
            late_data: self.counts.late_data,
        }
    }

    /// Hashes what decides the future of the connection: no absolute times, no
    /// sequence numbers, no wraps, no statistics, and not whether the peer sent
    /// at all, which only a reset of TCP asks. The places where the rings will wrap
    /// belong to it.
    pub fn fingerprint<H: Hasher>(&self, now: Instant, h: &mut H) {
        self.tx.hash(h);
        self.rx.hash(h);
        self.close.hash(h);
        self.timers.hash(now, h);
        h.write_u16(self.notices.bits());
        h.write_u8(self.wants.bits());
        h.write_u8(
            u8::from(self.silent)
                | u8::from(self.read_shut) << 1
                | u8::from(self.kept) << 2
                | u8::from(self.closed_tcp) << 3,
        );
    }

    #[inline(always)]
    fn note_writable(&mut self) {
        if self.tx.exhausted {
            self.tx.exhausted = false;
            self.notices.insert(Notices::WRITABLE);
        }
    }

    /// Lets a pending close take effect once everything is delivered.
    #[inline(always)]
    fn finish_close(&mut self, now: Instant, cfg: &ConnectionConfig) {
        if self.close.pending != Pending::Nothing {
            self.close_drained(now, cfg);
        }
    }

    #[cold]
    fn close_drained(&mut self, now: Instant, cfg: &ConnectionConfig) {
        //= CLOSE-005
        if self.tx.is_drained() {
            let act = self.close.drained();
            self.perform(now, cfg, act);
        }
    }

    /// Carries out what a transition asked for. Follows every transition.
    #[inline(never)]
    fn perform(&mut self, now: Instant, cfg: &ConnectionConfig, act: Act) {
        self.steady = self.close.is_steady();
        if !act.is_empty() {
            self.execute(now, cfg, act);
        }
        // There will be no room any more: a caller that waits for it sees that writes fail.
        //= ABORT-004
        if self.may_send().is_err() {
            self.note_writable();
        }
    }

    /// Has TCP finished in order, once.
    fn close_tcp(&mut self) {
        if !core::mem::replace(&mut self.closed_tcp, true) {
            self.notices.insert(Notices::TCP_CLOSE);
        }
    }

    fn execute(&mut self, now: Instant, cfg: &ConnectionConfig, act: Act) {
        if act.contains(Act::SEND) {
            self.wants.insert(Wants::NOTIFY);
            // The side that ends first sends FIN first, as over TCP and as Linux does: TIME-WAIT is there,
            // and not with a client whose ports it would use up. FIN ends nothing (decision 5).
            #[cfg(feature = "smc-d")]
            if self.smcd && self.close.state == CloseState::PeerCloseWait1 {
                self.close_tcp();
            }
        }
        if act.contains(Act::SILENCE) {
            if self.wants.contains(Wants::TCP_CLOSE) {
                self.close_tcp();
            }
            self.silent = true;
            self.wants = Wants::empty();
        }
        let mut act = act;
        if act.contains(Act::PURGE) {
            self.tx.purge();
            self.notices.remove(Notices::WRITABLE);
            act = self.purge_received(cfg, act);
        }
        if act.contains(Act::TCP_CLOSE) {
            //= CLOSE-033
            //= CLOSE-036
            // Our C may still wait for a send slot; the FIN must not outrun it.
            if self.wants.contains(Wants::NOTIFY) {
                self.wants.insert(Wants::TCP_CLOSE);
            } else {
                self.close_tcp();
            }
        }
        self.timers.perform(now, cfg, act);
        self.note_timers();
        if act.contains(Act::CLOSED) && !self.end_kept() {
            act.remove(Act::CLOSED);
        }
        for (bit, notices) in [
            (Act::END_OF_STREAM, Notices::END_OF_STREAM),
            (Act::RESET, Notices::RESET),
            (Act::TCP_RESET, Notices::TCP_RESET),
            //= CLOSE-025
            //= CLOSE-032
            (Act::CLOSED, Notices::CLOSED.union(Notices::RMBE_RELEASED)),
        ] {
            if act.contains(bit) {
                self.notices.insert(notices);
            }
        }
    }
}
