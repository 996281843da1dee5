//! Connections that move to another link.

use super::Agreement;
use crate::connection::{Connection, FatalCause};
use crate::connection_record::{Phase, Target};
use crate::id::{ConnIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::stats::count;
use crate::trace::TraceEvent;
use crate::wire::types::LinkNumber;

impl Groups<'_> {
    /// Nothing of a link is in flight any more: its connections go on over
    /// another link, or end.
    //= FAILOVER-002
    //= FAILOVER-021
    //= FAILOVER-025
    //= LLC-050
    pub(crate) fn move_connections(&mut self, link: LinkIdx) {
        let Some(group) = self.link(link).map(|l| l.group) else {
            return;
        };
        self.each_member(group, |groups, conn| {
            let Some(record) = groups.conn(conn).filter(|r| r.link == link) else {
                return;
            };
            match record.phase {
                Phase::Active | Phase::Ended if record.connection.is_some() => {
                    groups.move_connection(group, link, conn);
                }
                _ => groups.move_handshake(conn),
            }
        });
    }

    /// Moves a connection from a link that failed to another one: one that reaches the
    /// memory of both sides if the connection may still write, else any. C, A and D follow
    /// all data, and a CDC message needs no RMB.
    //= RMB-021
    //= FAILOVER-016
    fn move_connection(&mut self, group: GroupIdx, from: LinkIdx, conn: ConnIdx) {
        self.leave_finished_element(conn);
        let Some(record) = self.conn(conn) else {
            return;
        };
        let (remote, address) = (record.remote, record.target.address);
        let send_buffer = record.send_buffer;
        let writes = record
            .connection
            .as_ref()
            .is_none_or(Connection::may_still_write);
        let target = match writes {
            true => self.link_for_connection(group, remote.rmb, &[send_buffer]),
            false => self.link_for_connection(group, Idx::NONE, &[]),
        };
        if target.is_none() {
            self.end_unreachable(group, conn);
            return;
        }
        let old = self.link(from).map_or(0, |l| l.position);
        let new = self.link(target).map_or(0, |l| l.position);
        self.assign_link(target, conn);
        if let Some(rmb) = self.remote_rmbs.at(remote.rmb)
            && let (Some(before), Some(after)) = (rmb.rtoken(old), rmb.rtoken(new))
            && let Some(record) = self.data.connections.at_mut(conn)
        {
            let offset = address.wrapping_sub(before.address);
            record.target = Target {
                rkey: after.rkey,
                address: after.address.wrapping_add(offset),
            };
        }
        count(&mut self.data.core.statistics.failovers);
        let before = self.link(from).map_or(LinkNumber(0), |l| l.number);
        let to = self.data.link_id(target);
        self.trace_conn(conn, || TraceEvent::LinkChanged { from: before, to });
        self.with_connection(conn, |connection, now, config| {
            connection.on_link_changed(now, &config.connection);
        });
        self.release(conn);
    }

    /// Ends a connection whose peer knows its RMB on no link any more, if the peer may still write
    /// there. A connection that this side has closed awaits messages only, and goes on.
    //= FAILOVER-025
    //= ABORT-015
    pub(super) fn end_if_rmb_unknown(&mut self, conn: ConnIdx) {
        let stranded = self.conn(conn).is_some_and(|record| {
            let rmb = self.buffers.at(record.rmb.buffer);
            let connection = record.connection.as_ref();
            record.phase == Phase::Active
                && rmb.is_some_and(|b| b.ism.is_none() && b.agreement == Agreement::None)
                && connection.is_some_and(Connection::awaits_data)
        });
        if stranded {
            self.with_connection(conn, |connection, now, config| {
                connection.on_fatal(now, &config.connection, FatalCause::MemoryOutOfReach);
            });
            self.release(conn);
        }
    }

    /// Ends a connection for which no link reaches the memory of both sides. A message needs no such
    /// memory: as long as the group has any link, the peer is notified over it. The element is kept
    /// meanwhile for what the peer still writes.
    //= ABORT-015
    //= RMB-021
    fn end_unreachable(&mut self, group: GroupIdx, conn: ConnIdx) {
        let messenger = self.link_for_connection(group, Idx::NONE, &[]);
        self.assign_link(messenger, conn);
        let cause = if messenger.is_none() {
            FatalCause::LinkLost
        } else {
            FatalCause::MemoryOutOfReach
        };
        self.with_connection(conn, |connection, now, config| {
            connection.on_link_changed(now, &config.connection);
            connection.on_fatal(now, &config.connection, cause);
        });
        self.release(conn);
    }
}
