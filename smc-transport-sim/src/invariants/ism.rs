//! What engines do with ISM devices: one control command for each buffer at a time, and
//! nothing moved but into the peer's DMB, while there is one, by connections that live.

use std::collections::BTreeMap;

use smc_proto::command::{BufferSpans, IsmCommand};
use smc_proto::completion::IsmCompletion;
use smc_proto::id::{BufferId, ConnId};
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};

use super::{Invariants, Rule};
use crate::fabric::HostId;

const HEAD: u64 = CDC_ISM_LENGTH as u64;

/// A buffer of an ISM device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IsmLedger {
    /// A control command is in progress.
    busy: bool,
    /// Bytes of the DMB that it is.
    dmb: Option<u32>,
    /// Bytes of the peer's DMB that it is bound to.
    bound: Option<u32>,
}

/// A move, a signal, or a control command.
enum Deed {
    Control(BufferId),
    Move { end: u64, begin: u64 },
    Signal { last: bool },
}

impl Invariants {
    /// An engine gave a command to an ISM device.
    pub fn on_ism_command(&mut self, host: HostId, command: &IsmCommand) {
        let deed = match *command {
            IsmCommand::RegisterDmb { buffer, .. }
            | IsmCommand::UnregisterDmb { buffer }
            | IsmCommand::ClearDmb { buffer }
            | IsmCommand::AllocBuffer { buffer, .. }
            | IsmCommand::FreeBuffer { buffer }
            | IsmCommand::AttachDmb { buffer, .. }
            | IsmCommand::DetachDmb { buffer, .. } => Deed::Control(buffer),
            IsmCommand::Move { source, offset, .. } => {
                let length: u64 = source.iter().map(|at| u64::from(at.length)).sum();
                let begin = u64::from(offset);
                Deed::Move {
                    begin,
                    end: begin + length,
                }
            }
            IsmCommand::Signal { ref cdc, .. } => {
                let sent = CdcIsm::parse(cdc, Endianness::NATIVE).unwrap_or_default();
                let last = ConnectionFlags::ABNORMAL_CLOSE;
                Deed::Signal {
                    last: sent.connection_flags.contains(last),
                }
            }
            IsmCommand::SignalEvent { .. } => return,
        };
        if let Deed::Control(buffer) = deed {
            self.check_ism_control(host, buffer, command);
        } else if let IsmCommand::Move { conn, buffer, .. }
        | IsmCommand::Signal { conn, buffer, .. } = *command
        {
            self.check_ism_move(host, conn, buffer, &deed);
        }
    }

    fn check_ism_control(&mut self, host: HostId, buffer: BufferId, command: &IsmCommand) {
        let ledger = self.host(host).ism.entry(buffer).or_default();
        let was_busy = std::mem::replace(&mut ledger.busy, true);
        match *command {
            IsmCommand::RegisterDmb { length, .. } => ledger.dmb = Some(length),
            IsmCommand::AttachDmb { length, .. } => ledger.bound = Some(length),
            IsmCommand::DetachDmb { .. } => ledger.bound = None,
            _ => {}
        }
        if was_busy {
            let what = format!("{command:?} while another is in progress");
            self.breach(host, Rule::Contract, what);
        }
    }

    /// I3: inside the DMB that was given, and not by a side that has sent its last message.
    fn check_ism_move(&mut self, host: HostId, conn: ConnId, buffer: BufferId, deed: &Deed) {
        let ledger = self.host(host);
        let bound = ledger.ism.get(&buffer).and_then(|of| of.bound);
        let aborted = ledger.ism_aborted.contains(&conn);
        let what = match (bound, deed) {
            (None, _) => Some(format!(
                "{conn} writes by {buffer}, which is bound to nothing"
            )),
            (Some(length), Deed::Move { begin, end })
                if *begin < HEAD || *end > u64::from(length) =>
            {
                Some(format!("{conn} moves {begin}..{end} to a DMB of {length}"))
            }
            (Some(_), Deed::Move { .. }) if aborted => {
                Some(format!("{conn} moves after its abort"))
            }
            _ => None,
        };
        if matches!(deed, Deed::Signal { last: true }) {
            ledger.ism_aborted.insert(conn);
        }
        if let Some(what) = what {
            self.breach(host, Rule::Granted, what);
        }
    }

    /// An engine is about to get an answer or a report of an ISM device.
    pub fn on_ism_completion(&mut self, host: HostId, completion: &IsmCompletion) {
        let (buffer, gone) = match *completion {
            IsmCompletion::DmbRegistered { buffer, .. }
            | IsmCompletion::DmbCleared { buffer }
            | IsmCompletion::BufferAllocated { buffer }
            | IsmCompletion::DmbAttached { buffer }
            | IsmCompletion::DmbDetached { buffer } => (buffer, false),
            // The same name is never used again after that.
            IsmCompletion::DmbUnregistered { buffer } | IsmCompletion::BufferFreed { buffer } => {
                (buffer, true)
            }
            IsmCompletion::Refused { buffer } => (buffer, false),
            _ => return,
        };
        let buffers = &mut self.host(host).ism;
        if gone {
            buffers.remove(&buffer);
        } else if let Some(ledger) = buffers.get_mut(&buffer) {
            ledger.busy = false;
        }
    }

    /// I1: what can be read lies in the ring of the DMB.
    pub(super) fn check_ism_readable(&mut self, host: HostId, conn: ConnId, spans: &BufferSpans) {
        let of = self.host(host).ism.get(&spans.buffer);
        let Some(length) = of.and_then(|of| of.dmb).map(u64::from) else {
            return;
        };
        let inside = spans.segments.iter().filter(|at| at.length > 0).all(|at| {
            let begin = u64::from(at.offset);
            begin >= HEAD && begin + u64::from(at.length) <= length
        });
        if !inside || u64::from(spans.len()) > length.saturating_sub(HEAD) {
            let what = format!("{conn} offers {:?} of a DMB of {length}", spans.segments);
            self.breach(host, Rule::Window, what);
        }
    }
}

/// Buffers of ISM devices by their names.
pub(super) type IsmBuffers = BTreeMap<BufferId, IsmLedger>;
