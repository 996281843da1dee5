//! RDMA WRITEs of one packet or several.

use smc_proto::wire::types::Psn;

use super::Moment;
use super::item::{Content, Protocol, RdmaWrite, RocePath, WritePiece};
use crate::frame::RoceFrame;
use crate::roce::{Opcode, Reth};

const PSN_MASK: u32 = 0x00ff_ffff;

/// An RDMA WRITE whose last packet has not come.
pub(super) struct WriteInProgress {
    write: RdmaWrite,
    /// Path of the first packet.
    pub(super) path: RocePath,
    pub(super) last: Moment,
    /// Payload of the first packet on the wire, which is the path MTU.
    mtu: u32,
    /// Payload bytes on the wire so far.
    carried: u64,
    next_psn: Psn,
    gap: bool,
}

/// Bytes of payload that may still be kept, for all writes together.
pub(super) struct Budget {
    pub(super) left: usize,
}

impl WriteInProgress {
    /// Begins with the first packet, which has the RETH.
    pub(super) fn begin(
        at: Moment,
        path: RocePath,
        frame: &RoceFrame<'_>,
        reth: Reth,
        budget: &mut Budget,
    ) -> Self {
        let next_psn = path.psn;
        let payload = frame.packet.payload.len() + frame.packet.missing;
        let mut this = Self {
            write: RdmaWrite {
                rkey: reth.rkey,
                address: reth.address,
                length: reth.length,
                first_frame: at.frame,
                packets: 0,
                complete: false,
                pieces: Vec::new(),
            },
            path,
            last: at,
            mtu: payload as u32,
            carried: 0,
            next_psn,
            gap: false,
        };
        this.add(at, frame, budget);
        this
    }

    /// Adds a packet.
    pub(super) fn add(&mut self, at: Moment, frame: &RoceFrame<'_>, budget: &mut Budget) {
        let packet = &frame.packet;
        let psn = packet.bth.psn;
        self.gap |= psn != self.next_psn;
        self.next_psn = Psn::new(psn.value().wrapping_add(1));
        self.last = at;
        self.write.packets = self.write.packets.saturating_add(1);
        self.carried += (packet.payload.len() + packet.missing) as u64;
        let index = psn.value().wrapping_sub(self.path.psn.value()) & PSN_MASK;
        let offset = index.wrapping_mul(self.mtu);
        if packet.payload.is_empty() || packet.payload.len() > budget.left {
            return;
        }
        budget.left -= packet.payload.len();
        match self.write.pieces.last_mut() {
            Some(piece) if piece.offset.wrapping_add(piece.bytes.len() as u32) == offset => {
                piece.bytes.extend(packet.payload);
            }
            _ => self.write.pieces.push(WritePiece {
                offset,
                bytes: packet.payload.to_vec(),
            }),
        }
    }

    /// Whether a packet belongs to this write by its number, which counts on
    /// from that of the first one.
    pub(super) fn includes(&self, psn: Psn) -> bool {
        let index = psn.value().wrapping_sub(self.path.psn.value()) & PSN_MASK;
        index < self.write.length.div_ceil(self.mtu.max(1))
    }

    pub(super) fn first_frame(&self) -> u64 {
        self.write.first_frame
    }

    /// Forgets the write.
    pub(super) fn discard(self, budget: &mut Budget) {
        budget.left += self.write.present();
    }

    /// Ends with the last packet, or without it.
    pub(super) fn end(mut self, last_seen: bool, budget: &mut Budget) -> Content {
        budget.left += self.write.present();
        self.write.complete = last_seen && !self.gap;
        if self.write.complete && self.carried != u64::from(self.write.length) {
            return Content::Malformed {
                protocol: Protocol::Write,
                offset: 12,
                reason: format!(
                    "RDMA WRITE announces {} octets and carries {}",
                    self.write.length, self.carried
                ),
            };
        }
        Content::Write(self.write)
    }
}

/// Whether the packet ends an RDMA WRITE.
pub(super) fn is_last(opcode: Opcode) -> bool {
    opcode.is_write() && opcode.ends_message()
}
