//! Whether the messages of our end name its own objects.

use smc_proto::id::{BufferId, LinkId};
use smc_proto::path::LocalPath;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{LlcMessage, RTokenPair};
use smc_proto::wire::types::{Gid, LinkNumber, Mac, PeerId, Psn, Qpn};

use super::Host;
use crate::replay::message::Llc;

impl Host {
    /// Whether a CLC message names our objects.
    pub(in crate::replay) fn check_clc(&mut self, ours: &ClcMessage) -> Result<(), String> {
        match ours {
            ClcMessage::Proposal(m) => {
                self.check_peer_id(m.peer_id)?;
                self.check_port(m.gid, m.mac)
            }
            ClcMessage::Accept(m) | ClcMessage::Confirm(m) => {
                self.check_peer_id(m.peer_id)?;
                self.check_qpn(m.qpn, (m.gid, m.mac))?;
                self.check_announced_psn(m.qpn, m.psn)?;
                let link = self.link_of(m.qpn)?;
                self.buffer_of(link, m.rtoken).map(drop)
            }
            ClcMessage::SmcdAccept(_) | ClcMessage::SmcdConfirm(_) => {
                Err("SMC-D, which was not offered".to_owned())
            }
            ClcMessage::Decline(_) => Ok(()),
        }
    }

    /// Whether an LLC message on a link does.
    pub(in crate::replay) fn check_llc(
        &mut self,
        link: LinkNumber,
        ours: &Llc,
    ) -> Result<(), String> {
        if let (LlcMessage::AddLink(m), Some(pairs)) = (&ours.message, &ours.pairs) {
            // The server's queue pair is not bound yet, and no link to the host.
            let new = self.link_of(m.qpn)?;
            for pair in pairs {
                let new = self.buffer_of(new, pair.new)?;
                self.check_reference(link, pair, new)?;
            }
        }
        match &ours.message {
            LlcMessage::ConfirmLink(m) => {
                self.check_qpn(m.qpn, (m.gid, m.mac))?;
                if self.carrier(link) == Some(self.link_of(m.qpn)?) {
                    Ok(())
                } else {
                    Err(format!("not the queue pair of link {link}"))
                }
            }
            LlcMessage::AddLink(m) if m.rejection.is_none() => {
                self.check_qpn(m.qpn, (m.gid, m.mac))?;
                self.check_announced_psn(m.qpn, m.psn)
            }
            LlcMessage::AddLink(m) => self.check_port(m.gid, m.mac),
            LlcMessage::AddLinkContinuation(m) => {
                for pair in &m.pairs {
                    let new = self.buffer_of(self.added(m.link)?, pair.new)?;
                    self.check_reference(link, pair, new)?;
                }
                Ok(())
            }
            LlcMessage::ConfirmRkey(m) if !m.reply => {
                let carrier = self.carrier(link).ok_or("no such link")?;
                let buffer = self.buffer_of(carrier, m.rtoken)?;
                for other in &m.others {
                    let carrier = self.carrier(other.link).ok_or("no such link")?;
                    if self.buffer_of(carrier, other.rtoken)? != buffer {
                        return Err(format!("{} is another RMB", other.rtoken));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether our queue pairs begin with the packet numbers that we announced.
    pub(in crate::replay) fn check_psns(&self) -> Result<(), String> {
        for pair in self.pairs() {
            let (link, announced) = (pair.link, pair.work.announced_psn);
            if pair.bound.is_some() && (pair.psn.is_none() || pair.psn != announced) {
                return Err(format!(
                    "packet numbers of {link:?}: {:?}, {announced:?}",
                    pair.psn
                ));
            }
        }
        Ok(())
    }

    /// Whether the key that a pair refers to is that of the same RMB.
    fn check_reference(
        &self,
        link: LinkNumber,
        pair: &RTokenPair,
        buffer: BufferId,
    ) -> Result<(), String> {
        let carrier = self.carrier(link);
        let known = carrier.and_then(|on| self.nic.registered(on, pair.reference));
        if known.is_some_and(|(known, _)| known.id == buffer) {
            Ok(())
        } else {
            Err(format!("{} is another RMB", pair.reference))
        }
    }

    fn added(&self, number: LinkNumber) -> Result<LinkId, String> {
        self.carrier(number)
            .ok_or_else(|| format!("link {number} is not bound"))
    }

    fn check_peer_id(&self, peer_id: PeerId) -> Result<(), String> {
        if peer_id == self.endpoint.config().peer_id {
            Ok(())
        } else {
            Err(format!("our peer ID is not {peer_id}"))
        }
    }

    fn check_port(&self, gid: Gid, mac: Mac) -> Result<(), String> {
        if self.paths.iter().any(|p| (p.gid, p.mac) == (gid, mac)) {
            Ok(())
        } else {
            Err(format!("no port of ours is {gid}, {mac}"))
        }
    }

    /// A queue pair is at the port that the message names.
    fn check_qpn(&mut self, qpn: Qpn, (gid, mac): (Gid, Mac)) -> Result<(), String> {
        let device = self.named(qpn)?.device;
        let at = |p: &&LocalPath| (p.gid, p.mac) == (gid, mac);
        if self.paths.iter().find(at).map(|p| p.device) == Some(device) {
            Ok(())
        } else {
            Err(format!("{qpn} is not at {gid}, {mac}"))
        }
    }

    fn check_announced_psn(&mut self, qpn: Qpn, psn: Psn) -> Result<(), String> {
        if *self.named(qpn)?.work.announced_psn.get_or_insert(psn) == psn {
            Ok(())
        } else {
            Err(format!("another packet number: {psn}"))
        }
    }

    fn link_of(&self, qpn: Qpn) -> Result<LinkId, String> {
        self.pairs()
            .find(|pair| pair.qpn == qpn)
            .map(|pair| pair.link)
            .ok_or_else(|| format!("{qpn} is no queue pair of ours"))
    }
}
