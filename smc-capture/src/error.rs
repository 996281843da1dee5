//! Why a capture cannot be read or written.

use core::fmt;
use std::io;

/// Why a capture cannot be read or written. Each prints as one sentence.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be opened, read or written.
    Io(io::Error),
    /// The bytes are neither pcap nor pcapng.
    NotACapture,
    /// There is not one byte.
    Empty,
    /// The file ends inside a record.
    Truncated {
        /// The record that is cut short, counted as a frame.
        frame: u64,
    },
    /// A record contradicts itself.
    BadRecord {
        /// The number that the frame would have had.
        frame: u64,
        /// What is wrong.
        reason: String,
    },
    /// The compressed bytes are damaged.
    Compression {
        /// The frame that cannot be read.
        frame: u64,
        /// Error text of the decompressor.
        reason: String,
    },
    /// The frame was taken from a link this reader does not know.
    LinkType {
        /// The number the capture file gives the link type.
        link_type: u32,
    },
    /// A packet to be written does not fit its length field.
    TooLong {
        /// Bytes of payload asked for.
        bytes: usize,
    },
    /// The two ends of a packet to be written are not both IPv4 or both IPv6.
    MixedFamilies,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotACapture => f.write_str("not a pcap or pcapng capture"),
            Self::Empty => f.write_str("the file is empty"),
            Self::Truncated { frame } => write!(f, "the capture is cut off inside frame {frame}"),
            Self::BadRecord { frame, reason } => {
                write!(f, "the capture is damaged at frame {frame}: {reason}")
            }
            Self::Compression { frame, reason } => {
                write!(f, "the gzip data is damaged at frame {frame}: {reason}")
            }
            Self::LinkType { link_type } => write!(
                f,
                "link type {link_type} is not supported, only Ethernet and Linux cooked captures are"
            ),
            Self::TooLong { bytes } => {
                write!(f, "a payload of {bytes} octets does not fit a packet")
            }
            Self::MixedFamilies => f.write_str("one end is IPv4 and the other IPv6"),
        }
    }
}

impl core::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
