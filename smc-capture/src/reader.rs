//! Reads captures: pcap or pcapng, gzip or not.

mod pcapng;
mod source;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use pcap_file::pcap::PcapReader;
use pcap_file::{PcapError, TsResolution};

use self::pcapng::PcapNg;
use self::source::Source;
use super::CaptureError;
use super::frame::LinkType;

/// One frame of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturedFrame {
    /// Number of the frame; the first frame of a file is 1.
    pub number: u64,
    /// Nanoseconds since 1970-01-01 00:00 UTC, or since the start of a
    /// simulation's clock.
    pub time: u64,
    /// What the bytes begin with.
    pub link: LinkType,
    /// Bytes the frame had on the wire.
    pub original_length: u32,
    /// The bytes that the capture holds.
    pub bytes: Vec<u8>,
}

/// Yields the frames of a capture in the order of the file.
///
/// After an error it yields nothing more. Its memory does not grow with the
/// capture.
pub struct CaptureReader<'a> {
    format: Format<'a>,
    /// Frames yielded so far.
    frames: u64,
    ended: bool,
}

enum Format<'a> {
    Pcap(Box<PcapReader<Source<'a>>>, LinkType),
    PcapNg(Box<PcapNg<'a>>),
}

/// What a record of a capture file is before it has a number.
struct Record {
    time: u64,
    link: LinkType,
    original_length: u32,
    bytes: Vec<u8>,
}

impl CaptureReader<'static> {
    /// Opens a capture file.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new), and [`CaptureError::Io`] if the file cannot be
    /// opened or is a directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        Self::new(file)
    }
}

impl<'a> CaptureReader<'a> {
    /// Starts to read a capture.
    ///
    /// # Errors
    /// [`CaptureError::Empty`], [`CaptureError::NotACapture`],
    /// [`CaptureError::LinkType`]; [`CaptureError::Truncated`] and
    /// [`CaptureError::Compression`] as of frame 1 if the file's header is
    /// cut or damaged.
    pub fn new(bytes: impl Read + 'a) -> Result<Self, CaptureError> {
        let (magic, source) = Source::open(bytes).map_err(|error| io_error(error, 1))?;
        let format = match magic.as_slice() {
            [] => return Err(CaptureError::Empty),
            [0x0a, 0x0d, 0x0d, 0x0a] => Format::PcapNg(Box::new(PcapNg::new(source)?)),
            [0xa1, 0xb2, 0xc3, 0xd4]
            | [0xd4, 0xc3, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0x3c, 0x4d]
            | [0x4d, 0x3c, 0xb2, 0xa1] => {
                let reader = PcapReader::new(source).map_err(|error| pcap_error(error, 1))?;
                let link = link_type(reader.header().datalink.into())?;
                Format::Pcap(Box::new(reader), link)
            }
            _ => return Err(CaptureError::NotACapture),
        };
        Ok(Self {
            format,
            frames: 0,
            ended: false,
        })
    }
}

impl Iterator for CaptureReader<'_> {
    type Item = Result<CapturedFrame, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let number = self.frames.saturating_add(1);
        let record = match &mut self.format {
            Format::Pcap(reader, link) => next_pcap(reader, *link, number),
            Format::PcapNg(reader) => reader.next_record(number),
        };
        self.ended = !matches!(record, Some(Ok(_)));
        self.frames = number;
        Some(record?.map(|record| CapturedFrame {
            number,
            time: record.time,
            link: record.link,
            original_length: record.original_length,
            bytes: record.bytes,
        }))
    }
}

fn next_pcap(
    reader: &mut PcapReader<Source<'_>>,
    link: LinkType,
    number: u64,
) -> Option<Result<Record, CaptureError>> {
    let fraction = match reader.header().ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    // The raw record: the library's checks refuse captures whose snap length
    // is shorter than the frames were, which is what a snap length is for.
    let packet = match reader.next_raw_packet()? {
        Ok(packet) => packet,
        Err(error) => return Some(Err(pcap_error(error, number))),
    };
    Some(Ok(Record {
        time: u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * fraction,
        link,
        original_length: packet.orig_len,
        bytes: packet.data.into_owned(),
    }))
}

fn link_type(number: u32) -> Result<LinkType, CaptureError> {
    LinkType::from_number(number).ok_or(CaptureError::LinkType { link_type: number })
}

fn io_error(error: io::Error, frame: u64) -> CaptureError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => CaptureError::Truncated { frame },
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => CaptureError::Compression {
            frame,
            reason: error.to_string(),
        },
        _ => CaptureError::Io(error),
    }
}

fn pcap_error(error: PcapError, frame: u64) -> CaptureError {
    match error {
        PcapError::IoError(error) => io_error(error, frame),
        PcapError::IncompleteBuffer => CaptureError::Truncated { frame },
        PcapError::InvalidField(reason) => CaptureError::BadRecord {
            frame,
            reason: reason.to_owned(),
        },
        error => CaptureError::BadRecord {
            frame,
            reason: error.to_string(),
        },
    }
}
