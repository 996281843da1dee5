//! Writes captures: what a simulation sends, as pcapng with nanoseconds.

mod rdma;
mod tcp;

use core::net::SocketAddr;
use std::collections::HashMap;
use std::io::Write;

use core::time::Duration;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

use super::CaptureError;

pub use rdma::QpPath;
pub use tcp::{Direction, TcpEnd, TcpFlow, syn_options};

/// Nanoseconds, as the exponent of ten that pcapng wants.
const NANOSECONDS: u8 = 9;

/// Writes frames to a pcapng capture.
///
/// Frames are to be given in the order of time; times are nanoseconds since
/// 1970, or since the start of a simulation. After an error the file may end
/// in a partial record; the next call tries to go on.
pub struct CaptureWriter<W: Write> {
    pcapng: PcapNgWriter<W>,
    flows: HashMap<(SocketAddr, SocketAddr), tcp::FlowState>,
    maximum_segment: usize,
    write_payload_limit: Option<usize>,
    comment: Option<String>,
    frames: u64,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// [`CaptureError::Io`] if the header cannot be written.
    pub fn new(writer: W) -> Result<Self, CaptureError> {
        let mut pcapng = PcapNgWriter::new(writer).map_err(writing)?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
        };
        pcapng.write_pcapng_block(interface).map_err(writing)?;
        Ok(Self {
            pcapng,
            flows: HashMap::new(),
            maximum_segment: 1448,
            write_payload_limit: None,
            comment: None,
            frames: 0,
        })
    }

    /// Keeps at most `bytes` payload bytes of each RDMA WRITE packet. The
    /// frames keep their full length in their headers.
    pub fn limit_write_payload(&mut self, bytes: Option<usize>) {
        self.write_payload_limit = bytes;
    }

    /// Cuts TCP payload into segments of at most `bytes`, 1448 at first;
    /// 1 to 65,000.
    pub fn set_maximum_segment(&mut self, bytes: usize) {
        self.maximum_segment = bytes.clamp(1, 65_000);
    }

    /// Gives the next frame a comment, which Wireshark shows; at most the
    /// first 1,000 characters of it.
    pub fn comment(&mut self, text: &str) {
        self.comment = Some(text.chars().take(1_000).collect());
    }

    /// Frames written so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Writes out what is buffered and returns the writer.
    ///
    /// # Errors
    /// [`CaptureError::Io`] if flushing fails.
    pub fn finish(self) -> Result<W, CaptureError> {
        let mut writer = self.pcapng.into_inner();
        writer.flush()?;
        Ok(writer)
    }

    /// Writes one Ethernet frame of any kind, without check sequence.
    ///
    /// # Errors
    /// [`CaptureError::Io`] if it cannot be written.
    pub fn frame(&mut self, time: u64, bytes: &[u8]) -> Result<(), CaptureError> {
        self.cut_frame(time, bytes, bytes.len())
    }

    /// Writes the first bytes of a frame that was `original` bytes long.
    fn cut_frame(&mut self, time: u64, kept: &[u8], original: usize) -> Result<(), CaptureError> {
        let Ok(original_len) = u32::try_from(original) else {
            return Err(CaptureError::TooLong { bytes: original });
        };
        let comment = self.comment.take();
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(time),
            original_len,
            data: kept.into(),
            options: comment
                .map(|text| EnhancedPacketOption::Comment(text.into()))
                .into_iter()
                .collect(),
        };
        self.pcapng.write_pcapng_block(block).map_err(writing)?;
        self.frames += 1;
        Ok(())
    }
}

fn writing(error: PcapError) -> CaptureError {
    match error {
        PcapError::IoError(error) => CaptureError::Io(error),
        error => CaptureError::Io(std::io::Error::other(error.to_string())),
    }
}
