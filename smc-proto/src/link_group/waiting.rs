//! What link groups do for connections in rendezvous: wake them, find them another link, keep
//! what a Confirm on its way may name.
//!
//! The progress of a rendezvous is in its [`Contact`](crate::connection_record::Contact); what
//! it decides is not the business of link groups.

use super::LinkGroup;
use crate::command::QpAddress;
use crate::connection_record::{ContactStep, Phase};
use crate::id::{BufferIdx, ConnIdx, GroupIdx, Idx, LinkIdx, RemoteRmbIdx};
use crate::link_group::Groups;

/// A link that left its group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FormerLink {
    /// The peer's end of it.
    pub(crate) peer: QpAddress,
    /// Position of the link, by which RTokens are kept until another link takes the position.
    pub(crate) position: u8,
}

/// The links that left a group last, the newest first, and how many did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormerLinks {
    count: u32,
    last: [Option<FormerLink>; 2],
}

impl FormerLinks {
    pub(crate) const NONE: Self = Self {
        count: 0,
        last: [None; 2],
    };

    /// How many links left.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    fn push(&mut self, link: FormerLink) {
        let [newest, _] = self.last;
        self.last = [Some(link), newest];
        self.count = self.count.wrapping_add(1);
    }

    /// The links that left since so many had left, the newest first: two at most.
    pub(crate) fn since(&self, count: u32) -> impl Iterator<Item = FormerLink> + use<> {
        let new = usize::try_from(self.count.wrapping_sub(count)).unwrap_or(usize::MAX);
        self.last.into_iter().take(new).flatten()
    }
}

impl Groups<'_> {
    /// Takes a connection out of the queue of the group it waits for.
    pub(crate) fn unqueue(&mut self, conn: ConnIdx) {
        let Some(record) = self.data.connections.at_mut(conn) else {
            return;
        };
        let group = core::mem::replace(&mut record.contact.queued_on, Idx::NONE);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.queued.remove(&mut self.data.connections, conn);
        } else {
            debug_assert!(group.is_none(), "a group that is waited for is not freed");
        }
    }

    /// A group is formed, or ends: connections that waited for it go on.
    pub(super) fn wake_queued(&mut self, group: GroupIdx) {
        while let Some(conn) = self.data.groups.at(group).and_then(|g| g.queued.first()) {
            self.unqueue(conn);
            self.data.wake(conn);
        }
    }

    /// The links of a group changed, or what the peer knows of its RMBs: rendezvous check
    /// whether they can go on.
    pub(crate) fn wake_rendezvous(&mut self, group: GroupIdx) {
        // The first contact does not wait for further links.
        if self.data.groups.at(group).is_some_and(|g| g.is_active()) {
            self.each_member(group, |groups, conn| groups.data.wake(conn));
        }
    }

    /// The peer does not want this RMB on one of the links: the rendezvous that waits for it to
    /// be known on all of them is declined.
    //= RENDEZVOUS-056
    pub(super) fn mark_unwanted(&mut self, conn: ConnIdx, buffer: BufferIdx) {
        if let Some(record) = self.data.connections.at_mut(conn)
            && record.rmb.buffer == buffer
            && record.contact.step == ContactStep::Preparing
        {
            record.contact.unwanted = true;
            self.data.wake(conn);
        }
    }

    /// A link leaves its group: rendezvous whose Confirm is on its way may name it. Whether
    /// there are any.
    pub(super) fn remember_link(&mut self, link: LinkIdx) -> bool {
        let Some((group, peer, position)) = self
            .link(link)
            .and_then(|l| Some((l.group, l.peer?, l.position)))
        else {
            return false;
        };
        if let Some(smcr) = self.data.groups.at_mut(group).and_then(LinkGroup::smcr_mut) {
            smcr.former.push(FormerLink { peer, position });
        }
        let awaits_confirm = |groups: &mut Self, conn| {
            let record = groups.conn(conn);
            record.is_some_and(|record| record.contact.step == ContactStep::AwaitingConfirm)
        };
        self.find_member(group, awaits_confirm).is_some()
    }

    /// Whether a Confirm on its way may name a link that was at this position.
    pub(super) fn is_remembered(&mut self, group: GroupIdx, position: u8) -> bool {
        let smcr = self.data.groups.at(group).and_then(LinkGroup::smcr);
        let Some(former) = smcr.map(|smcr| smcr.former) else {
            return false;
        };
        let remembers = |groups: &mut Self, conn| {
            groups.conn(conn).is_some_and(|record| {
                record.contact.step == ContactStep::AwaitingConfirm
                    && former
                        .since(record.contact.links_left)
                        .any(|link| link.position == position)
            })
        };
        self.find_member(group, remembers).is_some()
    }

    /// A link leaves: rendezvous on it have nothing in flight there, and must not
    /// name it to the peer any more.
    //= CLC-057
    //= RENDEZVOUS-046
    pub(crate) fn move_handshakes(&mut self, link: LinkIdx) {
        let Some(group) = self.link(link).map(|l| l.group) else {
            return;
        };
        self.each_member(group, |groups, conn| {
            let concerned = groups
                .conn(conn)
                .is_some_and(|r| r.link == link && matches!(r.phase, Phase::Rendezvous(_)));
            if concerned {
                groups.move_handshake(conn);
            }
        });
    }

    /// Another link for a rendezvous; if its message is due, one that it can name.
    pub(crate) fn move_handshake(&mut self, conn: ConnIdx) {
        let Some(record) = self.conn(conn) else {
            return;
        };
        let group = record.group;
        let target = if record.contact.step == ContactStep::MessageDue {
            let rmb = self.remote_rmb_of(conn);
            let buffers = [record.rmb.buffer, record.send_buffer];
            self.link_for_connection(group, rmb, &buffers)
        } else {
            self.link_for_connection(group, Idx::NONE, &[])
        };
        self.assign_link(target, conn);
        self.data.wake(conn);
    }

    /// The peer's RMB that a rendezvous is about, if it is known and still there.
    pub(crate) fn remote_rmb_of(&self, conn: ConnIdx) -> RemoteRmbIdx {
        self.conn(conn)
            .and_then(|record| record.contact.remote_rmb)
            .filter(|(rmb, generation)| self.remote_rmbs.is_live(*rmb, *generation))
            .map_or(Idx::NONE, |(rmb, _)| rmb)
    }
}
