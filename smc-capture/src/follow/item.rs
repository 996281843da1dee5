//! What is found in a capture.

use core::fmt;
use core::net::SocketAddr;

use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{LlcMessage, LlcParseError, version_of};
use smc_proto::wire::types::{Gid, LinkNumber, Psn, Qpn, RKey};

use crate::frame::{RoceVersion, gid_address};

/// Something SMC in a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The frame that completes it.
    pub frame: u64,
    /// Time of that frame, in nanoseconds.
    pub time: u64,
    /// From where to where.
    pub path: Path,
    /// Whether it repeats what an earlier frame held.
    pub retransmission: bool,
    /// What it is.
    pub content: Content,
    /// The bytes of the CLC, LLC or CDC message, as far as the capture holds
    /// them; empty for others.
    pub bytes: Vec<u8>,
}

/// From where to where an item went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Path {
    /// In a TCP connection.
    Tcp(TcpPath),
    /// In a RoCE packet.
    Roce(RocePath),
    /// In a packet that could not be read further.
    Hosts {
        /// GID of the sender.
        source: Gid,
        /// GID of the receiver.
        destination: Gid,
    },
}

/// A direction of a TCP connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpPath {
    /// Number of the connection among those followed, from 0.
    pub stream: u64,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// Whether the sender is the end that connected.
    pub to_server: bool,
}

/// Sender, receiver and number of a RoCE packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RocePath {
    /// How the packet travels.
    pub version: RoceVersion,
    /// GID of the sender, IPv4-mapped if it travels in IPv4.
    pub source: Gid,
    /// GID of the receiver.
    pub destination: Gid,
    /// Queue pair of the sender. The packet does not contain it; it is known once
    /// Accept and Confirm or a CONFIRM LINK were seen.
    pub source_qpn: Option<Qpn>,
    /// Queue pair of the receiver.
    pub destination_qpn: Qpn,
    /// Number of the packet; of the first one for an RDMA WRITE.
    pub psn: Psn,
    /// Number of the link that the queue pairs are the ends of, once a CONFIRM LINK
    /// was seen.
    pub link: Option<LinkNumber>,
    /// Whether the invariant CRC is right; `None` if the capture is cut.
    pub crc_valid: Option<bool>,
}

/// What an item is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "one item is in hand at a time, and most are matched in place"
)]
pub enum Content {
    /// The SMC option in a SYN or SYN-ACK.
    TcpOption(TcpOption),
    /// What else happens on a TCP connection; only if it was asked for.
    Tcp(TcpSign),
    /// A CLC message.
    Clc(ClcMessage),
    /// An LLC message of either version.
    Llc(Llc),
    /// A CDC message.
    Cdc(Cdc),
    /// An RDMA WRITE.
    Write(RdmaWrite),
    /// A message of a kind that is not decoded.
    Unsupported {
        /// What carries it.
        protocol: Protocol,
        /// What it is, as a phrase such as "unknown optional LLC type 0x80".
        what: String,
    },
    /// A message that the capture does not hold to its end.
    Cut {
        /// What carries it.
        protocol: Protocol,
        /// Bytes that there are.
        have: usize,
        /// Bytes that it takes.
        need: usize,
    },
    /// Bytes that are no message.
    Malformed {
        /// What should have been there.
        protocol: Protocol,
        /// Offset of the fault in the message, in bytes.
        offset: usize,
        /// What is wrong.
        reason: String,
    },
}

/// An LLC message of either version. As it borrows its lists, it is kept as bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Llc(Vec<u8>);

impl Llc {
    /// Takes the bytes of a message.
    ///
    /// # Errors
    /// Returns the errors of [`LlcMessage::parse`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, LlcParseError> {
        LlcMessage::parse(&bytes, version_of(&bytes))?;
        Ok(Self(bytes))
    }

    /// The version whose form the message has.
    #[must_use]
    pub fn version(&self) -> SmcVersion {
        version_of(&self.0)
    }

    /// The message.
    ///
    /// # Panics
    /// Never: the bytes were read before.
    #[must_use]
    #[allow(clippy::expect_used, reason = "the octets were read before")]
    pub fn message(&self) -> LlcMessage<'_> {
        LlcMessage::parse(&self.0, self.version()).expect("read before")
    }
}

impl fmt::Debug for Llc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.message(), f)
    }
}

impl fmt::Display for Llc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().display(self.version()).fmt(f)
    }
}

/// The protocols that are followed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Protocol {
    /// The TCP option.
    TcpOption,
    /// TCP itself.
    Tcp,
    /// Connection layer control.
    Clc,
    /// Link layer control.
    Llc,
    /// Connection data control.
    Cdc,
    /// RDMA WRITE.
    Write,
    /// RoCE, the transport of the last three.
    Roce,
}

/// The SMC option of a SYN or SYN-ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpOption {
    /// In the server's SYN-ACK, not in the client's SYN.
    pub syn_ack: bool,
}

/// What happens on a TCP connection besides CLC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpSign {
    /// Bytes that are no CLC: those of an application.
    Data {
        /// At least so many of them.
        bytes: u64,
    },
    /// The sender will send no more.
    Fin,
    /// The connection is over.
    Reset,
}

/// An RDMA WRITE, all its packets together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RdmaWrite {
    /// Key of the receiver's memory region.
    pub rkey: RKey,
    /// Virtual address of the first byte.
    pub address: u64,
    /// Bytes written, as the first packet announces.
    pub length: u32,
    /// Frame of the first packet.
    pub first_frame: u64,
    /// Packets seen.
    pub packets: u32,
    /// Whether all packets were seen. Their payload may still be cut.
    pub complete: bool,
    /// The payload bytes that the capture holds, in the order of the frames.
    pub pieces: Vec<WritePiece>,
}

/// Consecutive bytes of an RDMA WRITE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WritePiece {
    /// Offset of the first byte in the write.
    pub offset: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl RdmaWrite {
    /// Bytes of payload that the capture holds.
    #[must_use]
    pub fn present(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len()).sum()
    }
}

impl Content {
    /// The protocol.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::TcpOption(_) => Protocol::TcpOption,
            Self::Tcp(_) => Protocol::Tcp,
            Self::Clc(_) => Protocol::Clc,
            Self::Llc(_) => Protocol::Llc,
            Self::Cdc(_) => Protocol::Cdc,
            Self::Write(_) => Protocol::Write,
            Self::Unsupported { protocol, .. }
            | Self::Cut { protocol, .. }
            | Self::Malformed { protocol, .. } => *protocol,
        }
    }

    /// Whether the bytes are wrong, rather than unknown or cut.
    #[must_use]
    pub const fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed { .. })
    }
}

impl Protocol {
    /// Name of the protocol in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpOption => "tcp-option",
            Self::Tcp => "tcp",
            Self::Clc => "clc",
            Self::Llc => "llc",
            Self::Cdc => "cdc",
            Self::Write => "write",
            Self::Roce => "roce",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(path) => write!(f, "{} -> {}", path.source, path.destination),
            Self::Roce(path) => {
                let (source, destination) =
                    (gid_address(path.source), gid_address(path.destination));
                match path.source_qpn {
                    Some(qpn) => write!(f, "{source} qp {qpn}")?,
                    None => write!(f, "{source}")?,
                }
                write!(f, " -> {destination} qp {}", path.destination_qpn)?;
                path.link.map_or(Ok(()), |link| write!(f, " link {link}"))
            }
            Self::Hosts {
                source,
                destination,
            } => write!(
                f,
                "{} -> {}",
                gid_address(*source),
                gid_address(*destination)
            ),
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TcpOption(option) if option.syn_ack => f.write_str("SMC option in SYN-ACK"),
            Self::TcpOption(_) => f.write_str("SMC option in SYN"),
            Self::Tcp(TcpSign::Data { bytes }) => write!(f, "{bytes} octets of data"),
            Self::Tcp(TcpSign::Fin) => f.write_str("FIN"),
            Self::Tcp(TcpSign::Reset) => f.write_str("RST"),
            Self::Clc(message) => message.fmt(f),
            Self::Llc(message) => message.fmt(f),
            Self::Cdc(message) => message.fmt(f),
            Self::Write(write) => write.fmt(f),
            Self::Unsupported { what, .. } => f.write_str(what),
            Self::Cut {
                protocol,
                have,
                need,
            } => write!(
                f,
                "cut: the capture holds {have} of {need} octets of a {protocol} message"
            ),
            Self::Malformed { offset, reason, .. } => {
                write!(f, "malformed at octet {offset}: {reason}")
            }
        }
    }
}

impl fmt::Display for RdmaWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RDMA WRITE rkey {} address 0x{:x} length {}",
            self.rkey, self.address, self.length
        )?;
        if self.packets != 1 {
            write!(f, " packets {}", self.packets)?;
        }
        if !self.complete {
            f.write_str(" incomplete")?;
        }
        Ok(())
    }
}
