//! What a process possesses.

use std::fmt;
use std::fs;
use std::io;

/// Things that connections must not leave behind in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Possessions {
    descriptors: usize,
    /// Mappings of shared memory.
    mappings: usize,
    threads: usize,
}

impl Possessions {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let count =
            |of: &str| fs::read_dir(format!("/proc/{pid}/{of}")).map(|entries| entries.count());
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        Ok(Self {
            descriptors: count("fd")?,
            mappings: maps.matches("memfd:").count(),
            threads: count("task")?,
        })
    }

    /// Whether nothing is more than it was `before`.
    pub(crate) fn is_within(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.mappings <= before.mappings
            && self.threads <= before.threads
    }
}

impl fmt::Display for Possessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            descriptors,
            mappings,
            threads,
        } = self;
        write!(
            f,
            "{descriptors} descriptors, {mappings} mappings, {threads} threads"
        )
    }
}
