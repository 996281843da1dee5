//! RoCE packets: SEND, RDMA WRITE and acknowledgements.

use std::io::Write;

use smc_proto::wire::types::{Gid, Mac, Psn, Qpn, RKey};

use super::CaptureWriter;
use crate::CaptureError;
use crate::frame::{EthernetPath, RoceVersion, emit_roce};
use crate::roce::{Aeth, Bth, Opcode, Reth, RocePacket};

/// The default partition of every fabric.
const PARTITION_KEY: u16 = 0xffff;
const ICRC_LENGTH: usize = 4;

/// One direction of a connected pair of queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpPath {
    /// MAC and VLAN of the frames.
    pub ethernet: EthernetPath,
    /// RoCEv1, or RoCEv2 with its UDP source port.
    pub version: RoceVersion,
    /// GID of the sender; IPv4-mapped ones travel as IPv4 (RoCEv2).
    pub source: Gid,
    /// GID of the receiver.
    pub destination: Gid,
    /// Queue pair of the receiver.
    pub destination_qpn: Qpn,
}

impl QpPath {
    /// A RoCEv2 path without VLAN, from the UDP port 49152.
    #[must_use]
    pub const fn new(source: (Mac, Gid), destination: (Mac, Gid), destination_qpn: Qpn) -> Self {
        Self {
            ethernet: EthernetPath {
                source: source.0,
                destination: destination.0,
                vlan: None,
            },
            version: RoceVersion::V2 {
                source_port: 0xc000,
            },
            source: source.1,
            destination: destination.1,
            destination_qpn,
        }
    }

    fn bth(&self, opcode: Opcode, psn: Psn) -> Bth {
        Bth {
            opcode,
            solicited: false,
            partition_key: PARTITION_KEY,
            destination_qpn: self.destination_qpn,
            acknowledge_requested: false,
            psn,
        }
    }
}

fn advance(psn: Psn, packets: u32) -> Psn {
    Psn::new(psn.value().wrapping_add(packets))
}

/// A packet without extension headers and payload.
fn bare(bth: Bth) -> RocePacket<'static> {
    RocePacket {
        bth,
        reth: None,
        aeth: None,
        immediate: None,
        payload: &[],
        missing: 0,
    }
}

impl<W: Write> CaptureWriter<W> {
    /// A SEND in one packet, as SMC sends LLC and CDC messages.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`], and
    /// [`CaptureError::TooLong`] for a payload of more than about 65,000 bytes.
    pub fn rdma_send(
        &mut self,
        time: u64,
        path: &QpPath,
        psn: Psn,
        payload: &[u8],
        solicited: bool,
    ) -> Result<(), CaptureError> {
        let bth = Bth {
            solicited,
            acknowledge_requested: true,
            ..path.bth(Opcode::SEND_ONLY, psn)
        };
        let packet = RocePacket {
            payload,
            ..bare(bth)
        };
        self.packet(time, path, &packet, None)
    }

    /// An RDMA WRITE, in packets of at most `mtu` payload bytes with
    /// consecutive numbers from `first`. Returns how many packets it took; a
    /// write of no bytes takes one.
    ///
    /// # Errors
    /// Returns the errors of [`rdma_send`](Self::rdma_send). Packets before the failing one are
    /// written.
    #[expect(clippy::too_many_arguments, reason = "one per field of the wire")]
    pub fn rdma_write(
        &mut self,
        time: u64,
        path: &QpPath,
        first: Psn,
        rkey: RKey,
        address: u64,
        payload: &[u8],
        mtu: u16,
    ) -> Result<u32, CaptureError> {
        let Ok(length) = u32::try_from(payload.len()) else {
            return Err(CaptureError::TooLong {
                bytes: payload.len(),
            });
        };
        let mtu = usize::from(mtu.max(1));
        let count = payload.len().div_ceil(mtu).max(1);
        for index in 0..count {
            let opcode = match (index == 0, index + 1 == count) {
                (true, true) => Opcode::WRITE_ONLY,
                (true, false) => Opcode::WRITE_FIRST,
                (false, false) => Opcode::WRITE_MIDDLE,
                (false, true) => Opcode::WRITE_LAST,
            };
            let start = index * mtu;
            let chunk = payload.get(start..payload.len().min(start + mtu));
            let bth = Bth {
                acknowledge_requested: index + 1 == count,
                ..path.bth(opcode, advance(first, index as u32))
            };
            let packet = RocePacket {
                reth: (index == 0).then_some(Reth {
                    address,
                    rkey,
                    length,
                }),
                payload: chunk.unwrap_or_default(),
                ..bare(bth)
            };
            self.packet(time, path, &packet, self.write_payload_limit)?;
        }
        Ok(count as u32)
    }

    /// An acknowledgement of all packets up to `psn`. `path` leads from the
    /// end that acknowledges to the end that sent.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn rdma_ack(
        &mut self,
        time: u64,
        path: &QpPath,
        psn: Psn,
        message_sequence: u32,
    ) -> Result<(), CaptureError> {
        let aeth = Aeth {
            syndrome: Aeth::ACKNOWLEDGED,
            message_sequence,
        };
        self.rdma_response(time, path, psn, aeth)
    }

    /// An acknowledgement or a refusal of the packet `psn`.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn rdma_response(
        &mut self,
        time: u64,
        path: &QpPath,
        psn: Psn,
        aeth: Aeth,
    ) -> Result<(), CaptureError> {
        let packet = RocePacket {
            aeth: Some(aeth),
            ..bare(path.bth(Opcode::ACKNOWLEDGE, psn))
        };
        self.packet(time, path, &packet, None)
    }

    /// Any RoCE packet; `keep` cuts what the file holds of its payload.
    fn packet(
        &mut self,
        time: u64,
        path: &QpPath,
        packet: &RocePacket<'_>,
        keep: Option<usize>,
    ) -> Result<(), CaptureError> {
        let bytes = emit_roce(
            path.ethernet,
            path.version,
            path.source,
            path.destination,
            packet,
        )?;
        let payload = packet.payload.len();
        let kept = match keep {
            // Without the end of the payload there is no padding and no CRC.
            Some(keep) if keep < payload => {
                let tail = payload.next_multiple_of(4) + ICRC_LENGTH;
                bytes.len() - tail + keep
            }
            _ => bytes.len(),
        };
        self.cut_frame(time, bytes.get(..kept).unwrap_or(&bytes), bytes.len())
    }
}
