//! The epoll set that a thread used last: found without a lock by threads that wait at one set again
//! and again.

use std::cell::RefCell;
use std::sync::Arc;

use super::SET;
use super::objects::{number_of, set};
use crate::library::config;
use crate::library::set::Set;

/// The epoll set that a thread used last. It may be closed, and has no members then.
struct LastSet(RefCell<Option<Arc<Set>>>);

impl Drop for LastSet {
    fn drop(&mut self) {
        config::inside(|| drop(self.0.take()));
    }
}

thread_local! {
    static LAST_SET: LastSet = const { LastSet(RefCell::new(None)) };
}

/// Runs a few instructions with the epoll set of a descriptor, without a lock if the thread has used
/// it last. They must not close a descriptor.
#[inline]
pub(crate) fn with_set<T>(fd: i32, run: impl FnOnce(&Set) -> Option<T>) -> Option<T> {
    let number = number_of(fd, SET)?;
    let used = LAST_SET.try_with(|last| {
        let last = last.0.try_borrow().ok()?;
        let set = last.as_ref().filter(|set| set.id() == number)?;
        Some(run(set))
    });
    match used {
        Ok(Some(done)) => done,
        Ok(None) => {
            remember(fd);
            None
        }
        // The thread ends.
        Err(_) => None,
    }
}

/// Remembers the epoll set of a descriptor as the one that the thread used last.
#[cold]
fn remember(fd: i32) {
    let set = set(fd);
    let before = LAST_SET.try_with(|last| match last.0.try_borrow_mut() {
        Ok(mut last) => std::mem::replace(&mut *last, set),
        Err(_) => set,
    });
    drop(before);
}
