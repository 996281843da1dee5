//! Pause frames of an interface, as `ethtool -a` shows them: without them, or priority
//! flow control, RoCE loses packets under load.

use std::io;

use super::kernel::Netlink;
use super::netlink::{Request, attributes, u16_at};

/// What an interface does with pause frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pause {
    /// Whether both ends of the cable agree on it by themselves.
    pub autonegotiated: bool,
    /// Whether it stops sending when asked.
    pub receive: bool,
    /// Whether it asks the other end to stop.
    pub transmit: bool,
}

/// Generic netlink's own family, and what it is asked for.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The family `ethtool`.
const GET_PAUSE: u8 = 21;
const HEADER: u16 = 1;
const NESTED: u16 = 0x8000;
const INTERFACE: u16 = 1;
const AUTONEGOTIATED: u16 = 2;
const RECEIVE: u16 = 3;
const TRANSMIT: u16 = 4;

/// Bytes of the header of generic netlink: command, version, reserved.
const GENERIC: usize = 4;

impl Pause {
    /// Reads the pause settings of an interface; `None` if it knows no pause frames, or the kernel
    /// reports none.
    ///
    /// # Errors
    /// The system's.
    pub fn of_interface(index: u32) -> io::Result<Option<Self>> {
        let kernel = Netlink::generic()?;
        let mut family = None;
        let name = Request::single(CONTROL, &[GET_FAMILY, 1, 0, 0]).with(FAMILY_NAME, b"ethtool\0");
        let found = kernel.ask(name, false, |_, body| {
            let mut all = attributes(body.get(GENERIC..).unwrap_or_default());
            let id = all.find(|(kind, _)| *kind == FAMILY_ID);
            family = id.and_then(|(_, value)| u16_at(value, 0));
        });
        let Some(family) = unless_unknown(found)?.and(family) else {
            return Ok(None);
        };
        let mut interface = Request::attribute(INTERFACE, &index.to_ne_bytes());
        interface.resize(interface.len().next_multiple_of(4), 0);
        let request = Request::single(family, &[GET_PAUSE, 1, 0, 0]);
        let mut pause = None;
        let answer = kernel.ask(
            request.with(HEADER | NESTED, &interface),
            false,
            |_, body| {
                pause = Some(Self::parse(body.get(GENERIC..).unwrap_or_default()));
            },
        );
        Ok(unless_unknown(answer)?.and(pause))
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut pause = Self::default();
        for (kind, value) in attributes(bytes) {
            let set = value.first().is_some_and(|byte| *byte != 0);
            match kind {
                AUTONEGOTIATED => pause.autonegotiated = set,
                RECEIVE => pause.receive = set,
                TRANSMIT => pause.transmit = set,
                _ => {}
            }
        }
        pause
    }
}

/// Not to know of it is an answer.
fn unless_unknown(answer: io::Result<()>) -> io::Result<Option<()>> {
    match answer {
        Ok(()) => Ok(Some(())),
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOENT | libc::ENODEV) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;

    #[test]
    fn an_answer_is_read_whatever_its_order() {
        let mut bytes = Request::attribute(HEADER | NESTED, &[8, 0, 1, 0, 2, 0, 0, 0]);
        for (kind, value) in [(TRANSMIT, 1), (AUTONEGOTIATED, 0), (RECEIVE, 1)] {
            bytes.extend(Request::attribute(kind, &[value]));
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let expected = Pause {
            autonegotiated: false,
            receive: true,
            transmit: true,
        };
        assert_eq!(Pause::parse(&bytes), expected);
        assert_eq!(Pause::parse(&bytes[..3]), Pause::default());
    }

    #[test]
    fn the_loopback_knows_no_pause_frames() {
        let network = Network::read().unwrap();
        let lo = network
            .interfaces
            .iter()
            .find(|of| of.name == "lo")
            .unwrap();
        assert_eq!(Pause::of_interface(lo.index).unwrap(), None);
        assert_eq!(Pause::of_interface(u32::MAX >> 1).unwrap(), None);
        // Whatever the others do, it can be asked.
        for of in &network.interfaces {
            Pause::of_interface(of.index).unwrap();
        }
    }
}
