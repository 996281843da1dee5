//! Groups, links and buffers: taken, shared out and given back.

use super::ism::{IsmBuffer, SPARE_DMB};
use super::{
    Acquired, Agreement, Buffer, Formation, GroupKind, Link, LinkGroup, Memory, QpGoal, Role,
    SmcrGroup,
};
use crate::command::BufferKind;
use crate::connection_record::Element;
use crate::devices::BufferDevice;
use crate::id::{BufferIdx, ConnIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::path::LocalPath;
use crate::trace::TraceEvent;
use crate::version::Terms;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;
use crate::wire::types::{BufferSize, LinkUserId, PeerId, Psn};

impl Groups<'_> {
    /// A new group with its first link, whose queue pair is asked for at once.
    pub(crate) fn new_group(
        &mut self,
        role: Role,
        peer_id: PeerId,
        vlan: Option<u16>,
        path: LocalPath,
        terms: Terms,
        formation: Formation,
    ) -> Option<GroupIdx> {
        let kind = GroupKind::SmcR(SmcrGroup::new(peer_id, path.lan));
        let new = LinkGroup::new(kind, role, vlan, terms, formation);
        let (group, _) = self.data.groups.insert(new)?;
        self.trace_group(group, || created(role, terms));
        self.data.core.ports.learn(path);
        let Some(link) = self.new_link(group, path) else {
            self.trace_group(group, || TraceEvent::GroupFreed);
            self.data.groups.remove(group);
            return None;
        };
        if let Some(g) = self.data.groups.at_mut(group) {
            g.decline = Some(crate::wire::types::DiagnosisCode::LINK_READY);
        }
        self.data.schedule_link(link);
        Some(group)
    }

    /// A link of a group, at its first free position, rather one that no rendezvous
    /// remembers another link at. User IDs count the links of
    /// this endpoint, so that they differ within a group and between groups (LINK-029).
    //= LINK-028
    //= LINK-029
    pub(crate) fn new_link(&mut self, group: GroupIdx, path: LocalPath) -> Option<LinkIdx> {
        let mut free = None;
        let mut position = 0u8;
        for link in self.links_of(group) {
            if link.is_none() {
                free = free.or(Some(position));
                if !self.is_remembered(group, position) {
                    free = Some(position);
                    break;
                }
            }
            position = position.saturating_add(1);
        }
        let position = free?;
        self.forget_rtokens(group, position, false);
        let user_id = LinkUserId(self.data.core.next_user_id);
        self.data.core.next_user_id = self.data.core.next_user_id.wrapping_add(1);
        let psn = Psn::new(self.data.core.random.next_u32());
        let direct = self.data.groups.at(group).is_none_or(|g| g.terms.direct);
        let mut link = Link::new(group, position, path, psn, user_id, self.data.core.now);
        link.direct = direct;
        let (index, _) = self.data.links.insert(link)?;
        if let Some(slot) = self
            .data
            .groups
            .at_mut(group)
            .and_then(|g| g.links.get_mut(usize::from(position)))
        {
            *slot = index;
        }
        if self.data.tap.is_on() {
            let group = self.group_id(group);
            let LocalPath { device, port, .. } = path;
            self.trace_link(index, || TraceEvent::LinkCreated {
                group,
                device,
                port,
            });
        }
        Some(index)
    }

    /// Makes a connection a member of a group, on this link or, over SMC-D, on none.
    pub(crate) fn enter_group(&mut self, group: GroupIdx, link: LinkIdx, conn: ConnIdx) {
        if let Some(record) = self.data.connections.at_mut(conn) {
            record.group = group;
        }
        self.assign_link(link, conn);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.members.push_back(&mut self.data.connections, conn);
            g.connection_count = g.connection_count.saturating_add(1);
            g.idle_deadline = None;
            let deadline = g.next_deadline();
            self.set_group_deadline(group, deadline);
        }
        if self.data.tap.is_on() {
            let conn = self.data.conn_id(conn);
            self.trace_group(group, || TraceEvent::GroupJoined { conn });
        }
        self.offer_group(group);
    }

    /// Gives a connection a spare buffer, or asks for a new one.
    pub(crate) fn acquire_buffer(
        &mut self,
        group: GroupIdx,
        conn: ConnIdx,
        kind: BufferKind,
        size: BufferSize,
    ) -> Acquired {
        //= RENDEZVOUS-055
        let spare = self.data.groups.at(group).and_then(|g| {
            g.spare
                .get(kind as usize)?
                .get(usize::from(size.code()))?
                .first()
        });
        //= RMB-001
        if spare.is_none() && kind == BufferKind::Rmb && self.is_full_of_rmbs(group) {
            return self.make_room(group, size);
        }
        match spare.or_else(|| self.new_buffer(group, conn, kind, size)) {
            Some(index) => {
                self.give_element(conn, index, spare.is_some());
                Acquired::Yes
            }
            None => Acquired::No,
        }
    }

    fn new_buffer(
        &mut self,
        group: GroupIdx,
        conn: ConnIdx,
        kind: BufferKind,
        size: BufferSize,
    ) -> Option<BufferIdx> {
        let device = self.buffer_device(group);
        let g = self.data.groups.at_mut(group)?;
        let elements = match kind {
            BufferKind::Rmb if g.ism_peer().is_some() => 1,
            //= RMB-002
            BufferKind::Rmb => self.data.core.config.elements_per_rmb.max(1),
            BufferKind::Send => 1,
        };
        let device = device?;
        let mut buffer = Buffer::new(group, device, kind, size, elements);
        buffer.ism = g.ism_peer().map(|ism_peer| IsmBuffer::new(kind, ism_peer));
        let (index, _) = self.buffers.insert(buffer)?;
        g.buffers.push_back(&mut self.buffers, index);
        if kind == BufferKind::Rmb {
            g.rmb_count = g.rmb_count.saturating_add(1);
        }
        if let Some(buffer) = self.buffers.at_mut(index) {
            buffer.waiter = conn;
        }
        self.trace_buffer(index, || TraceEvent::BufferCreated {
            buffer: kind,
            elements,
            bytes: size.octets(),
        });
        self.schedule_buffer(index);
        Some(index)
    }

    /// The device of the next buffer of a group, if any can have one.
    fn buffer_device(&self, group: GroupIdx) -> Option<BufferDevice> {
        let g = self.data.groups.at(group)?;
        if let Some(smcd) = g.smcd() {
            return (!g.is_ending()).then(|| smcd.device());
        }
        let mut links = self.select_links(group, |link| link.goal != QpGoal::Gone);
        let (_, link) = links.next()?;
        Some(BufferDevice::Rnic(link.path.device))
    }

    /// Gives a connection an element of a buffer, which is `reused` or was made for it.
    fn give_element(&mut self, conn: ConnIdx, index: BufferIdx, reused: bool) {
        let Some(buffer) = self.buffers.at_mut(index) else {
            return;
        };
        let Some(element) = buffer.take_element() else {
            return;
        };
        let kind = buffer.kind;
        // Behind the head, in a DMB.
        //= D-044
        let offset = match buffer.ism {
            Some(_) => CDC_ISM_LENGTH as u32,
            None => buffer.element_offset(element),
        };
        let generation = self.buffers.generation(index);
        self.set_buffer_deadline(index, None);
        if let Some(record) = self.data.connections.at_mut(conn) {
            let [rmb_reused, send_reused] = &mut record.reused;
            match kind {
                BufferKind::Rmb => {
                    *rmb_reused = reused;
                    record.rmb = Element {
                        buffer: index,
                        generation,
                        index: element,
                        offset,
                    }
                }
                BufferKind::Send => {
                    *send_reused = reused;
                    record.send_buffer = index;
                    record.send_generation = generation;
                }
            }
        }
        self.note_owner(index, conn);
        if self.data.tap.is_on() {
            let conn = self.data.conn_id(conn);
            self.trace_buffer(index, || TraceEvent::ElementAssigned { conn, element });
        }
        self.list_spare(index);
    }

    /// Lists a buffer as spare if a connection can have an element of it at once, and wakes
    /// the first connection that waits for an RMB if it is one.
    pub(crate) fn list_spare(&mut self, index: BufferIdx) {
        let Some(group) = self.buffers.at(index).map(|b| b.group) else {
            return;
        };
        if self.relist_buffer(index) {
            self.wake_for_rmb(group);
        }
    }

    /// Lists a buffer as spare if a connection can have an element of it at once: whether it
    /// is an RMB that can be given out. A caller that relists several wakes once.
    pub(crate) fn relist_buffer(&mut self, index: BufferIdx) -> bool {
        let Some(buffer) = self.buffers.at(index) else {
            return false;
        };
        // Only RMBs over RNICs are announced to the peer, link by link.
        let by_links = buffer.kind == BufferKind::Rmb && buffer.ism.is_none();
        let announced = !by_links
            || buffer.agreement != Agreement::Confirmed
            || buffer.is_announced_on(self.active_links(buffer.group));
        let Some(group) = self.data.groups.at_mut(buffer.group) else {
            return false;
        };
        let usable = !buffer.retired
            && buffer.memory == Memory::Present
            && buffer.waiter.is_none()
            && !buffer.clean.is_empty()
            // A binding that is in flight is still one to the DMB of before.
            && buffer.ism.is_none_or(|ism| ism.is_free() && !buffer.is_busy())
            && match buffer.kind {
                BufferKind::Rmb => buffer.agreement == Agreement::Confirmed && announced,
                BufferKind::Send => true,
            };
        let size = usize::from(buffer.size.code());
        let kind = buffer.kind;
        let is_dmb = kind == BufferKind::Rmb && buffer.ism.is_some();
        if let Some(list) = group
            .spare
            .get_mut(buffer.kind as usize)
            .and_then(|l| l.get_mut(size))
        {
            if usable && is_dmb {
                // The one used last goes to the next connection, and the others become idle.
                list.push_front(&mut self.buffers, index);
            } else if usable {
                list.push_back(&mut self.buffers, index);
            } else {
                list.remove(&mut self.buffers, index);
            }
        }
        usable && kind == BufferKind::Rmb
    }

    /// Takes everything back that a connection holds of its group.
    pub(crate) fn leave_group(&mut self, conn: ConnIdx) {
        let Some(record) = self.data.connections.at_mut(conn) else {
            return;
        };
        let group = record.group;
        let rmb = core::mem::replace(&mut record.rmb, Element::NONE);
        let send = core::mem::replace(&mut record.send_buffer, Idx::NONE);
        let remote = record.leave_remote();
        record.group = Idx::NONE;
        self.stop_transmits(group, conn);
        let forgotten = self.give_up_element(group, remote);
        if !forgotten
            && remote.rmb.is_some()
            && let Some(g) = self.data.groups.at_mut(group)
        {
            // The peer may give it to the next connection: to be found first.
            g.remote_rmbs.remove(&mut self.remote_rmbs, remote.rmb);
            g.remote_rmbs.push_front(&mut self.remote_rmbs, remote.rmb);
        }
        if self.data.tap.is_on() {
            let conn = self.data.conn_id(conn);
            self.trace_group(group, || TraceEvent::GroupLeft { conn });
        }
        self.return_element(conn, rmb.buffer, rmb.index);
        self.return_element(conn, send, 1);
        let now = self.now();
        let timeouts = self.data.core.config.timeouts;
        if let Some(g) = self.data.groups.at_mut(group) {
            g.members.remove(&mut self.data.connections, conn);
            g.connection_count = g.connection_count.saturating_sub(1);
            //= LINK-030
            if g.connection_count == 0 && g.is_active() {
                //= D-050
                let idle = match g.role {
                    _ if g.ism_peer().is_some() => timeouts.group_idle_server,
                    Role::Server => timeouts.group_idle_server,
                    //= V2-216
                    Role::Client => timeouts.group_idle_client,
                };
                //= TIMER-030
                //= TIMER-031
                g.idle_deadline = Some(now.after(idle));
            }
            let deadline = g.next_deadline();
            self.set_group_deadline(group, deadline);
        }
        self.offer_group(group);
        self.wake_for_rmb(group);
        self.try_free_group(group);
    }

    /// Makes a connection's element free for another connection.
    fn return_element(&mut self, conn: ConnIdx, index: BufferIdx, element: u8) {
        //= RMB-021
        //= RMB-022
        self.release_element(conn, index, |buffer| buffer.return_element(element));
    }

    /// Takes the RMB element from a connection, without making it free for another one: the peer may
    /// write to it until the RMB is withdrawn.
    //= RMB-021
    pub(crate) fn lose_element(&mut self, conn: ConnIdx) {
        if let Some(record) = self.data.connections.at_mut(conn) {
            let rmb = core::mem::replace(&mut record.rmb, Element::NONE);
            self.release_element(conn, rmb.buffer, Buffer::lose_element);
        }
    }

    /// Ends a connection's use of an element, as `part` does in the buffer, and starts the idle timer
    /// of a buffer that no connection uses any more.
    fn release_element(&mut self, conn: ConnIdx, index: BufferIdx, part: impl FnOnce(&mut Buffer)) {
        let now = self.now();
        let idle = self.data.core.config.timeouts.rmb_idle;
        self.take_back_ism(conn, index);
        let Some(buffer) = self.buffers.at_mut(index) else {
            return;
        };
        part(buffer);
        if buffer.waiter == conn {
            buffer.waiter = Idx::NONE;
        }
        //= RMB-029
        if buffer.users == 0 {
            //= D-057
            let idle = match buffer.ism {
                Some(_) => idle.min(SPARE_DMB),
                None => idle,
            };
            let deadline = now.after(idle);
            self.set_buffer_deadline(index, Some(deadline));
        }
        if self.data.tap.is_on() {
            let conn = self.data.conn_id(conn);
            self.trace_buffer(index, || TraceEvent::ElementReleased { conn });
        }
        self.drop_absent_buffer(index);
        self.schedule_buffer(index);
        self.list_spare(index);
    }

    /// Removes a buffer whose memory is freed from all tables and lists.
    pub(crate) fn remove_buffer(&mut self, index: BufferIdx) {
        let Some(buffer) = self.buffers.at(index) else {
            return;
        };
        let (group, kind) = (buffer.group, buffer.kind);
        let size = usize::from(buffer.size.code());
        self.unlist_buffer(index);
        if let Some(g) = self.data.groups.at_mut(group) {
            if let Some(list) = g.spare.get_mut(kind as usize).and_then(|l| l.get_mut(size)) {
                list.remove(&mut self.buffers, index);
            }
            g.agreements.remove(&mut self.buffers, index);
            if g.addition.next_rmb == index {
                g.addition.next_rmb = g
                    .buffers
                    .next(&mut self.buffers, index)
                    .unwrap_or(Idx::NONE);
            }
            g.buffers.remove(&mut self.buffers, index);
            if kind == BufferKind::Rmb {
                g.rmb_count = g.rmb_count.saturating_sub(1);
            }
        }
        self.trace_buffer(index, || TraceEvent::BufferFreed);
        self.buffers.remove(index);
        if kind == BufferKind::Rmb {
            self.wake_for_rmb(group);
        }
        self.try_free_group(group);
    }
}

/// The event of a new link group.
pub(super) fn created(role: Role, terms: Terms) -> TraceEvent {
    TraceEvent::GroupCreated {
        side: role.into(),
        technology: terms.technology,
        version: terms.version,
    }
}
