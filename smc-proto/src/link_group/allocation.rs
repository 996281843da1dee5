//! Groups, links and buffers: taken, shared out and given back.

use super::remote_rmb::{self, RemoteRmb};
use super::{Agreement, Buffer, Formation, Link, LinkGroup, Memory, QpGoal, Role};
use crate::command::BufferKind;
use crate::config::RMBS_PER_GROUP;
use crate::connection::FatalCause;
use crate::connection_record::{Element, RemoteElement};
use crate::engine::Engine;
use crate::id::NONE;
use crate::path::LocalPath;
use crate::wire::types::{BufferSize, LinkUserId, PeerId, Psn, RToken};

impl Engine<'_> {
    /// A new group with its first link, whose queue pair is asked for at once.
    pub(crate) fn new_group(
        &mut self,
        role: Role,
        peer_id: PeerId,
        vlan: Option<u16>,
        path: LocalPath,
        formation: Formation,
    ) -> Option<u32> {
        let (group, _) = self
            .groups
            .insert(LinkGroup::new(role, peer_id, vlan, formation))?;
        let Some(link) = self.new_link(group, 0, path) else {
            self.groups.remove(group);
            return None;
        };
        if let Some(g) = self.groups.at_mut(group) {
            g.link = link;
            g.decline = Some(crate::wire::types::DiagnosisCode::LINK_READY);
        }
        self.poke_link(link);
        Some(group)
    }

    /// A further link of a group. User IDs step by 256 per group, so that they
    /// differ between all links (LINK-029).
    //= LINK-028
    //= LINK-029
    pub(crate) fn new_link(&mut self, group: u32, position: u8, path: LocalPath) -> Option<u32> {
        let number = self.core.next_group_number;
        self.core.next_group_number = number.wrapping_add(1);
        let psn = Psn::new(self.core.random.next_u32());
        let user_id = LinkUserId(number.wrapping_shl(8) | u32::from(position));
        let link = Link::new(group, position, path, psn, user_id, self.core.now);
        self.links.insert(link).map(|(index, _)| index)
    }

    /// Makes a connection a member of a group.
    pub(crate) fn enter_group(&mut self, conn: u32, group: u32, link: u32) {
        if let Some(record) = self.connections.at_mut(conn) {
            record.group = group;
            record.link = link;
        }
        if let Some(g) = self.groups.at_mut(group) {
            g.members.push_back(&mut self.connections, conn);
            g.connection_count = g.connection_count.saturating_add(1);
            g.idle_deadline = None;
            let deadline = g.next_deadline();
            self.groups.set_deadline(group, deadline);
        }
        self.offer_group(group);
    }

    /// Gives a connection a spare buffer, or asks for a new one; `false` if the
    /// tables or the group are full.
    pub(crate) fn acquire_buffer(
        &mut self,
        conn: u32,
        group: u32,
        kind: BufferKind,
        size: BufferSize,
    ) -> bool {
        //= RENDEZVOUS-055
        let spare = self.groups.at(group).and_then(|g| {
            g.spare
                .get(kind as usize)?
                .get(usize::from(size.code()))?
                .first()
        });
        let index = match spare {
            Some(index) => index,
            None => match self.new_buffer(conn, group, kind, size) {
                Some(index) => index,
                None => return false,
            },
        };
        self.give_element(conn, index);
        true
    }

    fn new_buffer(
        &mut self,
        conn: u32,
        group: u32,
        kind: BufferKind,
        size: BufferSize,
    ) -> Option<u32> {
        let g = self.groups.at_mut(group)?;
        let elements = match kind {
            //= RMB-001
            BufferKind::Rmb if g.rmb_count >= RMBS_PER_GROUP => return None,
            //= RMB-002
            BufferKind::Rmb => self.core.config.elements_per_rmb.max(1),
            BufferKind::Send => 1,
        };
        let device = self.links.at(g.link)?.path.device;
        let buffer = Buffer::new(group, device, kind, size, elements);
        let (index, _) = self.buffers.insert(buffer)?;
        g.buffers.push_back(&mut self.buffers, index);
        if kind == BufferKind::Rmb {
            g.rmb_count = g.rmb_count.saturating_add(1);
        }
        if let Some(buffer) = self.buffers.at_mut(index) {
            buffer.waiter = conn;
        }
        self.poke_buffer(index);
        Some(index)
    }

    fn give_element(&mut self, conn: u32, index: u32) {
        let Some(buffer) = self.buffers.at_mut(index) else {
            return;
        };
        let Some(element) = buffer.take_element() else {
            return;
        };
        let kind = buffer.kind;
        let offset = buffer.element_offset(element);
        buffer.idle_deadline = None;
        self.buffers.set_deadline(index, None);
        if let Some(record) = self.connections.at_mut(conn) {
            match kind {
                BufferKind::Rmb => {
                    record.rmb = Element {
                        buffer: index,
                        index: element,
                        offset,
                    }
                }
                BufferKind::Send => record.send_buffer = index,
            }
        }
        self.list_spare(index);
    }

    /// Lists a buffer as spare if a connection can have an element of it at once.
    pub(crate) fn list_spare(&mut self, index: u32) {
        let Some(buffer) = self.buffers.at(index) else {
            return;
        };
        let Some(group) = self.groups.at_mut(buffer.group) else {
            return;
        };
        let usable = !buffer.retired
            && buffer.memory == Memory::Present
            && buffer.waiter == NONE
            && !buffer.clean.is_empty()
            && match buffer.kind {
                BufferKind::Rmb => buffer.agreement == Agreement::Confirmed,
                BufferKind::Send => true,
            };
        let size = usize::from(buffer.size.code());
        if let Some(list) = group
            .spare
            .get_mut(buffer.kind as usize)
            .and_then(|l| l.get_mut(size))
        {
            if usable {
                list.push_back(&mut self.buffers, index);
            } else {
                list.remove(&mut self.buffers, index);
            }
        }
    }

    /// Takes everything back that a connection holds of its group.
    pub(crate) fn leave_group(&mut self, conn: u32) {
        let Some(record) = self.connections.at_mut(conn) else {
            return;
        };
        let (group, link) = (record.group, record.link);
        let rmb = core::mem::replace(&mut record.rmb, Element::NONE);
        let send = core::mem::replace(&mut record.send_buffer, NONE);
        let remote = core::mem::replace(&mut record.remote, RemoteElement::NONE);
        record.group = NONE;
        record.link = NONE;
        if let Some(l) = self.links.at_mut(link) {
            l.ready.remove(&mut self.connections, conn);
        }
        if let Some(remote_rmb) = self.remote_rmbs.at_mut(remote.rmb) {
            remote_rmb.elements().remove(remote.index);
        }
        self.return_element(conn, rmb.buffer, rmb.index);
        self.return_element(conn, send, 1);
        let now = self.now();
        let timeouts = self.core.config.timeouts;
        if let Some(g) = self.groups.at_mut(group) {
            g.members.remove(&mut self.connections, conn);
            g.connection_count = g.connection_count.saturating_sub(1);
            //= LINK-030
            if g.connection_count == 0 && g.is_active() {
                let idle = match g.role {
                    Role::Server => timeouts.group_idle_server,
                    Role::Client => timeouts.group_idle_client,
                };
                g.idle_deadline = Some(now.after(idle));
            }
            let deadline = g.next_deadline();
            self.groups.set_deadline(group, deadline);
        }
        self.offer_group(group);
        self.try_free_group(group);
    }

    fn return_element(&mut self, conn: u32, index: u32, element: u8) {
        let now = self.now();
        let idle = self.core.config.timeouts.rmb_idle;
        let Some(buffer) = self.buffers.at_mut(index) else {
            return;
        };
        //= RMB-021
        //= RMB-022
        buffer.return_element(element);
        if buffer.waiter == conn {
            buffer.waiter = NONE;
        }
        //= RMB-029
        if buffer.users == 0 {
            let deadline = now.after(idle);
            buffer.idle_deadline = Some(deadline);
            self.buffers.set_deadline(index, Some(deadline));
        }
        self.drop_absent_buffer(index);
        self.poke_buffer(index);
        self.list_spare(index);
    }

    /// Stores an RToken of the peer unless it is known: its RMB, or `None` if the
    /// table is full (RMB-001, reliability H15).
    pub(crate) fn learn_rtoken(&mut self, group: u32, position: u8, rtoken: RToken) -> Option<u32> {
        let g = self.groups.at_mut(group)?;
        let known = remote_rmb::find(
            &mut self.remote_rmbs,
            &g.remote_rmbs,
            position,
            rtoken.rkey,
            &mut self.core.steps,
        );
        if known != NONE {
            let same = self
                .remote_rmbs
                .at(known)
                .and_then(|rmb| rmb.rtoken(position))
                == Some(rtoken);
            return same.then_some(known);
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
    /// without another write (AMB-50). Whether it was known.
    pub(crate) fn forget_rkey(
        &mut self,
        group: u32,
        position: u8,
        rkey: crate::wire::types::RKey,
    ) -> bool {
        let Some(g) = self.groups.at_mut(group) else {
            return false;
        };
        let index = remote_rmb::find(
            &mut self.remote_rmbs,
            &g.remote_rmbs,
            position,
            rkey,
            &mut self.core.steps,
        );
        if index == NONE {
            return false;
        }
        while self
            .remote_rmbs
            .at_mut(index)
            .is_some_and(|rmb| !rmb.elements().is_empty())
        {
            let user = self.user_of(group, index, 0, NONE);
            if user == NONE {
                break;
            }
            self.cut_off(user, FatalCause::RmbeConflict);
        }
        self.remove_remote_rmb(group, index);
        self.offer_group(group);
        true
    }

    pub(crate) fn remove_remote_rmb(&mut self, group: u32, index: u32) {
        if let Some(g) = self.groups.at_mut(group) {
            g.remote_rmbs.remove(&mut self.remote_rmbs, index);
            g.remote_rmb_count = g.remote_rmb_count.saturating_sub(1);
        }
        self.remote_rmbs.remove(index);
    }

    /// Aborts the connection that used an element the peer gave to another one.
    //= RMB-023
    //= RMB-024
    //= RMB-025
    //= RMB-026
    //= RMB-027
    pub(crate) fn abort_user_of(&mut self, group: u32, rmb: u32, index: u8, except: u32) {
        let user = self.user_of(group, rmb, index, except);
        if user != NONE {
            self.cut_off(user, FatalCause::RmbeConflict);
        }
    }

    /// Ends a connection whose remote element must not be written any more.
    fn cut_off(&mut self, conn: u32, cause: FatalCause) {
        let remote = match self.connections.at_mut(conn) {
            Some(record) => core::mem::replace(&mut record.remote, RemoteElement::NONE),
            None => return,
        };
        if let Some(rmb) = self.remote_rmbs.at_mut(remote.rmb) {
            rmb.elements().remove(remote.index);
        }
        self.with_connection(conn, |connection, now, config| {
            connection.on_fatal(now, &config.connection, cause);
        });
    }

    /// Gives the second link up. The group names it until it is gone.
    pub(crate) fn retire_second_link(&mut self, group: u32) {
        let second = self.groups.at(group).map_or(NONE, |g| g.second_link);
        if let Some(link) = self.links.at_mut(second) {
            link.goal = QpGoal::Gone;
            self.drop_absent_link(second);
            self.poke_link(second);
        }
    }

    /// Removes a link that never got a queue pair, or lost it.
    pub(crate) fn drop_absent_link(&mut self, link: u32) {
        if let Some(l) = self.links.at(link)
            && l.state == super::QpState::Absent
            && l.goal == QpGoal::Gone
            && l.under_way.is_none()
        {
            self.remove_link(link);
        }
    }

    pub(crate) fn remove_link(&mut self, link: u32) {
        self.unhash_link(link);
        let Some(l) = self.links.at(link) else { return };
        let (group, device) = (l.group, usize::from(l.path.device.0));
        if let Some(device) = self.core.devices.get_mut(device) {
            device.links.remove(&mut self.links, link);
        }
        self.links.set_deadline(link, None);
        self.links.remove(link);
        if let Some(g) = self.groups.at_mut(group) {
            for named in [&mut g.link, &mut g.second_link] {
                if *named == link {
                    *named = NONE;
                }
            }
        }
        self.try_free_group(group);
    }

    /// Takes a buffer that is no longer memory out of the tables.
    pub(crate) fn remove_buffer(&mut self, index: u32) {
        let Some(buffer) = self.buffers.at(index) else {
            return;
        };
        let (group, kind) = (buffer.group, buffer.kind);
        let size = usize::from(buffer.size.code());
        if let Some(device) = self.core.devices.get_mut(usize::from(buffer.device.0)) {
            device.buffers.remove(&mut self.buffers, index);
        }
        if let Some(g) = self.groups.at_mut(group) {
            if let Some(list) = g.spare.get_mut(kind as usize).and_then(|l| l.get_mut(size)) {
                list.remove(&mut self.buffers, index);
            }
            g.agreements.remove(&mut self.buffers, index);
            g.buffers.remove(&mut self.buffers, index);
            if kind == BufferKind::Rmb {
                g.rmb_count = g.rmb_count.saturating_sub(1);
            }
        }
        self.buffers.remove(index);
        self.try_free_group(group);
    }
}
