//! RMBs of the peer: taken note of, forgotten, and the connections that end with them.

use super::remote_rmb::{self, RemoteRmb};
use crate::config::RMBS_PER_GROUP;
use crate::connection::{Connection, FatalCause};
use crate::connection_record::RemoteElement;
use crate::id::{ConnIdx, GroupIdx, Idx, RemoteRmbIdx};
use crate::link_group::Groups;
use crate::wire::types::{RKey, RToken};

impl Groups<'_> {
    /// Stores an RToken of the peer unless it is known: its RMB, or `None` if the
    /// table is full (RMB-001, reliability H15).
    pub(crate) fn learn_rtoken(
        &mut self,
        group: GroupIdx,
        position: u8,
        rtoken: RToken,
    ) -> Option<RemoteRmbIdx> {
        let g = self.data.groups.at_mut(group)?;
        let known = remote_rmb::find(
            &mut self.remote_rmbs,
            &g.remote_rmbs,
            position,
            rtoken,
            &mut self.data.core.steps,
        );
        if known.is_some() {
            return Some(known);
        }
        // A peer may announce RMBs ahead of need (RMB-031), but not use up the
        // table of all peers (reliability H15, H22).
        let scarce = self.remote_rmbs.used() > self.remote_rmbs.capacity() >> 1;
        let needed = g.connection_count.saturating_mul(2).saturating_add(8);
        if g.remote_rmb_count >= RMBS_PER_GROUP || (scarce && g.remote_rmb_count >= needed) {
            return None;
        }
        let (index, _) = self.remote_rmbs.insert(RemoteRmb::new(position, rtoken))?;
        g.remote_rmbs.push_back(&mut self.remote_rmbs, index);
        g.remote_rmb_count = g.remote_rmb_count.saturating_add(1);
        self.offer_group(group);
        Some(index)
    }

    /// Forgets an RMB of the peer; connections that write to it are aborted
    /// without another write (AMB-50). Whether it was known. Of several RMBs with this
    /// key the peer withdraws one that no connection uses (RMB-028).
    pub(crate) fn forget_rkey(&mut self, group: GroupIdx, position: u8, rkey: RKey) -> bool {
        if self.data.groups.at(group).is_none() {
            return false;
        }
        let find = |groups: &mut Self, unused: bool| {
            // The list is another one once an RMB that no link reaches is forgotten.
            let Some(list) = groups.data.groups.at(group).map(|g| g.remote_rmbs) else {
                return Idx::NONE;
            };
            let (pool, steps) = (&mut groups.remote_rmbs, &mut groups.data.core.steps);
            let fits =
                |rmb: &RemoteRmb| rmb.has_key(position, rkey) && !(unused && rmb.is_in_use());
            remote_rmb::find_behind(pool, &list, None, steps, fits)
        };
        let mut index = find(self, false);
        if self.remote_rmbs.at(index).is_some_and(RemoteRmb::is_in_use) {
            self.leave_finished_elements(group);
            let unused = find(self, true);
            if unused.is_some() {
                index = unused;
            }
        }
        if index.is_none() {
            return false;
        }
        while self
            .remote_rmbs
            .at_mut(index)
            .is_some_and(|rmb| !rmb.elements().is_empty())
        {
            let user = self.user_of(group, index, 0, Idx::NONE);
            if user.is_none() {
                break;
            }
            self.cut_off(user, FatalCause::RmbeConflict);
        }
        self.remove_remote_rmb(group, index);
        self.offer_group(group);
        true
    }

    /// Gives up the peer's elements of connections that have closed in order as far as
    /// this side is concerned: they write no more. The peer's own close, over another
    /// link, may arrive behind what it does with the element then.
    //= RMB-021
    fn leave_finished_elements(&mut self, group: GroupIdx) {
        self.each_member(group, |groups, conn| {
            groups.leave_finished_element(conn);
        });
    }

    /// Gives up the peer's element of a connection that will not write any more. An RMB
    /// that no link reaches is forgotten with its last element, as no message of the peer
    /// can name it.
    pub(super) fn leave_finished_element(&mut self, conn: ConnIdx) {
        let Some(record) = self.data.connections.at_mut(conn) else {
            return;
        };
        let group = record.group;
        if record
            .connection
            .as_ref()
            .is_some_and(Connection::has_closed)
        {
            let remote = record.leave_remote();
            self.give_up_element(group, remote);
        }
    }

    /// Notes that no connection writes to an element of the peer any more: whether its RMB
    /// was forgotten with it, because no link reaches it.
    pub(super) fn give_up_element(&mut self, group: GroupIdx, remote: RemoteElement) -> bool {
        let reachable = self.is_reachable(group, remote.rmb);
        let Some(rmb) = self.remote_rmbs.at_mut(remote.rmb) else {
            return false;
        };
        rmb.elements().remove(remote.index);
        let forgotten = !reachable && rmb.elements().is_empty();
        if forgotten {
            self.remove_remote_rmb(group, remote.rmb);
        }
        forgotten
    }

    pub(crate) fn remove_remote_rmb(&mut self, group: GroupIdx, index: RemoteRmbIdx) {
        if let Some(g) = self.data.groups.at_mut(group) {
            g.remote_rmbs.remove(&mut self.remote_rmbs, index);
            g.remote_rmb_count = g.remote_rmb_count.saturating_sub(1);
            // A CONTINUATION must not reach the next owner of the slot.
            if g.incoming_rkey
                .is_some_and(|incoming| incoming.rmb == index)
            {
                g.incoming_rkey = None;
            }
        }
        self.remote_rmbs.remove(index);
    }

    /// Aborts the connection that used an element the peer gave to another one.
    //= RMB-023
    //= RMB-024
    //= RMB-025
    //= RMB-026
    //= RMB-027
    pub(crate) fn abort_user_of(
        &mut self,
        group: GroupIdx,
        rmb: RemoteRmbIdx,
        index: u8,
        except: ConnIdx,
    ) {
        let user = self.user_of(group, rmb, index, except);
        self.leave_finished_element(user);
        if self.user_of(group, rmb, index, except).is_some() {
            self.cut_off(user, FatalCause::RmbeConflict);
        }
    }

    /// Ends a connection whose remote element must not be written any more.
    fn cut_off(&mut self, conn: ConnIdx, cause: FatalCause) {
        let Some(record) = self.data.connections.at_mut(conn) else {
            return;
        };
        let (group, remote) = (record.group, record.leave_remote());
        self.give_up_element(group, remote);
        self.with_connection(conn, |connection, now, config| {
            connection.on_fatal(now, &config.connection, cause);
        });
    }
}
