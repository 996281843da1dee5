//! ADD LINK CONTINUATION: the RTokens of all RMBs on the new link, two per
//! message, from both sides alternately.

use super::{AddingStage, Addition};
use crate::command::BufferKind;
use crate::config::{CONTINUATION_ROUNDS, RMBS_PER_GROUP};
use crate::id::{BufferIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::link_group::{Flow, remote_rmb};
use crate::wire::llc::{AddLinkContinuation, LlcMessage, RTokenPair};
use crate::wire::types::{BoundedList, RKey};

impl Groups<'_> {
    /// Server: the new link is bound, the exchange of RTokens starts.
    //= LLC-032
    //= LLC-033
    //= V2-185
    pub(super) fn start_continuations(&mut self, group: GroupIdx) {
        if self.is_v2(group) {
            // ADD LINK announced everything.
            self.send_added_confirm_link(group);
            return;
        }
        self.count_own_rmbs(group);
        self.send_continuation(group);
    }

    /// Counts the RMBs that the peer knows on the link of the exchange (LLC-040). From here on none
    /// comes or goes: CONFIRM RKEY and DELETE RKEY of this side wait for the end of the
    /// addition, but for one that crossed ADD LINK.
    //= LLC-040
    pub(super) fn count_own_rmbs(&mut self, group: GroupIdx) {
        let first = self.data.groups.at(group).and_then(|g| g.buffers.first());
        let via_link = self.addition(group).via_link;
        let mut left = 0u8;
        self.each_buffer(group, |groups, index| {
            if groups.is_announced_rmb(group, index, via_link) {
                left = left.saturating_add(1);
            }
        });
        let addition = Addition {
            next_rmb: first.unwrap_or(Idx::NONE),
            left,
            ..self.addition(group)
        };
        self.set_addition(group, addition);
    }

    /// Whether a buffer is an RMB that the peer knows by its key on this link, and that
    /// is not being withdrawn.
    //= RMB-010
    pub(in super::super) fn is_announced_rmb(
        &self,
        group: GroupIdx,
        index: BufferIdx,
        link: LinkIdx,
    ) -> bool {
        let withdrawn =
            self.data.groups.at(group).is_some_and(
                |g| matches!(g.flow, Flow::DeleteRkey { buffer, .. } if buffer == index),
            );
        let (Some(b), Some(l)) = (self.buffers.at(index), self.link(link)) else {
            return false;
        };
        b.kind == BufferKind::Rmb && b.announced.contains(l.position) && !b.retired && !withdrawn
    }

    /// The next message of this side, with up to two of its RMBs; `None` if one that was
    /// counted is gone, so that no message could be true.
    //= LLC-034
    //= LLC-035
    //= LLC-036
    //= LLC-038
    //= LLC-039
    fn next_continuation(&mut self, group: GroupIdx, reply: bool) -> Option<LlcMessage<'static>> {
        let mut addition = self.addition(group);
        let over = addition.via_link;
        let via_link = self.link(over)?.position;
        let (position, number) = self.link(addition.link).map(|l| (l.position, l.number))?;
        let list = self.data.groups.at(group)?.buffers;
        let remaining = addition.left;
        let mut pairs = BoundedList::new();
        while addition.left > 0 && !pairs.is_full() {
            let index = addition.next_rmb;
            if index.is_none() {
                return None;
            }
            self.step();
            addition.next_rmb = list.next(&mut self.buffers, index).unwrap_or(Idx::NONE);
            if !self.is_announced_rmb(group, index, over) {
                continue;
            }
            let buffer = self.buffers.at_mut(index)?;
            let (reference, new) = (buffer.rtoken(via_link)?, buffer.rtoken(position)?);
            let reference = reference.rkey;
            let _ = pairs.push(RTokenPair { reference, new });
            buffer.announced.insert(position);
            addition.left = addition.left.saturating_sub(1);
        }
        self.set_addition(group, addition);
        Some(LlcMessage::AddLinkContinuation(AddLinkContinuation {
            reply,
            link: number,
            remaining,
            pairs,
        }))
    }

    fn send_continuation(&mut self, group: GroupIdx) {
        let Some(message) = self.next_continuation(group, false) else {
            //= LLC-041
            return self.abandon_addition(group, true);
        };
        let via_link = self.addition(group).via_link;
        let stage = AddingStage::AwaitingContinuationReply;
        self.request_for_addition(group, stage, via_link, &message);
    }

    /// A CONTINUATION of the peer.
    //= LLC-037
    //= LLC-041
    pub(in super::super) fn on_continuation(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        message: &AddLinkContinuation,
    ) {
        let addition = self.addition(group);
        let server = self.is_server(group);
        let number = self.link(addition.link).map(|l| l.number);
        let due = match addition.stage {
            AddingStage::AwaitingContinuationReply => server && message.reply,
            AddingStage::AwaitingContinuation | AddingStage::AwaitingConfirmLink => {
                !server && !message.reply
            }
            _ => false,
        };
        if !due || link != addition.via_link || number != Some(message.link) {
            // A reply may come after its time (AMB-38); a request only if it
            // crossed the DELETE LINK for the new link (reliability G7).
            let deleted = self
                .select_links(group, |l| l.number == message.link)
                .any(|(_, l)| l.link_state.removal().is_some());
            if !message.reply && !deleted {
                self.violation(link);
            }
            return;
        }
        // Two less with each message, or one by a peer that fills but one pair; a
        // count that stays the same would never end (reliability D7).
        let stuck = addition
            .peer_left
            .is_some_and(|left| message.remaining > 0 && message.remaining >= left);
        if stuck || addition.rounds >= CONTINUATION_ROUNDS {
            self.abandon_addition(group, true);
            return;
        }
        self.learn_pairs(group, message.pairs.iter().copied());
        let peer_left = message.remaining.saturating_sub(2);
        self.set_addition(
            group,
            Addition {
                peer_left: Some(message.remaining),
                rounds: addition.rounds.saturating_add(1),
                ..addition
            },
        );
        if server {
            if addition.left == 0 && peer_left == 0 {
                self.send_added_confirm_link(group);
            } else {
                self.send_continuation(group);
            }
            return;
        }
        // Counted anew: an RMB whose exchange had crossed ADD LINK may be known by now, or
        // gone.
        if addition.rounds == 0 {
            self.count_own_rmbs(group);
        }
        let Some(reply) = self.next_continuation(group, true) else {
            //= LLC-041
            return self.abandon_addition(group, true);
        };
        let done = self.addition(group).left == 0 && peer_left == 0;
        let timeouts = self.data.core.config.timeouts;
        if done {
            self.set_adding_stage(group, AddingStage::AwaitingConfirmLink, timeouts.added_link);
        } else {
            self.set_adding_stage(group, AddingStage::AwaitingContinuation, timeouts.llc_reply);
        }
        self.reply(addition.via_link, &reply);
    }

    /// Stores the peer's RTokens for the new link. An RMB that is not known (yet)
    /// is passed over: its CONFIRM RKEY will name all links.
    //= RMB-009
    pub(super) fn learn_pairs(&mut self, group: GroupIdx, pairs: impl Iterator<Item = RTokenPair>) {
        let addition = self.addition(group);
        let position = |link| self.link(link).map(|l| l.position);
        let (Some(via_link), Some(new)) = (position(addition.via_link), position(addition.link))
        else {
            return;
        };
        // A message of version 2 has room for more than a group has RMBs.
        for pair in pairs.take(usize::from(RMBS_PER_GROUP)) {
            let Some(g) = self.data.groups.at(group) else {
                return;
            };
            // What is left of the last message is zero.
            if pair.reference == RKey(0) && pair.new.rkey == RKey(0) {
                continue;
            }
            // Of two RMBs with one key nothing says which is meant. They stay on the
            // links that they are known on.
            let known = remote_rmb::find_only(
                &mut self.remote_rmbs,
                &g.remote_rmbs,
                via_link,
                pair.reference,
                &mut self.data.core.steps,
            );
            if let Some(rmb) = known.and_then(|rmb| self.remote_rmbs.at_mut(rmb)) {
                rmb.set_rtoken(new, pair.new);
            }
        }
    }
}
