//! Messages of netlink, by which the kernel says what its own SMC does.
//!
//! ```text
//!   nlmsghdr: length u32, type u16, flags u16, sequence u32, port u32 │ body │ padding to 4
//!   body of generic netlink: command u8, version u8, reserved u16 │ attributes
//!   attribute: length u16, type u16 │ value │ padding to 4
//!   ask ─► message … message, DONE (a dump) or ERROR (its refusal; 0 acknowledges)
//! ```
//!
//! All numbers are in the byte order of the host. An attribute that is shorter than it says is left
//! out with all that follow it; a message of that kind ends the answer, which is then incomplete.

use std::fmt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink,
};

use crate::output::Failure;

/// `NLM_F_REQUEST | NLM_F_ACK`: the answer ends with a message about the outcome.
const ACKNOWLEDGED: u16 = 5;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`.
pub(crate) const DUMP: u16 = 0x301;
/// `NLMSG_ERROR`, `NLMSG_DONE` and `NLMSG_OVERRUN`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;
/// `NLM_F_DUMP_INTR`: what is listed has changed since the list began.
const INTERRUPTED: u16 = 0x10;
/// Bytes of a message's header.
const HEADER: usize = 16;
/// Bytes of the header of generic netlink.
const GENERIC: usize = 4;
/// Bytes of an attribute's header.
const ATTRIBUTE: usize = 4;
/// Flags among the bits of an attribute's type.
const TYPE: u16 = 0x3fff;
/// The number of the error that is farthest below 0.
const LEAST_ERROR: i32 = -4095;
/// Most datagrams of an answer that are read.
const DATAGRAMS: usize = 1 << 16;
/// Bytes of the longest datagram; the kernel's are half as long.
const DATAGRAM: usize = 1 << 16;
/// Seconds until an answer has come.
const TIMEOUT: u64 = 2;
/// Readings of a list that changes meanwhile.
const ATTEMPTS: usize = 4;

/// Why the kernel lists nothing of its SMC, or not all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The kernel has no SMC, or its module is not loaded.
    Absent,
    /// The list changed each time it was read.
    Changed,
    /// The list has more datagrams than are read.
    Endless,
    /// A message ends before the length that it gives.
    Damaged,
    /// The kernel's error.
    Kernel(Errno),
}

impl Refusal {
    /// A failure that names what is not listed; `None` if the kernel has no SMC that could have it.
    pub(crate) fn of(self, what: &str) -> Option<Failure> {
        (self != Self::Absent).then(|| {
            Failure::Problem(format!(
                "{what} of the kernel's SMC are not all listed: {self}"
            ))
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str(
                "the kernel has no SMC, or its module is not loaded (modprobe smc_diag loads it)",
            ),
            Self::Changed => {
                f.write_str("the list changed each time it was read; try again, or with less load")
            }
            Self::Endless => write!(f, "the list has more than {DATAGRAMS} datagrams"),
            Self::Damaged => f.write_str("the kernel's answer is shorter than it says"),
            Self::Kernel(Errno::PERM | Errno::ACCESS) => f.write_str(
                "the kernel refuses it; the list needs no privilege by itself, so that a filter of \
                 system calls (seccomp) or a security module keeps netlink from this process: \
                 allow it, or try as root outside the container (CAP_NET_ADMIN)",
            ),
            Self::Kernel(Errno::AGAIN) => {
                write!(
                    f,
                    "the kernel did not answer in {TIMEOUT} seconds; try again"
                )
            }
            Self::Kernel(Errno::NOBUFS | Errno::NOMEM) => {
                f.write_str("there is no memory for the answer; try again, or with less load")
            }
            Self::Kernel(Errno::OPNOTSUPP) => {
                f.write_str("the kernel's SMC is too old for it (it came with Linux 5.11)")
            }
            Self::Kernel(error) => {
                f.write_str(&crate::output::reason(&std::io::Error::from(*error)))
            }
        }
    }
}

/// A message: `body` behind the header.
pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = HEADER + body.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Number of the request, and port.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Sends a request, and gives each message of the answer, by its type and body, to `take`.
///
/// # Errors
/// [`Refusal::Absent`] if the kernel has no such protocol of netlink; others if the answer is an
/// error, does not come, or is incomplete. What came before has been taken then.
pub(crate) fn ask(
    protocol: Protocol,
    request: &[u8],
    take: impl FnMut(u16, &[u8]),
) -> Result<(), Refusal> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(protocol),
    );
    let socket = socket.map_err(|error| match error {
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT => Refusal::Absent,
        other => Refusal::Kernel(other),
    })?;
    let timeout = Duration::from_secs(TIMEOUT);
    set_socket_timeout(&socket, Timeout::Recv, Some(timeout)).map_err(Refusal::Kernel)?;
    rustix::net::send(&socket, request, SendFlags::empty()).map_err(Refusal::Kernel)?;
    // Of a datagram that is longer than the buffer, the whole length is returned.
    answer(
        |buffer| Ok(rustix::net::recv(&socket, buffer, RecvFlags::TRUNC)?.1),
        take,
    )
}

/// Receives an answer to its end.
fn answer(
    mut receive: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
    mut take: impl FnMut(u16, &[u8]),
) -> Result<(), Refusal> {
    let mut buffer = vec![0; DATAGRAM];
    let mut changed = false;
    for _ in 0..DATAGRAMS {
        let length = receive(&mut buffer).map_err(Refusal::Kernel)?;
        let datagram = buffer.get(..length).filter(|datagram| !datagram.is_empty());
        match each(datagram.ok_or(Refusal::Damaged)?, &mut changed, &mut take)? {
            true if changed => return Err(Refusal::Changed),
            true => return Ok(()),
            false => {}
        }
    }
    Err(Refusal::Endless)
}

/// Gives each message of a datagram to `take`, and notes whether one says that what is listed has
/// changed. Returns whether the datagram is the last one of an answer.
///
/// # Errors
/// The answer is an error, or a message is shorter than it says.
fn each(
    datagram: &[u8],
    changed: &mut bool,
    mut take: impl FnMut(u16, &[u8]),
) -> Result<bool, Refusal> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let length = u32_at(rest, 0).ok_or(Refusal::Damaged)? as usize;
        let body = rest.get(HEADER..length).ok_or(Refusal::Damaged)?;
        let flags = u16_at(rest, 6).unwrap_or(0);
        *changed |= flags & INTERRUPTED != 0;
        match u16_at(rest, 4).unwrap_or(0) {
            ERROR => {
                outcome(u32_at(body, 0).ok_or(Refusal::Damaged)?)?;
                return Ok(true);
            }
            // Old kernels have no outcome in it.
            DONE => {
                outcome(u32_at(body, 0).unwrap_or(0))?;
                return Ok(true);
            }
            OVERRUN => *changed = true,
            kind => take(kind, body),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The outcome of a request: 0, or a number of an error below it.
fn outcome(code: u32) -> Result<(), Refusal> {
    match code.cast_signed() {
        0.. => Ok(()),
        code @ LEAST_ERROR..0 => Err(Refusal::Kernel(Errno::from_raw_os_error(-code))),
        _ => Err(Refusal::Damaged),
    }
}

/// Reads a list again while it changes. Returns the last reading in any case, and why it may not
/// be all.
pub(crate) fn read_until_unchanged<T>(
    mut read: impl FnMut() -> (T, Result<(), Refusal>),
) -> (T, Result<(), Refusal>) {
    for _ in 1..ATTEMPTS {
        let reading = read();
        if reading.1 != Err(Refusal::Changed) {
            return reading;
        }
    }
    read()
}

/// The messages of a datagram, each by its type and body, up to its end or to what is damaged; for
/// tests of what is made of them.
#[doc(hidden)]
pub fn messages(datagram: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut messages = Vec::new();
    let _ = each(datagram, &mut false, |kind, body| {
        messages.push((kind, body.to_vec()));
    });
    messages
}

/// Attributes, each by its type and value.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let value = rest.get(ATTRIBUTE..length)?;
        let kind = u16_at(rest, 2)? & TYPE;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Text up to its first zero byte, without anything that a terminal would act on.
pub(crate) fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    smc_view::printable(bytes)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A number of 4 or of 8 bytes, as the kernel has room for it.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    u64_at(bytes, 0).or_else(|| u32_at(bytes, 0).map(u64::from))
}

/// Families of generic netlink are asked for at `GENL_ID_CTRL`, by `CTRL_CMD_GETFAMILY`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Asks a family of generic netlink, by its name, for all that a command lists. `take` gets the body
/// of each message, behind the header of generic netlink.
///
/// # Errors
/// [`Refusal::Absent`] without the family; others of [`ask`].
pub(crate) fn list(family: &str, command: u8, mut take: impl FnMut(&[u8])) -> Result<(), Refusal> {
    let number = family_number(family)?;
    let request = message(number, DUMP, &[command, 1, 0, 0]);
    ask(netlink::GENERIC, &request, |kind, body| {
        if let (true, Some(attributes)) = (kind == number, body.get(GENERIC..)) {
            take(attributes);
        }
    })
}

/// The number that the kernel has given a family.
fn family_number(family: &str) -> Result<u16, Refusal> {
    let mut number = None;
    let asked = ask(netlink::GENERIC, &family_request(family), |kind, body| {
        let body = body.get(GENERIC..).unwrap_or_default();
        let id = attributes(body).find(|(kind, _)| *kind == FAMILY_ID);
        if kind == CONTROL {
            number = number.or(id.and_then(|(_, value)| u16_at(value, 0)));
        }
    });
    match asked {
        Err(Refusal::Kernel(Errno::NOENT)) => Err(Refusal::Absent),
        Err(other) => Err(other),
        Ok(()) => number.ok_or(Refusal::Damaged),
    }
}

fn family_request(family: &str) -> Vec<u8> {
    let mut body = vec![GET_FAMILY, 1, 0, 0];
    // With its end mark.
    let length = ATTRIBUTE + family.len() + 1;
    body.extend((length as u16).to_ne_bytes());
    body.extend(FAMILY_NAME.to_ne_bytes());
    body.extend(family.as_bytes());
    body.push(0);
    body.resize(body.len().next_multiple_of(4), 0);
    message(CONTROL, ACKNOWLEDGED, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of this type with flags.
    fn of(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut message = message(kind, flags, body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn code(error: Errno) -> [u8; 4] {
        (-error.raw_os_error()).to_ne_bytes()
    }

    /// What is taken of an answer of these datagrams, after which the socket runs into its time.
    fn answered(datagrams: &[Vec<u8>]) -> (Vec<u16>, Result<(), Refusal>) {
        let mut datagrams = datagrams.iter();
        let mut taken = Vec::new();
        let outcome = answer(
            |buffer| {
                let datagram = datagrams.next().ok_or(Errno::AGAIN)?;
                let length = datagram.len().min(buffer.len());
                buffer[..length].copy_from_slice(&datagram[..length]);
                Ok(datagram.len())
            },
            |kind, _| taken.push(kind),
        );
        (taken, outcome)
    }

    /// A dump that is refused, at once or in the middle, is no list that has ended.
    #[test]
    fn errors_of_the_kernel_are_no_end_of_a_list() {
        let item = || of(20, 2, &[1; 8]);
        for error in [Errno::PERM, Errno::NOENT, Errno::OPNOTSUPP, Errno::NOBUFS] {
            let refused = Err(Refusal::Kernel(error));
            assert_eq!(answered(&[of(ERROR, 0, &code(error))]), (vec![], refused));
            for kind in [ERROR, DONE] {
                let ending = of(kind, 2, &code(error));
                assert_eq!(answered(&[item(), ending.clone()]), (vec![20], refused));
                assert_eq!(answered(&[[item(), ending].concat()]), (vec![20], refused));
            }
        }
        // Ends: an acknowledgement, and the end of a dump, of old kernels without an outcome.
        for end in [
            of(ERROR, 0, &[0; 20]),
            of(DONE, 2, &[0; 4]),
            of(DONE, 2, &[]),
        ] {
            assert_eq!(answered(&[item(), end]), (vec![20], Ok(())));
        }
        // An error must have its number; no number makes a greater one of it.
        assert_eq!(answered(&[of(ERROR, 0, &[])]).1, Err(Refusal::Damaged));
        assert!(
            answered(&[of(ERROR, 0, &i32::MIN.to_ne_bytes())])
                .1
                .is_err()
        );
    }

    #[test]
    fn a_list_that_is_incomplete_says_so() {
        let item = || of(20, 2, &[1; 8]);
        let end = || of(DONE, 2, &[0; 4]);
        assert_eq!(
            answered(&[item(), item()]),
            (vec![20, 20], Err(Refusal::Kernel(Errno::AGAIN)))
        );
        // Changed meanwhile: any of its messages says so, the end, too.
        let changed = Err(Refusal::Changed);
        let interrupted = of(20, 2 | INTERRUPTED, &[1; 8]);
        assert_eq!(
            answered(&[interrupted, item(), end()]),
            (vec![20; 2], changed)
        );
        let late = of(DONE, 2 | INTERRUPTED, &[0; 4]);
        assert_eq!(answered(&[item(), late]), (vec![20], changed));
        let overrun = of(OVERRUN, 0, &[]);
        assert_eq!(answered(&[overrun, item(), end()]), (vec![20], changed));
        // Longer than anything that is read.
        let endless = vec![item(); DATAGRAMS + 1];
        let (taken, outcome) = answered(&endless);
        assert_eq!((taken.len(), outcome), (DATAGRAMS, Err(Refusal::Endless)));
        // Cut off by the buffer, or empty.
        let long = vec![of(20, 2, &vec![0; DATAGRAM]), end()];
        assert_eq!(answered(&long), (vec![], Err(Refusal::Damaged)));
        assert_eq!(answered(&[vec![], end()]).1, Err(Refusal::Damaged));
    }

    #[test]
    fn messages_whose_lengths_lie_end_the_answer() {
        for lie in [0_u32, 1, 15, 21, u32::MAX] {
            let mut datagram = of(20, 2, &[1; 4]);
            datagram.extend(lie.to_ne_bytes());
            datagram.extend([0; 16]);
            assert_eq!(
                answered(&[datagram]),
                (vec![20], Err(Refusal::Damaged)),
                "{lie}"
            );
        }
        // A header that is cut off.
        for length in 1..HEADER {
            let datagram = vec![16; length];
            assert_eq!(answered(&[datagram]).1, Err(Refusal::Damaged), "{length}");
        }
    }

    #[test]
    fn a_list_that_changes_is_read_again_and_kept() {
        for (changes, outcome) in [(0, Ok(())), (3, Ok(())), (4, Err(Refusal::Changed))] {
            let mut readings = 0;
            let (last, read) = read_until_unchanged(|| {
                readings += 1;
                let is_changed = readings <= changes;
                (
                    readings,
                    if is_changed {
                        Err(Refusal::Changed)
                    } else {
                        Ok(())
                    },
                )
            });
            assert_eq!(
                (last, read),
                (ATTEMPTS.min(changes + 1), outcome),
                "{changes}"
            );
        }
        // Others are final.
        let mut readings = 0;
        let (_, refused) = read_until_unchanged(|| {
            readings += 1;
            ((), Err(Refusal::Endless))
        });
        assert_eq!((readings, refused), (1, Err(Refusal::Endless)));
    }

    /// The kernel of this machine has generic netlink itself as a family, and none of this name.
    #[test]
    fn the_kernel_distinguishes_an_absent_family_from_an_absent_command() {
        assert_eq!(family_number("nlctrl"), Ok(CONTROL));
        assert_eq!(family_number("no such"), Err(Refusal::Absent));
        assert_eq!(list("no such", 1, |_| {}), Err(Refusal::Absent));
        let unknown = list("nlctrl", 200, |_| {});
        assert_eq!(unknown, Err(Refusal::Kernel(Errno::OPNOTSUPP)));
        let mut families = 0;
        assert_eq!(list("nlctrl", GET_FAMILY, |_| families += 1), Ok(()));
        assert_ne!(families, 0);
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        for (refusal, remedy) in [
            (Refusal::Absent, "modprobe"),
            (Refusal::Changed, "try again"),
            (Refusal::Kernel(Errno::PERM), "CAP_NET_ADMIN"),
            (Refusal::Kernel(Errno::ACCESS), "seccomp"),
            (Refusal::Kernel(Errno::AGAIN), "try again"),
            (Refusal::Kernel(Errno::NOBUFS), "try again"),
            (Refusal::Kernel(Errno::OPNOTSUPP), "5.11"),
            (Refusal::Kernel(Errno::INVAL), "invalid argument"),
        ] {
            assert!(refusal.to_string().contains(remedy), "{refusal}");
        }
        assert!(Refusal::Absent.of("sockets").is_none());
        let shown = Refusal::Endless.of("sockets").unwrap().to_string();
        assert!(shown.starts_with("sockets of the kernel's SMC are not all listed: "));
    }

    #[test]
    fn a_family_is_asked_for_by_its_name_with_an_end_mark() {
        let request = family_request("SMC");
        assert_eq!(u32_at(&request, 0), Some(28));
        assert_eq!(
            (u16_at(&request, 4), u16_at(&request, 6)),
            (Some(16), Some(5))
        );
        assert_eq!(&request[16..20], [3, 1, 0, 0]);
        assert_eq!(
            (u16_at(&request, 20), u16_at(&request, 22)),
            (Some(8), Some(2))
        );
        assert_eq!(&request[24..], b"SMC\0");
    }

    #[test]
    fn lengths_that_lie_end_what_is_read() {
        for lie in [0_u16, 3, 9, u16::MAX] {
            let mut bytes = vec![8, 0, 1, 0, 1, 2, 3, 4];
            bytes.extend(lie.to_ne_bytes());
            bytes.extend([2, 0, 5, 6]);
            assert_eq!(attributes(&bytes).count(), 1, "{lie}");
        }
        // The type may have flags.
        let nested = [4, 0, 1, 0x80];
        assert_eq!(attributes(&nested).next(), Some((1, &[][..])));
        assert_eq!(number(&[1, 0, 0, 0]), number(&[1, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(number(&[1, 0, 0]), None);
    }
}
