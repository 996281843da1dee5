//! What must hold after every step of a pair, the passing of time included.

use super::harness::Pair;
use crate::connection::*;

impl Pair {
    /// Advances to the next deadline of either side; false if there is none.
    pub(super) fn fire(&mut self) -> bool {
        let next = self
            .sides
            .iter()
            .filter_map(|s| s.conn.next_timeout())
            .min();
        let Some(next) = next else {
            return false;
        };
        self.now = self.now.max(next);
        let (now, cfg) = (self.now, self.cfg);
        for side in [0, 1] {
            self.conn(side).on_timeout(now, &cfg);
        }
        self.check();
        true
    }

    /// What must hold after every step.
    pub(super) fn check(&mut self) {
        for s in &mut self.sides {
            let new = s.conn.take_notices();
            s.closed_notices += u32::from(new.contains(Notices::CLOSED));
            s.notices |= new;
            let (tx, rx, close) = (&s.conn.tx, &s.conn.rx, &s.conn.close);
            assert!(tx.completed <= tx.written.total, "{tx:?}");
            assert!(tx.written.total <= tx.produced, "{tx:?}");
            assert!(tx.produced - tx.completed <= u64::from(tx.buffer.usable()));
            assert!(tx.window() <= tx.peer.usable());
            // No writer waits for room where there will be none.
            assert!(!tx.exhausted || s.conn.may_send().is_ok(), "{close:?}");
            assert!(rx.unread() <= rx.ring.usable());
            assert!(rx.published <= rx.consumed.total);
            assert!(rx.consumed.total <= rx.received.total);
            // What is kept for the application puts the end off.
            let closed = close.state == CloseState::Closed && !s.conn.kept;
            assert_eq!(s.closed_notices, u32::from(closed), "{:?}", close);
            let timer = s.conn.next_timeout();
            // Every state waits for the application, or for a timer, or not at all. A message that
            // has waited for the application is sent now.
            let kept = s.conn.keeps_received() || s.conn.kept && s.conn.wants_work();
            let own = close.pending == close::Pending::Close
                || matches!(
                    close.state,
                    CloseState::PeerFinCloseWait
                        | CloseState::PeerAbortWait
                        | CloseState::ProcessAbort
                )
                || (close.full
                    && matches!(
                        close.state,
                        CloseState::PeerCloseWait1 | CloseState::PeerCloseWait2
                    ));
            assert!(
                !own || kept || timer.is_some(),
                "{close:?} waits without a timer"
            );
            assert!(!closed || timer.is_none());
        }
    }
}
