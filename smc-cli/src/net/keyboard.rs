//! The standard input, of which the connections of a listener have a piece each.
//!
//! A thread that waits for a terminal cannot be stopped: one thread does, for all connections, and
//! what it reads goes to the one that is there then.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What has been typed and was not taken.
#[derive(Clone, Default)]
pub(super) struct Keyboard(Arc<Shared>);

#[derive(Default)]
struct Shared {
    typed: Mutex<Typed>,
    changed: Condvar,
}

#[derive(Default)]
struct Typed {
    read: bool,
    bytes: Vec<u8>,
    ended: bool,
    error: Option<io::Error>,
}

/// The standard input of one connection, until that is over.
#[derive(Clone)]
pub(super) struct Input {
    keyboard: Keyboard,
    over: Arc<AtomicBool>,
}

impl Shared {
    fn typed(&self) -> MutexGuard<'_, Typed> {
        self.typed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all there is, a piece when the one before it was taken.
    fn read(&self) {
        let mut bytes = vec![0; 64 << 10];
        loop {
            let outcome = io::stdin().read(&mut bytes);
            let mut typed = self.typed();
            match outcome {
                Ok(len @ 1..) => typed.bytes.extend(bytes.iter().take(len)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    typed.ended = true;
                    typed.error = outcome.err();
                }
            }
            self.changed.notify_all();
            while !typed.bytes.is_empty() {
                let waited = self.changed.wait(typed);
                typed = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if typed.ended {
                return;
            }
        }
    }
}

impl Keyboard {
    /// The input of the next connection.
    pub(super) fn input(&self) -> Input {
        if !std::mem::replace(&mut self.0.typed().read, true) {
            let shared = self.0.clone();
            thread::spawn(move || shared.read());
        }
        Input {
            keyboard: self.clone(),
            over: Arc::default(),
        }
    }
}

impl Input {
    /// The connection has ended: what is typed from here on is for another one.
    pub(super) fn end(&self) {
        let _typed = self.keyboard.0.typed();
        self.over.store(true, Ordering::Relaxed);
        self.keyboard.0.changed.notify_all();
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let shared = &self.keyboard.0;
        let mut typed = shared.typed();
        loop {
            if self.over.load(Ordering::Relaxed) {
                return Ok(0);
            }
            if !typed.bytes.is_empty() {
                let len = typed.bytes.len().min(into.len());
                let bytes = typed.bytes.drain(..len);
                into.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
                shared.changed.notify_all();
                return Ok(len);
            }
            if typed.ended {
                return typed.error.take().map_or(Ok(0), Err);
            }
            let waited = shared.changed.wait(typed);
            typed = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
