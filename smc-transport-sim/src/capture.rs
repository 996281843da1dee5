//! The wire as Ethernet frames: written by the simulator, read from kernels.
//!
//! * [`writer`] turns what a simulation does into a pcapng file that stock
//!   Wireshark dissects: TCP with the SMC option, CLC in it, and RoCEv2 packets
//!   with LLC, CDC and RDMA WRITE in them.
//! * [`reader`] yields the frames of a pcap or pcapng file, gzip or not.
//! * [`follow`] finds the SMC conversations in the frames.
//! * [`frame`] and [`roce`] are the codecs below them.
//!
//! ```
//! use smc_transport_sim::capture::{follow::Follower, reader::CaptureReader};
//!
//! # fn main() -> Result<(), smc_transport_sim::capture::CaptureError> {
//! # let mut octets = Vec::new();
//! # smc_transport_sim::capture::writer::CaptureWriter::new(&mut octets)?;
//! let mut follower = Follower::default();
//! let mut items = Vec::new();
//! for frame in CaptureReader::new(octets.as_slice())? {
//!     follower.push(&frame?, &mut items);
//! }
//! follower.finish(&mut items);
//! assert!(items.is_empty());
//! # Ok(())
//! # }
//! ```

mod error;
pub mod follow;
pub mod frame;
pub mod reader;
pub mod roce;
pub mod writer;

#[cfg(test)]
mod tests;

pub use error::CaptureError;
