//! The LLC messages of a replay.

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use smc_proto::wire::types::{LinkNumber, RKey};

use super::message::Llc;
use super::script::{End, Step};
use super::session::Session;
use super::{Deviation, Rmbs};

impl Session<'_> {
    /// The captured end sent an LLC message: ours must have, too, on that link.
    pub(super) fn own_llc(
        &mut self,
        link: LinkNumber,
        captured: &Llc,
        step: &Step,
    ) -> Result<(), String> {
        if let LlcMessage::DeleteLink(request) = &captured.message {
            return self.own_deletion(link, request, captured.version);
        }
        let Some(ours) = self.take_own(link, captured) else {
            return self.own_missing(link, &captured.message);
        };
        self.host.check_llc(link, &ours)?;
        let paired = self.identities.pair_llc(link, captured, &ours);
        let expected = match captured.version {
            SmcVersion::V1 => step.bytes.clone(),
            SmcVersion::V2 => captured.emit(),
        };
        if paired.emit() != expected {
            return Err(format!("ours is {ours}"));
        }
        self.counts.llc_equal += 1;
        Ok(())
    }

    /// Our message of the same type on this link. Links do not wait for each
    /// other; nor do, on one link, withdrawing an RMB and answering the other end,
    /// so these two may come in either order.
    fn take_own(&mut self, link: LinkNumber, captured: &Llc) -> Option<Llc> {
        let (version, captured) = (captured.version, &captured.message);
        let alike = |(on, m): &(LinkNumber, Llc)| {
            let same = m.version == version;
            let m = &m.message;
            same && *on == link
                && m.kind(version) == captured.kind(version)
                && m.is_reply() == captured.is_reply()
        };
        let index = self.llc.iter().position(alike)?;
        let withdrawal = |m: &LlcMessage<'_>| matches!(m, LlcMessage::DeleteRkey(_));
        let in_order = self
            .llc
            .iter()
            .take(index)
            .filter(|(on, _)| *on == link)
            .all(|(_, m)| withdrawal(&m.message) && m.message.is_reply() != captured.is_reply());
        if !in_order {
            return None;
        }
        self.llc.remove(index).map(|(_, message)| message)
    }

    /// Our end did not send what the captured one did.
    fn own_missing(&mut self, link: LinkNumber, captured: &LlcMessage<'_>) -> Result<(), String> {
        if self.host.is_cut_off() {
            self.deviate(Deviation::AfterEnd);
            return Ok(());
        }
        let rkey = match captured {
            LlcMessage::ConfirmRkey(request) if !request.reply => Some(request.rtoken.rkey),
            LlcMessage::DeleteRkey(request) if !request.reply => request.rkeys.first(),
            _ => None,
        };
        match rkey {
            Some(rkey) if self.setup.rmbs == Rmbs::Kept => {
                self.unasked
                    .insert((captured.kind(SmcVersion::V1), link, rkey));
                self.deviate(Deviation::RmbKept);
                Ok(())
            }
            _ => Err("our end sends no such LLC message here".into()),
        }
    }

    /// The captured end deleted all links.
    fn own_deletion(
        &mut self,
        link: LinkNumber,
        captured: &DeleteLink,
        version: SmcVersion,
    ) -> Result<(), String> {
        if captured.reply || !captured.flags.contains(DeleteLinkFlags::ALL) {
            return Err("only the deletion of all links is replayed".into());
        }
        if self.setup.ours == End::Client {
            if !self.host.is_cut_off() {
                return Err("our end still has a link".into());
            }
            self.deviate(Deviation::DeletionNotEchoed);
            return Ok(());
        }
        if !self.group_down {
            self.delete_group()?;
        }
        let like = Llc {
            message: LlcMessage::DeleteLink(*captured),
            version,
            pairs: None,
            direct: false,
        };
        match self.take_own(link, &like).map(|ours| ours.message) {
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
    pub(super) fn feed_llc(
        &mut self,
        link: LinkNumber,
        message: &Llc,
        step: &Step,
    ) -> Result<(), String> {
        let rkey = match &message.message {
            LlcMessage::ConfirmRkey(m) if m.reply => Some(m.rtoken.rkey),
            LlcMessage::DeleteRkey(m) if m.reply => m.rkeys.first(),
            _ => None,
        };
        if rkey.is_some_and(|rkey| self.is_unasked(link, message, rkey)) {
            return Ok(());
        }
        let rewritten = self.identities.rewrite_reply(link, message);
        let bytes = match rewritten == *message {
            true => step.bytes.clone(),
            false => rewritten.emit(),
        };
        if self.host.receive(link, &bytes)? {
            self.counts.llc_fed += 1;
        } else if self.host.is_cut_off() {
            self.deviate(Deviation::AfterEnd);
        } else {
            return Err("our end of the link is gone".into());
        }
        Ok(())
    }

    /// Whether a message answers a request that our end did not make.
    /// In version 2 a Linux answer to DELETE RKEY does not contain the key (V2-166).
    fn is_unasked(&mut self, link: LinkNumber, reply: &Llc, rkey: RKey) -> bool {
        let kind = reply.message.kind(SmcVersion::V1);
        let asked = |(k, l, r): &&(u8, LinkNumber, RKey)| {
            (*k, *l) == (kind, link)
                && (*r == rkey || (reply.version == SmcVersion::V2 && rkey == RKey(0)))
        };
        let found = self.unasked.iter().find(asked).copied();
        let unasked = found.is_some_and(|found| self.unasked.remove(&found));
        if unasked {
            self.deviate(Deviation::RmbKept);
        }
        unasked
    }
}
