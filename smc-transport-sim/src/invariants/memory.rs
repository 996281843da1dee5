//! Control commands: one for each object at a time, and none that takes memory
//! away that a peer may write to.

use std::collections::{BTreeMap, BTreeSet};

use smc_proto::command::RdmaCommand;
use smc_proto::id::{BufferId, LinkId};
use smc_proto::time::Instant;

use super::host::{BufferLedger, HostLedger};
use super::{Invariants, Rule};
use crate::fabric::HostId;

impl Invariants {
    pub(super) fn check_control(&mut self, host: HostId, command: &RdmaCommand) {
        let of_link = match *command {
            RdmaCommand::CreateQp { link, .. }
            | RdmaCommand::ConnectQp { link, .. }
            | RdmaCommand::ActivateQp { link, .. }
            | RdmaCommand::DestroyQp { link } => Some(link),
            RdmaCommand::QpToError { link } => {
                self.link(host, link).over = true;
                Some(link)
            }
            _ => None,
        };
        if let Some(link) = of_link
            && std::mem::replace(&mut self.link(host, link).busy, true)
        {
            let what = format!("{command:?} while another is in progress");
            self.breach(host, Rule::Contract, what);
        }
        let of_buffer = match *command {
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                element_size,
                ..
            } => {
                let ledger = BufferLedger {
                    kind,
                    element_size,
                    busy: false,
                    registered: BTreeMap::new(),
                    withdrawn: false,
                    tainted: BTreeSet::new(),
                    leaving: BTreeSet::new(),
                };
                self.host(host).buffers.insert(buffer, ledger);
                Some(buffer)
            }
            RdmaCommand::RegisterBuffer { buffer, .. }
            | RdmaCommand::DeregisterBuffer { buffer, .. }
            | RdmaCommand::FreeBuffer { buffer }
            | RdmaCommand::ClearElement { buffer, .. } => Some(buffer),
            _ => None,
        };
        if let Some(buffer) = of_buffer
            && let Some(ledger) = self.host(host).buffers.get_mut(&buffer)
            && std::mem::replace(&mut ledger.busy, true)
        {
            let what = format!("{command:?} while another is in progress");
            self.breach(host, Rule::Contract, what);
        }
    }

    /// I4: the peer must be done with an element, or its queue pairs dead.
    pub(super) fn check_memory(&mut self, host: HostId, command: &RdmaCommand) {
        let now = self.now;
        let ledger = self.host(host);
        let exposed = match *command {
            RdmaCommand::ClearElement { buffer, offset, .. } => {
                // Wrong only if it is given to another connection like that.
                let exposed = ledger.exposed(now, buffer, Some(offset), None).is_some();
                if let Some(buffer) = ledger.buffers.get_mut(&buffer) {
                    if exposed {
                        buffer.tainted.insert(offset);
                    } else {
                        buffer.tainted.remove(&offset);
                    }
                }
                None
            }
            RdmaCommand::FreeBuffer { buffer } => ledger.exposed(now, buffer, None, None),
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                let exposed = ledger.exposed(now, buffer, None, Some(link));
                if let Some(buffer) = ledger.buffers.get_mut(&buffer) {
                    buffer.leaving.insert(link);
                }
                exposed
            }
            _ => None,
        };
        if let Some(conn) = exposed {
            let what = format!("{command:?} while the peer of {conn} may write");
            self.breach(host, Rule::Reuse, what);
        }
    }
}

impl HostLedger {
    /// The connection whose peer may write to a buffer, or to one element of it,
    /// over any link or over one.
    pub(super) fn exposed(
        &self,
        now: Instant,
        buffer: BufferId,
        offset: Option<u32>,
        link: Option<LinkId>,
    ) -> Option<smc_proto::id::ConnId> {
        let ledger = self.buffers.get(&buffer)?;
        if !ledger.is_rmb() || ledger.withdrawn || self.wrong_clock {
            return None;
        }
        let alive = |id: &LinkId| {
            let state = self.links.get(id);
            link.is_none_or(|only| only == *id) && state.is_some_and(|l| !l.drained && !l.over)
        };
        if !ledger.registered.keys().any(alive) {
            return None;
        }
        let holds = |own: super::connection::Element| {
            own.buffer == buffer && offset.is_none_or(|offset| own.offset == offset)
        };
        let mut conns = self.conns.iter();
        conns
            .find(|(_, c)| c.exposed(now) && c.own.is_some_and(holds))
            .map(|(conn, _)| *conn)
    }
}
