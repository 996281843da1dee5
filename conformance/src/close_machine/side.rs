//! One end of the two.

use std::collections::VecDeque;

use smc_proto::connection::{Connection, NotifyRecord};
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};

/// How far an application has gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash, Debug)]
pub(super) enum Application {
    Open,
    ShutDown,
    Closed,
}

/// A message that was posted.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) cdc: Cdc,
    pub(super) record: NotifyRecord,
    /// The link of the message has failed since, so that the completion of the message means
    /// nothing.
    pub(super) stale: bool,
}

/// One end: its connection, its application, and what it has posted.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) connection: Connection,
    pub(super) application: Application,
    pub(super) written: u8,
    /// Posted, not arrived.
    pub(super) under_way: VecDeque<Posted>,
    /// Arrived, not completed.
    pub(super) arrived: VecDeque<Posted>,
    /// Number of the last message it posted, and of the newest it took from its peer.
    pub(super) posted: u16,
    pub(super) taken: u16,
    /// The side posts to a link that has failed.
    pub(super) cut_off: bool,
    /// CLOSED was reported.
    pub(super) closed: bool,
    /// C or A was sent: these flags are in every later message, and data in none.
    pub(super) final_flags: ConnectionFlags,
}

impl Side {
    /// Flags that were sent stay set, and nothing is published behind the last message.
    pub(super) fn check_order(&self, cdc: &Cdc, bytes: u32) -> Result<(), String> {
        let last = ConnectionFlags::PEER_CONNECTION_CLOSED | ConnectionFlags::ABNORMAL_CLOSE;
        if !cdc.connection_flags.contains(self.final_flags) {
            return Err(format!("{cdc} takes flags back"));
        }
        if self.final_flags.intersects(last) && bytes > 0 {
            return Err(format!("{cdc} publishes data behind the last message"));
        }
        Ok(())
    }
}

impl Posted {
    pub(super) fn is_validation(&self) -> bool {
        let flags = self.cdc.producer_flags;
        flags.contains(ProducerFlags::FAILOVER_VALIDATION)
    }
}
