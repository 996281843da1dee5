//! Send buffers that an RNIC may still read from.
//!
//! A WRITE is unsignalled: only the completion of a SEND behind it on its link, or
//! the end of the queue pair, shows that the RNIC has done with the send buffer.

use smc_proto::command::RdmaCommand;
use smc_proto::id::{BufferId, ConnId, LinkId, WrId};

use super::host::HostLedger;
use super::{Invariants, Rule};
use crate::fabric::HostId;

/// A WRITE that may be in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    buffer: BufferId,
    conn: ConnId,
    /// The first SEND behind it.
    behind: Option<WrId>,
}

impl Invariants {
    /// The contract: a send buffer is neither given to another connection nor given
    /// back while an RNIC may read it.
    pub(super) fn check_reading(&mut self, host: HostId, command: &RdmaCommand) {
        let ledger = self.host(host);
        let other = match *command {
            RdmaCommand::Write {
                link, conn, buffer, ..
            } => {
                let other = ledger.reader(buffer, None).filter(|other| *other != conn);
                ledger.links.entry(link).or_default().reading.push(Reading {
                    buffer,
                    conn,
                    behind: None,
                });
                other
            }
            RdmaCommand::Send { link, wr_id, .. } => {
                for reading in &mut ledger.links.entry(link).or_default().reading {
                    reading.behind.get_or_insert(wr_id);
                }
                None
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => ledger.reader(buffer, Some(link)),
            RdmaCommand::FreeBuffer { buffer } => ledger.reader(buffer, None),
            _ => None,
        };
        if let Some(conn) = other {
            let what = format!("{command:?} while an RNIC may read what {conn} writes");
            self.breach(host, Rule::Contract, what);
        }
    }

    /// A SEND completed, and all before it.
    pub(super) fn read_until(&mut self, host: HostId, link: LinkId, wr_id: WrId) {
        let reading = &mut self.link(host, link).reading;
        reading.retain(|reading| reading.behind != Some(wr_id));
    }
}

impl HostLedger {
    /// The connection for which an RNIC may read from a buffer, over any link or
    /// over one.
    fn reader(&self, buffer: BufferId, link: Option<LinkId>) -> Option<ConnId> {
        self.links
            .iter()
            .filter(|(id, _)| link.is_none_or(|only| only == **id))
            .flat_map(|(_, link)| &link.reading)
            .find(|reading| reading.buffer == buffer)
            .map(|reading| reading.conn)
    }
}
