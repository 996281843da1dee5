//! What goes over a channel: messages of one length, in host order, as both ends are
//! one machine. A DMB, and the doorbells, come with a descriptor.

use crate::device::{DmbToken, Gid128};

/// Bytes of every message.
pub(super) const MESSAGE_LEN: usize = 48;

/// Marks the protocol and its version; a later one has another name.
const MAGIC: u32 = 0x534d_4403;

/// A message between two devices, or between two processes that pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// First message on a channel, with the GID of the sender's device and the descriptor of its
    /// doorbells.
    Hello { gid: Gid128 },
    /// A DMB for the receiver alone. With its descriptor.
    Offer {
        token: DmbToken,
        len: u32,
        slot: u32,
        generation: u16,
    },
    /// The DMB is no more.
    Withdraw { token: DmbToken },
    /// A software event.
    Event { code: u32, info: u64 },
    /// The receiver is parked and a doorbell rang.
    Wake,
    /// Pairing, first: the client will connect the TCP socket with this cookie.
    Announce { cookie: u64, gid: Gid128 },
    /// Pairing, second: the server accepted it, as the socket with this cookie, and
    /// may be joined to the client's device already.
    Mine {
        cookie: u64,
        gid: Gid128,
        joined: bool,
    },
    /// Pairing, third: both will speak CLC, over a new channel to this device if it is `fresh`.
    Go { fresh: bool, gid: Gid128 },
    /// A further page of the sender's doorbells, numbered from 0. With its descriptor. `rung` if
    /// the sender may have rung in it before, so that these rings are in no leaf.
    Page { at: u32, rung: bool },
    /// The file for the receiver's messages of handshakes, and where it rings for them. With its
    /// descriptor.
    Handshakes { slot: u32, generation: u16 },
}

impl Message {
    /// Encodes the message.
    pub(super) fn emit(self) -> [u8; MESSAGE_LEN] {
        let flag = u64::from;
        let (kind, fields) = match self {
            Self::Hello { gid } => (1u32, [gid.gid, gid.ext, 0, 0, 0]),
            Self::Offer {
                token,
                len,
                slot,
                generation,
            } => (2, [token.0, len.into(), slot.into(), generation.into(), 0]),
            Self::Withdraw { token } => (3, [token.0, 0, 0, 0, 0]),
            Self::Event { code, info } => (4, [code.into(), info, 0, 0, 0]),
            Self::Wake => (5, [0; 5]),
            Self::Announce { cookie, gid } => (6, [cookie, gid.gid, gid.ext, 0, 0]),
            Self::Mine {
                cookie,
                gid,
                joined,
            } => (7, [cookie, gid.gid, gid.ext, flag(joined), 0]),
            Self::Go { fresh, gid } => (8, [flag(fresh), gid.gid, gid.ext, 0, 0]),
            Self::Page { at, rung } => (9, [at.into(), flag(rung), 0, 0, 0]),
            Self::Handshakes { slot, generation } => {
                (10, [slot.into(), generation.into(), 0, 0, 0])
            }
        };
        let mut bytes = [0; MESSAGE_LEN];
        let head = (u64::from(MAGIC) << 32) | u64::from(kind);
        for (unit, word) in bytes
            .as_chunks_mut()
            .0
            .iter_mut()
            .zip([head].iter().chain(&fields))
        {
            *unit = word.to_ne_bytes();
        }
        bytes
    }

    /// Decodes a message of exactly these bytes; `None` if they are none.
    //= SHM-020
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_LEN] = bytes.try_into().ok()?;
        let (units, _) = bytes.as_chunks::<8>();
        let mut words = units.iter().map(|unit| u64::from_ne_bytes(*unit));
        let head = words.next()?;
        if head >> 32 != u64::from(MAGIC) {
            return None;
        }
        let [a, b, c, d] = core::array::from_fn(|_| words.next().unwrap_or_default());
        let message = match head as u32 {
            1 => Self::Hello {
                gid: Gid128 { gid: a, ext: b },
            },
            2 => Self::Offer {
                token: DmbToken(a),
                len: b.try_into().ok()?,
                slot: c.try_into().ok()?,
                generation: d.try_into().ok()?,
            },
            3 => Self::Withdraw { token: DmbToken(a) },
            4 => Self::Event {
                code: a.try_into().ok()?,
                info: b,
            },
            5 => Self::Wake,
            6 => Self::Announce {
                cookie: a,
                gid: Gid128 { gid: b, ext: c },
            },
            7 => Self::Mine {
                cookie: a,
                gid: Gid128 { gid: b, ext: c },
                joined: d != 0,
            },
            8 => Self::Go {
                fresh: a != 0,
                gid: Gid128 { gid: b, ext: c },
            },
            9 => Self::Page {
                at: a.try_into().ok()?,
                rung: b != 0,
            },
            10 => Self::Handshakes {
                slot: a.try_into().ok()?,
                generation: b.try_into().ok()?,
            },
            _ => return None,
        };
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_LEN, Message};
    use crate::device::{DmbToken, Gid128};

    #[test]
    fn every_message_is_read_as_written() {
        let (token, gid) = (
            DmbToken(u64::MAX - 1),
            Gid128 {
                gid: 3,
                ext: u64::MAX,
            },
        );
        for message in [
            Message::Hello { gid },
            Message::Offer {
                token,
                len: 1 << 20,
                slot: 1023,
                generation: u16::MAX,
            },
            Message::Withdraw { token },
            Message::Event {
                code: u32::MAX,
                info: u64::MAX,
            },
            Message::Wake,
            Message::Announce { cookie: 1, gid },
            Message::Mine {
                cookie: 1,
                gid,
                joined: true,
            },
            Message::Mine {
                cookie: 1,
                gid,
                joined: false,
            },
            Message::Go { fresh: true, gid },
            Message::Go { fresh: false, gid },
            Message::Page {
                at: u32::MAX,
                rung: true,
            },
            Message::Page { at: 0, rung: false },
            Message::Handshakes {
                slot: 7,
                generation: u16::MAX,
            },
        ] {
            assert_eq!(Message::parse(&message.emit()), Some(message));
        }
    }

    #[test]
    fn what_a_message_does_not_need_is_zero() {
        let (token, gid) = (DmbToken(u64::MAX), Gid128 { gid: 1, ext: 2 });
        for (message, fields) in [
            (Message::Hello { gid }, 2),
            (
                Message::Offer {
                    token,
                    len: 3,
                    slot: 4,
                    generation: 5,
                },
                4,
            ),
            (Message::Withdraw { token }, 1),
            (Message::Event { code: 1, info: 2 }, 2),
            (Message::Wake, 0),
            (Message::Announce { cookie: 1, gid }, 3),
            (
                Message::Mine {
                    cookie: 1,
                    gid,
                    joined: true,
                },
                4,
            ),
            (Message::Go { fresh: true, gid }, 3),
        ] {
            let bytes = message.emit();
            let (used, rest) = bytes.split_at(8 + 8 * fields);
            assert!(used.chunks(8).all(|field| field != [0; 8]), "{message:?}");
            assert!(rest.iter().all(|byte| *byte == 0), "{message:?}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        let gid = Gid128 { gid: 1, ext: 2 };
        let good = Message::Go { fresh: true, gid }.emit();
        for len in 0..MESSAGE_LEN {
            assert_eq!(Message::parse(&good[..len]), None);
        }
        assert_eq!(Message::parse(&[good, good].concat()), None);
        for kind in (0..=u32::MAX).step_by(65537) {
            let mut bytes = good;
            bytes[..8].copy_from_slice(&((0x534d_4403u64 << 32) | u64::from(kind)).to_ne_bytes());
            assert_eq!(
                Message::parse(&bytes).is_some(),
                (1..=10).contains(&kind),
                "{kind}"
            );
        }
        let mut offer = Message::Offer {
            token: DmbToken(1),
            len: 0,
            slot: 0,
            generation: 0,
        }
        .emit();
        offer[16..24].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(Message::parse(&offer), None, "a length that does not fit");
        assert_eq!(Message::parse(&[0xff; MESSAGE_LEN]), None);
    }
}
