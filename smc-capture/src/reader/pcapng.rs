//! pcapng: sections, interfaces and packets.

use pcap_file::Endianness;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use super::source::Source;
use super::{Record, link_type, pcap_error};
use crate::CaptureError;

const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// More interfaces than any host has: a hostile file shall not fill memory.
const MAX_INTERFACES: usize = 4096;

pub(super) struct PcapNg<'a>(PcapNgReader<Source<'a>>);

/// Takes a 32-bit field off the front of a block's body.
fn take(body: &mut &[u8], endianness: Endianness) -> Option<u32> {
    let (head, rest) = body.split_first_chunk::<4>()?;
    *body = rest;
    Some(match endianness {
        Endianness::Big => u32::from_be_bytes(*head),
        Endianness::Little => u32::from_le_bytes(*head),
    })
}

impl<'a> PcapNg<'a> {
    pub(super) fn new(source: Source<'a>) -> Result<Self, CaptureError> {
        PcapNgReader::new(source)
            .map(Self)
            .map_err(|error| pcap_error(error, 1))
    }

    /// The next packet, other blocks passed over.
    pub(super) fn next_record(&mut self, number: u64) -> Option<Result<Record, CaptureError>> {
        loop {
            let block = match self.0.next_raw_block()? {
                Ok(block) => block,
                Err(error) => return Some(Err(pcap_error(error, number))),
            };
            let kind = block.type_;
            if matches!(kind, SIMPLE_PACKET | ENHANCED_PACKET) {
                let body = block.body.into_owned();
                return Some(self.record(kind, &body, number));
            }
            if self.0.interfaces().len() > MAX_INTERFACES {
                return Some(Err(damaged(number, "too many interfaces")));
            }
        }
    }

    fn record(&self, kind: u32, mut body: &[u8], number: u64) -> Result<Record, CaptureError> {
        let endianness = self.0.section().endianness;
        let mut field =
            || take(&mut body, endianness).ok_or_else(|| damaged(number, "packet block too short"));
        let (interface, ticks, captured, original_length) = if kind == ENHANCED_PACKET {
            let interface = field()?;
            let ticks = u64::from(field()?) << 32 | u64::from(field()?);
            (interface, ticks, Some(field()?), field()?)
        } else {
            (0, 0, None, field()?)
        };
        let Some(interface) = self.0.interfaces().get(interface as usize) else {
            return Err(damaged(number, "packet of an unknown interface"));
        };
        let length = match captured {
            Some(captured) => captured as usize,
            None if interface.snaplen == 0 => original_length as usize,
            None => original_length.min(interface.snaplen) as usize,
        };
        let Some(bytes) = body.get(..length) else {
            return Err(damaged(number, "packet longer than its block"));
        };
        Ok(Record {
            time: nanoseconds(interface, ticks),
            link: link_type(interface.linktype.into())?,
            original_length,
            bytes: bytes.to_vec(),
        })
    }
}

fn damaged(frame: u64, reason: &str) -> CaptureError {
    CaptureError::BadRecord {
        frame,
        reason: reason.to_owned(),
    }
}

/// Time stamps count in units that each interface declares: powers of ten, or
/// of two if the top bit is set; microseconds if it declares none.
fn nanoseconds(interface: &InterfaceDescriptionBlock<'_>, ticks: u64) -> u64 {
    let resolution = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    let resolution = resolution.unwrap_or(6);
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let per_second = base.checked_pow(exponent).unwrap_or(u128::MAX);
    let nanoseconds = u128::from(ticks) * 1_000_000_000 / per_second;
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}
