//! How many commands run at a time.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Places for commands.
#[derive(Clone)]
pub(super) struct Places(Arc<(Mutex<u32>, Condvar)>);

/// A place, until it is given back.
pub(super) struct Place(Places);

impl Places {
    pub(super) fn new(count: u32) -> Self {
        Self(Arc::new((Mutex::new(count), Condvar::new())))
    }

    /// Waits until there is one.
    pub(super) fn take(&self) -> Place {
        let (left, changed) = &*self.0;
        let left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = changed.wait_while(left, |left| *left == 0);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (left, changed) = &*self.0.0;
        *left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        changed.notify_one();
    }
}
