//! SMC conversations as Ethernet frames in pcap and pcapng files.
//!
//! * [`writer`] writes pcapng files that stock Wireshark dissects: TCP with the SMC option,
//!   CLC in it, and RoCEv2 packets with LLC, CDC and RDMA WRITE in them.
//! * [`reader`] yields the frames of a pcap or pcapng file, gzip or not.
//! * [`follow`] finds the SMC conversations in the frames.
//! * [`frame`] and [`roce`] are the codecs below them.
//!
//! ```
//! use smc_capture::{follow::Follower, reader::CaptureReader};
//!
//! # fn main() -> Result<(), smc_capture::CaptureError> {
//! # let mut bytes = Vec::new();
//! # smc_capture::writer::CaptureWriter::new(&mut bytes)?;
//! let mut follower = Follower::default();
//! let mut items = Vec::new();
//! for frame in CaptureReader::new(bytes.as_slice())? {
//!     follower.push(&frame?, &mut items);
//! }
//! follower.finish(&mut items);
//! assert!(items.is_empty());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod error;
pub mod follow;
pub mod frame;
pub mod reader;
pub mod roce;
pub mod writer;

#[cfg(test)]
mod tests;

pub use error::CaptureError;
