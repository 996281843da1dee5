//! Addresses of connections that are known by their numbers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use smc_proto::trace::Subject;
use smc_view::Found;

/// Most connections that are kept: a hostile process names as many as it likes.
const MOST: usize = 1 << 16;

/// Shortest time between two reads of views.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection, until its number is given to another one.
type Key = (u32, u16, u64);

/// Connections with their addresses.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ends: HashMap<Key, (SocketAddr, SocketAddr)>,
    read_at: Option<Instant>,
}

/// The number of a connection, as views and notes have it.
fn number(subject: Subject) -> Option<u64> {
    let (index, generation) = subject.index_and_generation();
    let number = u64::from(generation) << 32 | u64::from(index);
    matches!(subject, Subject::Conn(_)).then_some(number)
}

impl Names {
    /// Notes the addresses of a connection.
    pub(crate) fn enter(&mut self, (process, stack, conn): Key, ends: (SocketAddr, SocketAddr)) {
        if self.ends.len() >= MOST {
            self.ends.clear();
        }
        self.ends.insert((process, stack, conn), ends);
    }

    /// The addresses of a connection, from what its process publishes if that was not read
    /// lately.
    pub(crate) fn of(
        &mut self,
        process: u32,
        stack: u16,
        subject: Subject,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let key = (process, stack, number(subject)?);
        if let Some(ends) = self.ends.get(&key) {
            return Some(*ends);
        }
        if self.read_at.is_none_or(|at| at.elapsed() >= PAUSE) {
            self.read_at = Some(Instant::now());
            self.read_view(process);
        }
        self.ends.get(&key).copied()
    }

    fn read_view(&mut self, process: u32) {
        let Some(found) = Found::at(process) else {
            return;
        };
        for (at, _) in &found.view.read().connections {
            let stack = u16::try_from(at.stack);
            if let (Some(conn), Ok(stack)) = (at.conn, stack) {
                self.enter((process, stack, conn), (at.local, at.peer));
            }
        }
    }
}
