//! A child of a server, made by `fork`, that uses sockets of its own.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::thread;

use smc_sockets::SmcStream;

use crate::conversation::{Exchange, Request, Step, Wrong};
use crate::report::Report;

/// Longest life of a child, in seconds: one that hangs is ended by a signal.
const LIFE: u32 = 20;

/// Forks a child that asks the server at `address` once, and reports how it ended.
pub(crate) fn ask_from_child(address: SocketAddr) {
    // SAFETY: the child uses what is made for use after fork, and ends by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: it takes a number.
        unsafe { libc::alarm(LIFE) };
        let status = i32::from(!asks(address));
        // SAFETY: it ends the process; nothing of the parent's is dropped.
        unsafe { libc::_exit(status) };
    }
    thread::spawn(move || {
        let mut status = -1;
        if pid > 0 {
            // SAFETY: the kernel writes to a local variable.
            while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
                if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                    break;
                }
            }
        }
        Report::Forked { status }.send();
    });
}

/// Whether a request is answered. A server that is killed meanwhile is no failure.
fn asks(address: SocketAddr) -> bool {
    let (seed, sent, answer) = (1, 5_000, 5_000);
    let mut exchange = Exchange::new(Request { seed, sent, answer });
    let Ok(mut stream) = SmcStream::connect(address) else {
        return true;
    };
    match exchange.step(&mut stream) {
        Ok(step) => step == Step::Over,
        Err(error) => Wrong::of(&error).is_none(),
    }
}
