//! The leader: of the threads that wait in the kernel, the one that does so at the futex words of all
//! peers. It handles what arrives and wakes the others, each of which waits at the futex word of its
//! connection.

use smc_transport_ism::shared::FutexWords;

use super::super::State;

/// Identity of a thread: an address that no other thread has while it lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadMark(usize);

impl ThreadMark {
    fn of_this() -> Self {
        thread_local! {
            static MARK: u8 = const { 0 };
        }
        Self(MARK.with(|mark| std::ptr::from_ref(mark).addr()))
    }
}

impl State {
    /// Elects the calling thread as the leader, if there is none and the kernel can wait at several
    /// futex words. Returns the words to wait at; [`Self::end_leadership`] is to follow.
    pub(crate) fn become_leader(&mut self) -> Option<FutexWords> {
        let thread = ThreadMark::of_this();
        if self.polling.leader == Some(thread) {
            // A handler of a signal has jumped out of its wait.
            self.end_leadership(false);
        }
        if self.polling.leader.is_some() || self.polling.no_futex_wait {
            return None;
        }
        let words = self.transports.ism.device_mut().futex_words();
        self.polling.leader = words.is_some().then_some(thread);
        words
    }

    /// Ends the leadership of the calling thread. Does nothing if another thread is the leader: a
    /// handler of a signal that waited meanwhile has ended this one's. `no_futex_wait` is whether
    /// the kernel turned out to have no such wait, after which no thread becomes the leader.
    pub(crate) fn end_leadership(&mut self, no_futex_wait: bool) {
        self.polling.no_futex_wait |= no_futex_wait;
        if self.polling.leader == Some(ThreadMark::of_this()) {
            self.polling.leader = None;
            self.transports.ism.device_mut().release_futex_words();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadMark;
    use crate::Stack;

    /// A handler of a signal that waits ends the leadership of the thread that it has interrupted:
    /// when that thread goes on, another one may be the leader.
    #[test]
    fn a_thread_ends_no_leadership_but_its_own() {
        let stack = Stack::open().unwrap();
        let mut state = stack.shard().lock();
        let other = ThreadMark(ThreadMark::of_this().0.wrapping_add(1));
        state.polling.leader = Some(other);
        state.end_leadership(false);
        assert!(state.polling.leader == Some(other));
        state.polling.leader = Some(ThreadMark::of_this());
        state.end_leadership(false);
        assert!(state.polling.leader.is_none());
    }
}
