//! The peer's RMBs, as it announces and withdraws them.

use super::super::super::{IncomingRkey, Link, LinkSet, LinkState, Role, remote_rmb};
use super::super::Flow;
use crate::id::{GroupIdx, LinkIdx, RemoteRmbIdx};
use crate::link_group::Groups;
use crate::version::SmcVersion;
use crate::wire::llc::{
    ConfirmRkey, ConfirmRkeyContinuation, DeleteRkey, Entries, LinkRToken, LlcMessage, RkeyFlags,
};
use crate::wire::types::RToken;

impl Groups<'_> {
    /// The peer announces an RMB.
    //= LLC-063
    //= LLCSER-005
    //= V2-186
    pub(in super::super) fn on_confirm_rkey(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        mut message: ConfirmRkey,
    ) {
        message.reply = true;
        // It begins anew, whatever becomes of it.
        if let Some(g) = self.data.groups.at_mut(group) {
            g.incoming_rkey = None;
        }
        if self.links_change(group) {
            //= LLCSER-012
            //= LLCSER-015
            //= LLCSER-023
            message.flags |= RkeyFlags::NEGATIVE | RkeyFlags::RETRY;
            self.reply(link, &LlcMessage::ConfirmRkey(message));
            return;
        }
        let position = self.link(link).map_or(0, |l| l.position);
        let known = self.links_known_to_peer(group);
        //= RMB-031
        let rmb = self
            .learned_before(group, link, &message)
            .or_else(|| self.learn_rtoken(group, position, message.rtoken))
            .filter(|rmb| !self.is_moved(group, link, *rmb, &message.others));
        let left = message
            .other_links
            .saturating_sub(u8::try_from(message.others.len()).unwrap_or(0));
        if let Some(rmb) = rmb {
            if let Some(remote) = self.remote_rmbs.at_mut(rmb) {
                remote.set_rtoken(position, message.rtoken);
            }
            self.learn_entries(group, link, rmb, &message.others);
            let incoming = IncomingRkey {
                rmb,
                via_link: link,
                left,
                known,
            };
            if let Some(g) = self.data.groups.at_mut(group) {
                g.incoming_rkey = (left > 0).then_some(incoming);
            }
        } else {
            message.flags |= RkeyFlags::NEGATIVE;
        }
        self.reply(link, &LlcMessage::ConfirmRkey(message));
        if let Some(rmb) = rmb
            && left == 0
        {
            self.on_rmb_announced(group, rmb, known);
        }
    }

    //= LLC-063
    pub(in super::super) fn on_confirm_rkey_continuation(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        mut message: ConfirmRkeyContinuation,
    ) {
        message.reply = true;
        let incoming = self.data.groups.at(group).and_then(|g| g.incoming_rkey);
        let fits = |i: &IncomingRkey| {
            i.via_link == link
                && i.left >= message.remaining
                && !self.is_moved(group, link, i.rmb, &message.others)
        };
        let Some(incoming) = incoming.filter(fits) else {
            //= LLC-065
            if let Some(g) = self.data.groups.at_mut(group)
                && incoming.is_some_and(|i| i.via_link == link)
            {
                g.incoming_rkey = None;
            }
            message.flags |= RkeyFlags::NEGATIVE;
            self.reply(link, &LlcMessage::ConfirmRkeyContinuation(message));
            return;
        };
        self.learn_entries(group, link, incoming.rmb, &message.others);
        let left = message
            .remaining
            .saturating_sub(u8::try_from(message.others.len()).unwrap_or(0));
        if let Some(g) = self.data.groups.at_mut(group) {
            g.incoming_rkey = (left > 0).then_some(IncomingRkey { left, ..incoming });
        }
        self.reply(link, &LlcMessage::ConfirmRkeyContinuation(message));
        if left == 0 {
            self.on_rmb_announced(group, incoming.rmb, incoming.known);
        }
    }

    /// Whether the links of a group are being changed as its server sees it. In version
    /// 2 that is no reason to refuse a key: the peer would take it for the last message,
    /// and it announces all its RMBs when it takes the link.
    //= V2-187
    fn links_change(&self, group: GroupIdx) -> bool {
        self.data.groups.at(group).is_some_and(|g| {
            g.role == Role::Server
                && !g.terms.is_v2()
                && (g.addition.is_shared() || matches!(g.flow, Flow::DeleteLink { .. }))
        })
    }

    /// Stores what CONFIRM RKEY says of other links than the one that carries it; of
    /// unknown ones nothing can be kept.
    fn learn_entries(
        &mut self,
        group: GroupIdx,
        via_link: LinkIdx,
        rmb: RemoteRmbIdx,
        entries: &[LinkRToken],
    ) {
        for entry in entries {
            if let Some(position) = self.entry_position(group, via_link, entry)
                && let Some(rmb) = self.remote_rmbs.at_mut(rmb)
            {
                rmb.set_rtoken(position, entry.rtoken);
            }
        }
    }

    /// Whether an announcement contradicts what connections go by that write to this RMB:
    /// their bytes would go to a wrong address on the link of such an entry.
    //= RMB-010
    fn is_moved(
        &self,
        group: GroupIdx,
        via_link: LinkIdx,
        rmb: RemoteRmbIdx,
        entries: &[LinkRToken],
    ) -> bool {
        let Some(rmb) = self.remote_rmbs.at(rmb) else {
            return false;
        };
        entries.iter().any(|entry| {
            self.entry_position(group, via_link, entry)
                .is_some_and(|position| rmb.is_moved_by(position, entry.rtoken))
        })
    }

    /// Position of the link that an entry is for, if it is a known one and another
    /// than the one that carries the message. One that is being added counts: the
    /// client uses it when it has answered CONFIRM LINK, and what it announces then on
    /// another link may overtake that answer. It is not announced again.
    //= RMB-010
    fn entry_position(&self, group: GroupIdx, via_link: LinkIdx, entry: &LinkRToken) -> Option<u8> {
        let concerned = |l: &Link| l.is_known() || l.link_state == LinkState::Adding;
        self.select_links(group, |l| l.number == entry.link && concerned(l))
            .find(|(index, _)| *index != via_link)
            .map(|(_, l)| l.position)
    }

    /// The RMB of an announcement, if it has no RToken yet on the link that carries it,
    /// but is known on one that an entry names. The peer repeats it when it did not
    /// get the reply to the first one, because the link failed that carried that; as
    /// an RMB of its own it would leave those who know the first one on one link only.
    //= LLC-080
    fn learned_before(
        &mut self,
        group: GroupIdx,
        via_link: LinkIdx,
        message: &ConfirmRkey,
    ) -> Option<RemoteRmbIdx> {
        let over = self.link(via_link)?.position;
        let list = self.data.groups.at(group)?.remote_rmbs;
        let known = |groups: &mut Self, position, rtoken: RToken| {
            let (pool, steps) = (&mut groups.remote_rmbs, &mut groups.data.core.steps);
            let rmb = remote_rmb::find(pool, &list, position, rtoken, steps);
            (rmb.is_some()).then_some(rmb)
        };
        if known(self, over, message.rtoken).is_some() {
            return None;
        }
        for entry in &message.others {
            let Some(position) = self.entry_position(group, via_link, entry) else {
                continue;
            };
            if let Some(rmb) = known(self, position, entry.rtoken)
                && self.remote_rmbs.at(rmb)?.rtoken(over).is_none()
            {
                return Some(rmb);
            }
        }
        None
    }

    /// Links of which the peer knew for certain when it wrote what arrives now.
    /// Links do not keep the order among them: what it wrote on one before it learned
    /// of a new link may arrive after the new link is in use.
    //= LLC-066
    fn links_known_to_peer(&self, group: GroupIdx) -> LinkSet {
        let now = self.now();
        let mut known = LinkSet::EMPTY;
        for (_, link) in self.select_links(group, |l| l.is_active() && l.new_until <= now) {
            known.insert(link.position);
        }
        known
    }

    /// An announcement is complete: a link the peer knew of and did not name is one
    /// it does not have any more. Newer links it will announce by itself.
    //= LLC-069
    fn on_rmb_announced(&mut self, group: GroupIdx, rmb: RemoteRmbIdx, known: LinkSet) {
        let known = known.and(self.links_known_to_peer(group));
        let listed = self
            .remote_rmbs
            .at(rmb)
            .map_or(LinkSet::EMPTY, |rmb| rmb.links());
        for index in self.links_of(group) {
            let omitted = self
                .link(index)
                .is_some_and(|l| known.contains(l.position) && !listed.contains(l.position));
            if omitted {
                self.lose_link(index);
            }
        }
    }

    /// The peer withdraws RMBs, in the form of `form`. The answer repeats as many keys as 44
    /// bytes have room for, which in version 1 are all.
    //= LLC-071
    //= LLC-073
    //= V2-160
    pub(in super::super) fn on_delete_rkey(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        message: &DeleteRkey<'_>,
        form: SmcVersion,
    ) {
        let position = self.link(link).map_or(0, |l| l.position);
        let (mut mask, mut bit, mut unknown) = (0u8, 0x80u8, 0u8);
        for rkey in message.rkeys.iter() {
            self.step();
            if !self.forget_rkey(group, position, rkey) {
                mask |= bit;
                unknown = unknown.saturating_add(1);
            }
            bit >>= 1;
        }
        let (echoed, unknown_rkeys) = match (form, self.version_on(link)) {
            (SmcVersion::V1, SmcVersion::V1) => (message.flags, mask),
            // A mask means nothing in the form that this peer gets.
            (SmcVersion::V1, SmcVersion::V2) => (message.flags, 0),
            (SmcVersion::V2, _) => (RkeyFlags::empty(), unknown),
        };
        let refused = match unknown {
            0 => RkeyFlags::empty(),
            _ => RkeyFlags::NEGATIVE,
        };
        let answer = LlcMessage::DeleteRkey(DeleteRkey {
            reply: true,
            flags: echoed | refused,
            unknown: unknown_rkeys,
            rkeys: Entries::inline(message.rkeys),
        });
        self.reply(link, &answer);
    }
}
