//! The LLC messages of a replay.

use smc_proto::wire::llc::{AddLink, DeleteLink, DeleteLinkFlags, LlcMessage, kind};
use smc_proto::wire::types::{AddLinkRejectReason, LinkNumber, RKey};

use super::script::{End, Step};
use super::session::Session;
use super::{Deviation, Rmbs};

impl Session<'_> {
    /// An LLC message of our end; one answer is given here.
    pub(super) fn on_own_llc(&mut self, message: LlcMessage) -> Result<(), String> {
        if let LlcMessage::DeleteLink(request) = &message
            && !request.reply
            && !request.flags.contains(DeleteLinkFlags::ALL)
        {
            // The capture cannot answer: there the second link stayed.
            if self.setup.ours != End::Server || request.link != LinkNumber(2) {
                return Err("our end deletes its only link".into());
            }
            self.deviate(Deviation::SecondLinkUndone);
            self.counts.made += 1;
            let reply = LlcMessage::DeleteLink(DeleteLink {
                reply: true,
                ..*request
            });
            self.host.receive(&reply.emit())?;
            return Ok(());
        }
        self.llc.push_back(message);
        Ok(())
    }

    /// The captured end sent an LLC message: ours must have, too.
    pub(super) fn own_llc(
        &mut self,
        captured: &LlcMessage,
        elsewhere: bool,
        step: &Step,
    ) -> Result<(), String> {
        if elsewhere {
            self.note_foreign(captured, self.setup.ours);
            self.deviate(Deviation::OtherLink);
            return Ok(());
        }
        let kind = captured.kind();
        match captured {
            LlcMessage::AddLinkContinuation(_) => {
                self.deviate(Deviation::OtherLink);
                return Ok(());
            }
            LlcMessage::AddLink(reply) if reply.reply && reply.rejection.is_none() => {
                return self.own_rejection(reply);
            }
            LlcMessage::DeleteLink(request) => return self.own_deletion(request),
            LlcMessage::ConfirmRkey(request) if !request.reply => {
                self.foreign.remove(&(self.setup.ours, request.rtoken.rkey));
            }
            LlcMessage::DeleteRkey(message) => {
                let owner = if message.reply {
                    self.setup.ours.other()
                } else {
                    self.setup.ours
                };
                if let Some(rkey) = message.rkeys.first()
                    && self.foreign.contains(&(owner, *rkey))
                {
                    self.deviate(Deviation::OtherLink);
                    if !message.reply {
                        self.unasked.insert((kind, *rkey), Deviation::OtherLink);
                    }
                    return Ok(());
                }
            }
            _ => {}
        }
        let Some(ours) = self.take_own(captured) else {
            return self.own_missing(captured);
        };
        self.host.check_llc(&ours)?;
        let mut paired = self.identities.pair_llc(captured, &ours);
        if let (LlcMessage::ConfirmRkey(paired), LlcMessage::ConfirmRkey(captured)) =
            (&mut paired, captured)
            && !captured.reply
            && captured.other_links > 0
        {
            // Tokens of the same RMB on the link that our group does not have.
            paired.other_links = captured.other_links;
            paired.others = captured.others.clone();
            self.deviate(Deviation::OtherLink);
        }
        if paired.emit()[..] != step.octets[..] {
            return Err(format!("ours is {ours}"));
        }
        self.counts.llc_equal += 1;
        Ok(())
    }

    /// Our message of the same type. Withdrawing an RMB and answering the other
    /// end do not wait for each other, so these two may come in either order.
    fn take_own(&mut self, captured: &LlcMessage) -> Option<LlcMessage> {
        let alike =
            |m: &LlcMessage| m.kind() == captured.kind() && m.is_reply() == captured.is_reply();
        let index = self.llc.iter().position(alike)?;
        let withdrawal = |m: &LlcMessage| m.kind() == kind::DELETE_RKEY;
        let in_order = self
            .llc
            .iter()
            .take(index)
            .all(|m| withdrawal(m) && m.is_reply() != captured.is_reply());
        if !in_order {
            return None;
        }
        self.llc.remove(index)
    }

    /// Our end did not send what the captured one did.
    fn own_missing(&mut self, captured: &LlcMessage) -> Result<(), String> {
        if self.host.carrier.is_none() {
            self.deviate(Deviation::AfterEnd);
            return Ok(());
        }
        let rkey = match captured {
            LlcMessage::ConfirmRkey(request) if !request.reply => Some(request.rtoken.rkey),
            LlcMessage::DeleteRkey(request) if !request.reply => request.rkeys.first().copied(),
            _ => None,
        };
        match rkey {
            Some(rkey) if self.setup.rmbs == Rmbs::Kept => {
                let why = Deviation::RmbKept;
                self.unasked.insert((captured.kind(), rkey), why);
                self.deviate(why);
                Ok(())
            }
            _ => Err("our end sends no such LLC message here".into()),
        }
    }

    /// The captured client took the second link, which ours must reject.
    fn own_rejection(&mut self, captured: &AddLink) -> Result<(), String> {
        let taken = self.take_own(&LlcMessage::AddLink(*captured));
        match taken {
            Some(LlcMessage::AddLink(ours))
                if ours.rejection == Some(AddLinkRejectReason::NO_ALTERNATE_PATH)
                    && ours.link == captured.link =>
            {
                self.deviate(Deviation::SecondLinkRejected);
                Ok(())
            }
            other => Err(format!("instead of a rejection, ours is {other:?}")),
        }
    }

    /// The captured end deleted all links.
    fn own_deletion(&mut self, captured: &DeleteLink) -> Result<(), String> {
        if captured.reply || !captured.flags.contains(DeleteLinkFlags::ALL) {
            return Err("only the deletion of all links is replayed".into());
        }
        if self.setup.ours == End::Client {
            if self.host.carrier.is_some() {
                return Err("our end still has its link".into());
            }
            self.deviate(Deviation::DeletionNotEchoed);
            return Ok(());
        }
        if !self.group_down {
            self.delete_group()?;
        }
        match self.take_own(&LlcMessage::DeleteLink(*captured)) {
            Some(LlcMessage::DeleteLink(ours))
                if ours.flags.contains(DeleteLinkFlags::ALL) && ours.link == captured.link =>
            {
                self.deviate(Deviation::GroupDeletion);
                Ok(())
            }
            other => Err(format!("ours is {other:?}")),
        }
    }

    /// The other end sent an LLC message.
    pub(super) fn feed_llc(&mut self, message: &LlcMessage, elsewhere: bool) -> Result<(), String> {
        let theirs = self.setup.ours.other();
        if elsewhere {
            self.note_foreign(message, theirs);
            self.deviate(Deviation::OtherLink);
            return Ok(());
        }
        match message {
            LlcMessage::AddLinkContinuation(_) => {
                self.deviate(Deviation::OtherLink);
                return Ok(());
            }
            LlcMessage::ConfirmRkey(m) if !m.reply => {
                self.foreign.remove(&(theirs, m.rtoken.rkey));
            }
            LlcMessage::ConfirmRkey(m) if self.is_unasked(message, Some(m.rtoken.rkey)) => {
                return Ok(());
            }
            LlcMessage::DeleteRkey(m)
                if m.reply && self.is_unasked(message, m.rkeys.first().copied()) =>
            {
                return Ok(());
            }
            LlcMessage::DeleteRkey(m) if !m.reply => {
                if let Some(rkey) = m.rkeys.first()
                    && self.foreign.contains(&(theirs, *rkey))
                {
                    self.deviate(Deviation::OtherLink);
                    return Ok(());
                }
            }
            _ => {}
        }
        let octets = self.identities.rewrite_reply(message).emit();
        if self.host.receive(&octets)? {
            self.counts.llc_fed += 1;
        } else {
            self.deviate(Deviation::AfterEnd);
        }
        Ok(())
    }

    /// Whether a message answers a request that our end did not make.
    fn is_unasked(&mut self, reply: &LlcMessage, rkey: Option<RKey>) -> bool {
        let why = rkey.and_then(|rkey| self.unasked.remove(&(reply.kind(), rkey)));
        if let Some(why) = why {
            self.deviate(why);
        }
        why.is_some()
    }

    /// An RMB is announced on a link that our group does not have.
    fn note_foreign(&mut self, message: &LlcMessage, owner: End) {
        if let LlcMessage::ConfirmRkey(request) = message
            && !request.reply
        {
            self.foreign.insert((owner, request.rtoken.rkey));
            for other in &request.others {
                self.foreign.insert((owner, other.rtoken.rkey));
            }
        }
    }
}
