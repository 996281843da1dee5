//! Notes as values.

use std::net::SocketAddr;

use super::layout::WORDS;
use crate::record::{address, ip};

/// Bytes of an event's record.
const RECORD: usize = 32;

/// Kinds of notes.
const EVENT: u8 = 1;
const CONNECTION: u8 = 2;

/// A note of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Note {
    /// Something has happened.
    Event(NotedEvent),
    /// A connection has begun.
    Connection(NotedConnection),
}

/// An event of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotedEvent {
    /// When it was written down, in nanoseconds since 1970.
    pub at: u64,
    /// Number of the stack in the process.
    pub stack: u16,
    /// The engine's record of it.
    pub record: [u8; RECORD],
}

/// A connection, and the addresses of its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotedConnection {
    /// When it was written down, in nanoseconds since 1970.
    pub at: u64,
    /// Number of the stack in the process.
    pub stack: u16,
    /// Number of the connection at its engine.
    pub conn: u64,
    /// Address of this side.
    pub local: SocketAddr,
    /// Address of the peer.
    pub peer: SocketAddr,
}

impl Note {
    pub(super) fn encode(&self) -> [u64; WORDS] {
        match self {
            Self::Event(event) => {
                let head = [EVENT, 0];
                let [a, b, c, d] = words_of(&event.record);
                [event.at, first(head, event.stack, 0), a, b, c, d, 0]
            }
            Self::Connection(of) => {
                let head = [CONNECTION, u8::from(of.local.is_ipv4())];
                let ports = u32::from(of.local.port()) | u32::from(of.peer.port()) << 16;
                let ([a, b], [c, d]) = (address(of.local.ip()), address(of.peer.ip()));
                [of.at, first(head, of.stack, ports), of.conn, a, b, c, d]
            }
        }
    }

    /// The note; `None` if it is of no such kind.
    pub(super) fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let [at, first, a, b, c, d, e] = *words;
        let [kind, flags, stack @ .., p0, p1, p2, p3] = first.to_ne_bytes();
        let stack = u16::from_ne_bytes(stack);
        match kind {
            EVENT => Some(Self::Event(NotedEvent {
                at,
                stack,
                record: bytes_of([a, b, c, d]),
            })),
            CONNECTION => {
                let ports = u32::from_ne_bytes([p0, p1, p2, p3]);
                let address =
                    |words, port: u32| SocketAddr::new(ip(words, flags & 1 != 0), port as u16);
                Some(Self::Connection(NotedConnection {
                    at,
                    stack,
                    conn: a,
                    local: address([b, c], ports),
                    peer: address([d, e], ports >> 16),
                }))
            }
            _ => None,
        }
    }
}

fn first([kind, flags]: [u8; 2], stack: u16, ports: u32) -> u64 {
    let ([s0, s1], [p0, p1, p2, p3]) = (stack.to_ne_bytes(), ports.to_ne_bytes());
    u64::from_ne_bytes([kind, flags, s0, s1, p0, p1, p2, p3])
}

fn words_of(bytes: &[u8; RECORD]) -> [u64; RECORD / 8] {
    let mut words = [0; RECORD / 8];
    let (chunks, _) = bytes.as_chunks::<8>();
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_ne_bytes(*chunk);
    }
    words
}

fn bytes_of(words: [u64; RECORD / 8]) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    let (chunks, _) = bytes.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.to_ne_bytes();
    }
    bytes
}
