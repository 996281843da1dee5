//! One direction of a TCP connection, in which each byte carries its writer.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Writer of a byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Origin {
    /// An engine: place in its message, and bytes of that.
    Clc { at: u16, of: u16 },
    /// An application: place in all that it wrote.
    Application { at: u16 },
}

/// A byte and its writer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Byte {
    pub(super) value: u8,
    pub(super) origin: Origin,
}

/// What TCP carries in one go.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Chunk {
    Bytes(Vec<Byte>),
    Fin,
    Reset,
}

/// Bytes on their way to one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    chunks: VecDeque<Chunk>,
    /// No further byte gets through.
    closed: bool,
    /// Nothing at all does, not even a reset.
    cut: bool,
}

impl Wire {
    /// Nothing more gets through, not even what is in flight.
    pub(super) fn cut(&mut self) {
        self.chunks.clear();
        (self.closed, self.cut) = (true, true);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Not even a reset gets through.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn send_clc(&mut self, bytes: &[u8]) {
        let of = bytes.len() as u16;
        self.send(bytes, |at| Origin::Clc { at, of });
    }

    pub(super) fn send_application(&mut self, bytes: &[u8]) {
        self.send(bytes, |at| Origin::Application { at });
    }

    fn send(&mut self, bytes: &[u8], origin: impl Fn(u16) -> Origin) {
        let byte = |(at, value): (u16, &u8)| Byte {
            value: *value,
            origin: origin(at),
        };
        if !self.closed {
            let bytes = (0..).zip(bytes).map(byte).collect();
            self.chunks.push_back(Chunk::Bytes(bytes));
        }
    }

    /// The sender has nothing more to send.
    pub(super) fn finish(&mut self) {
        if !self.closed {
            self.chunks.push_back(Chunk::Fin);
            self.closed = true;
        }
    }

    /// The sender gives the connection up, which it may do behind a FIN, too.
    pub(super) fn reset(&mut self) {
        if !self.cut {
            self.chunks.push_back(Chunk::Reset);
            (self.closed, self.cut) = (true, true);
        }
    }

    /// What arrives next.
    pub(super) fn take(&mut self) -> Option<Chunk> {
        self.chunks.pop_front()
    }

    /// Only so many bytes of that, which must be fewer than all.
    pub(super) fn take_part(&mut self, bytes: u16) -> Option<Chunk> {
        let Some(Chunk::Bytes(first)) = self.chunks.front_mut() else {
            return None;
        };
        let rest = first.split_off(bytes.into());
        Some(Chunk::Bytes(std::mem::replace(first, rest)))
    }

    /// Where what arrives next may be cut: behind its first byte, behind the header of a
    /// CLC message, before its last byte.
    pub(super) fn cuts(&self) -> impl Iterator<Item = u16> {
        let length = match self.chunks.front() {
            Some(Chunk::Bytes(bytes)) => bytes.len() as u16,
            _ => 0,
        };
        let cuts = [Some(1), Some(8), length.checked_sub(1)].into_iter();
        cuts.flatten().filter(move |cut| *cut < length)
    }

    pub(super) fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.chunks, self.closed, self.cut).hash(hasher);
    }
}
