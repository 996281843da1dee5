//! The terminal as the input of one connection after the other.
//!
//! ```text
//!   stdin ──► reader thread ──► one chunk in memory ──► Input of the connection that is open
//! ```
//!
//! A read of a terminal cannot be cancelled when its connection ends. So one thread reads for all
//! connections, and what it reads goes to the connection that is open then. The thread reads the next
//! chunk when the one before was taken, and runs until the process ends.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The standard input, shared by the connections that one command makes or accepts, one after the
/// other.
#[derive(Clone, Default)]
pub(super) struct Keyboard(Arc<Shared>);

#[derive(Default)]
struct Shared {
    typed: Mutex<Typed>,
    /// Notified when bytes are read or taken, and when a connection ends.
    changed: Condvar,
}

/// Bytes that were read and not taken, and the state of the standard input.
#[derive(Default)]
struct Typed {
    /// Whether the reader thread was started.
    has_reader: bool,
    bytes: Vec<u8>,
    /// Whether the standard input has ended or failed: no more bytes follow.
    at_end: bool,
    /// The error by which it failed, until a connection has reported it.
    error: Option<io::Error>,
}

/// The terminal as the input of one connection, which [`Self::end`] cuts off.
#[derive(Clone)]
pub(super) struct Input {
    keyboard: Keyboard,
    is_cut_off: Arc<AtomicBool>,
}

impl Shared {
    fn typed(&self) -> MutexGuard<'_, Typed> {
        self.typed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the standard input to its end, one chunk after the other was taken. Runs in the reader
    /// thread.
    fn read_to_end(&self) {
        let mut chunk = vec![0; 64 << 10];
        loop {
            let outcome = io::stdin().read(&mut chunk);
            let mut typed = self.typed();
            match outcome {
                Ok(len @ 1..) => typed.bytes.extend(chunk.iter().take(len)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    typed.at_end = true;
                    typed.error = outcome.err();
                }
            }
            self.changed.notify_all();
            while !typed.bytes.is_empty() {
                let waited = self.changed.wait(typed);
                typed = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if typed.at_end {
                return;
            }
        }
    }
}

impl Keyboard {
    /// The input of the next connection. Starts the reader thread, if this is the first one.
    pub(super) fn input(&self) -> Input {
        if !std::mem::replace(&mut self.0.typed().has_reader, true) {
            let shared = self.0.clone();
            thread::spawn(move || shared.read_to_end());
        }
        Input {
            keyboard: self.clone(),
            is_cut_off: Arc::default(),
        }
    }
}

impl Input {
    /// Ends the input, as its connection has ended. Bytes that were not taken are for the next one.
    pub(super) fn end(&self) {
        // Under the lock, so that a thread that is about to wait does not miss it.
        let _typed = self.keyboard.0.typed();
        self.is_cut_off.store(true, Ordering::Relaxed);
        self.keyboard.0.changed.notify_all();
    }
}

/// Blocks until there are bytes. `Ok(0)` once the input is cut off or the standard input has ended.
impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let shared = &self.keyboard.0;
        let mut typed = shared.typed();
        loop {
            if self.is_cut_off.load(Ordering::Relaxed) {
                return Ok(0);
            }
            if !typed.bytes.is_empty() {
                let len = typed.bytes.len().min(into.len());
                let bytes = typed.bytes.drain(..len);
                into.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
                shared.changed.notify_all();
                return Ok(len);
            }
            if typed.at_end {
                return typed.error.take().map_or(Ok(0), Err);
            }
            let waited = shared.changed.wait(typed);
            typed = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
