//! Identities in LLC messages.

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{ConfirmRkey, DeleteRkey, Entries, LlcMessage};
use smc_proto::wire::types::{LinkNumber, RKey};

use super::Identities;
use crate::replay::message::Llc;

impl Identities {
    /// Pairs LLC messages of the same type on a link. Ours with the captured
    /// identities in it. What an answer repeats of its request is no identity of
    /// its sender, and stays.
    pub(in crate::replay) fn pair_llc(
        &mut self,
        link: LinkNumber,
        captured: &Llc,
        ours: &Llc,
    ) -> Llc {
        let mut paired = ours.clone();
        if let (LlcMessage::AddLink(add), Some(theirs), Some(own)) =
            (&captured.message, &captured.pairs, &mut paired.pairs)
        {
            for (pair, captured) in own.iter_mut().zip(theirs) {
                self.learn_rmb(add.link, captured.new, pair.new);
                pair.new = captured.new;
                if self.stands_for(link, captured.reference, pair.reference) {
                    pair.reference = captured.reference;
                }
            }
        }
        paired.message = self.pair_message(link, &captured.message, &ours.message);
        // A Linux answer to DELETE RKEY of version 2 does not contain the key (V2-166).
        if let (true, LlcMessage::DeleteRkey(theirs), LlcMessage::DeleteRkey(own)) = (
            ours.version == SmcVersion::V2,
            &captured.message,
            &mut paired.message,
        ) && own.reply
            && theirs.rkeys.iter().all(|rkey| rkey == RKey(0))
        {
            own.rkeys = theirs.rkeys;
        }
        paired
    }

    fn pair_message(
        &mut self,
        link: LinkNumber,
        captured: &LlcMessage<'static>,
        ours: &LlcMessage<'static>,
    ) -> LlcMessage<'static> {
        match (captured, ours) {
            (LlcMessage::ConfirmLink(theirs), LlcMessage::ConfirmLink(ours)) => {
                let mut message = *ours;
                message.qpn = theirs.qpn;
                message.user_id = theirs.user_id;
                LlcMessage::ConfirmLink(message)
            }
            (LlcMessage::AddLink(theirs), LlcMessage::AddLink(ours)) => {
                let mut message = *ours;
                if !ours.reply {
                    self.add_link = Some((*theirs, *ours));
                }
                if ours.rejection.is_some() {
                    // Linux repeats the request in its rejection.
                    message.mac = theirs.mac;
                    message.gid = theirs.gid;
                }
                message.qpn = theirs.qpn;
                message.psn = theirs.psn;
                LlcMessage::AddLink(message)
            }
            (LlcMessage::AddLinkContinuation(theirs), LlcMessage::AddLinkContinuation(ours)) => {
                let mut message = ours.clone();
                for (pair, captured) in message.pairs.iter_mut().zip(&theirs.pairs) {
                    self.learn_rmb(theirs.link, captured.new, pair.new);
                    pair.new = captured.new;
                    // The key in the captured message must stand for ours.
                    if self.stands_for(link, captured.reference, pair.reference) {
                        pair.reference = captured.reference;
                    }
                }
                LlcMessage::AddLinkContinuation(message)
            }
            (LlcMessage::ConfirmRkey(theirs), LlcMessage::ConfirmRkey(ours)) if !ours.reply => {
                LlcMessage::ConfirmRkey(self.pair_confirm_rkey(link, theirs, ours))
            }
            (LlcMessage::DeleteRkey(theirs), LlcMessage::DeleteRkey(ours)) if !ours.reply => {
                let mut rkeys: Vec<RKey> = ours.rkeys.iter().collect();
                for (rkey, captured) in rkeys.iter_mut().zip(theirs.rkeys) {
                    if self.stands_for(link, captured, *rkey) {
                        *rkey = captured;
                    }
                }
                LlcMessage::DeleteRkey(DeleteRkey {
                    rkeys: Entries::inline(rkeys),
                    ..*ours
                })
            }
            _ => ours.clone(),
        }
    }

    fn pair_confirm_rkey(
        &mut self,
        link: LinkNumber,
        theirs: &ConfirmRkey,
        ours: &ConfirmRkey,
    ) -> ConfirmRkey {
        let mut message = ours.clone();
        self.learn_rmb(link, theirs.rtoken, ours.rtoken);
        message.rtoken = theirs.rtoken;
        for (other, captured) in message.others.iter_mut().zip(&theirs.others) {
            if other.link == captured.link {
                self.learn_rmb(other.link, captured.rtoken, other.rtoken);
                other.rtoken = captured.rtoken;
            }
        }
        message
    }

    fn stands_for(&self, link: LinkNumber, captured: RKey, ours: RKey) -> bool {
        self.rmb(link, captured).map(|(_, own)| own.rkey) == Some(ours)
    }

    /// A captured answer, as it would be to our request.
    pub(in crate::replay) fn rewrite_reply(&self, link: LinkNumber, captured: &Llc) -> Llc {
        let mut message = captured.clone();
        match &mut message.message {
            LlcMessage::ConfirmRkey(reply) if reply.reply => {
                if let Some((_, ours)) = self.rmb(link, reply.rtoken.rkey) {
                    reply.rtoken = ours;
                }
                for other in &mut reply.others {
                    if let Some((_, ours)) = self.rmb(other.link, other.rtoken.rkey) {
                        other.rtoken = ours;
                    }
                }
            }
            LlcMessage::DeleteRkey(reply) if reply.reply => {
                let ours = |rkey| self.rmb(link, rkey).map_or(rkey, |(_, ours)| ours.rkey);
                reply.rkeys = Entries::inline(reply.rkeys.iter().map(ours));
            }
            // Linux repeats the request in its rejection.
            LlcMessage::AddLink(reply) if reply.rejection.is_some() => {
                if let Some((theirs, ours)) = self.add_link
                    && (reply.gid, reply.mac, reply.qpn) == (theirs.gid, theirs.mac, theirs.qpn)
                {
                    reply.qpn = ours.qpn;
                    reply.psn = ours.psn;
                }
            }
            _ => {}
        }
        message
    }
}
