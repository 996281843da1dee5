//! Which of our identities stands for which of the captured end's: learnt from
//! pairs of messages, ours and the captured one that it takes the place of.
//!
//! Identities are the fields that name an object of their sender: peer ID, GID,
//! MAC, queue pair, first packet number, RToken, alert token, link user ID.
//! Everything else has to be equal. Ours have to name our own objects.

use std::collections::BTreeMap;

use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, MAX_LENGTH};
use smc_proto::wire::llc::{AddLink, LlcMessage};
use smc_proto::wire::types::{AlertToken, RKey, RToken};

/// The map, from captured to ours.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities {
    tokens: BTreeMap<AlertToken, AlertToken>,
    /// By captured key: the captured token and ours.
    rmbs: BTreeMap<RKey, (RToken, RToken)>,
    add_link: Option<(AddLink, AddLink)>,
}

impl Identities {
    /// Our name for a connection.
    pub(super) fn token(&self, captured: AlertToken) -> Option<AlertToken> {
        self.tokens.get(&captured).copied()
    }

    /// The captured RToken of a key and ours in its place.
    pub(super) fn rmb(&self, captured: RKey) -> Option<(RToken, RToken)> {
        self.rmbs.get(&captured).copied()
    }

    fn learn_rmb(&mut self, captured: RToken, ours: RToken) {
        self.rmbs.insert(captured.rkey, (captured, ours));
    }

    /// Pairs CLC messages. The octets of ours, with the captured identities in
    /// it: to be compared with the captured octets.
    pub(super) fn pair_clc(
        &mut self,
        captured: &ClcMessage,
        ours: &ClcMessage,
    ) -> Result<Vec<u8>, String> {
        let message = match (captured, ours) {
            (ClcMessage::Proposal(theirs), ClcMessage::Proposal(ours)) => {
                let mut message = ours.clone();
                message.peer_id = theirs.peer_id;
                message.gid = theirs.gid;
                message.mac = theirs.mac;
                ClcMessage::Proposal(message)
            }
            (ClcMessage::Accept(theirs), ClcMessage::Accept(ours)) => {
                ClcMessage::Accept(self.pair_half(theirs, ours)?)
            }
            (ClcMessage::Confirm(theirs), ClcMessage::Confirm(ours)) => {
                ClcMessage::Confirm(self.pair_half(theirs, ours)?)
            }
            _ => return Err(format!("ours is {ours}")),
        };
        let mut buffer = [0; MAX_LENGTH];
        let length = message.emit(&mut buffer).map_err(|e| format!("{e:?}"))?;
        Ok(buffer.get(..length).unwrap_or_default().to_vec())
    }

    fn pair_half(
        &mut self,
        theirs: &AcceptConfirm,
        ours: &AcceptConfirm,
    ) -> Result<AcceptConfirm, String> {
        self.tokens.insert(theirs.alert_token, ours.alert_token);
        // CONFIRM RKEY announced it, or the half of an earlier connection.
        if let Some((_, known)) = self.rmb(theirs.rtoken.rkey)
            && known != ours.rtoken
        {
            return Err(format!("our RMB is {}, not {known}", ours.rtoken));
        }
        self.learn_rmb(theirs.rtoken, ours.rtoken);
        Ok(AcceptConfirm {
            peer_id: theirs.peer_id,
            gid: theirs.gid,
            mac: theirs.mac,
            qpn: theirs.qpn,
            rtoken: theirs.rtoken,
            alert_token: theirs.alert_token,
            psn: theirs.psn,
            ..*ours
        })
    }

    /// Pairs LLC messages of the same type. Ours with the captured identities in
    /// it. What an answer repeats of its request is no identity of its sender,
    /// and stays.
    pub(super) fn pair_llc(&mut self, captured: &LlcMessage, ours: &LlcMessage) -> LlcMessage {
        match (captured, ours) {
            (LlcMessage::ConfirmLink(theirs), LlcMessage::ConfirmLink(ours)) => {
                let mut message = *ours;
                message.mac = theirs.mac;
                message.gid = theirs.gid;
                message.qpn = theirs.qpn;
                message.user_id = theirs.user_id;
                LlcMessage::ConfirmLink(message)
            }
            (LlcMessage::AddLink(theirs), LlcMessage::AddLink(ours)) => {
                if !ours.reply {
                    self.add_link = Some((*theirs, *ours));
                }
                let mut message = *ours;
                message.mac = theirs.mac;
                message.gid = theirs.gid;
                message.qpn = theirs.qpn;
                message.psn = theirs.psn;
                LlcMessage::AddLink(message)
            }
            (LlcMessage::ConfirmRkey(theirs), LlcMessage::ConfirmRkey(ours)) if !ours.reply => {
                self.learn_rmb(theirs.rtoken, ours.rtoken);
                let mut message = ours.clone();
                message.rtoken = theirs.rtoken;
                LlcMessage::ConfirmRkey(message)
            }
            (LlcMessage::DeleteRkey(theirs), LlcMessage::DeleteRkey(ours)) if !ours.reply => {
                let mut message = ours.clone();
                for (rkey, captured) in message.rkeys.iter_mut().zip(&theirs.rkeys) {
                    // The key in the captured request must stand for ours.
                    if self.rmb(*captured).map(|(_, own)| own.rkey) == Some(*rkey) {
                        *rkey = *captured;
                    }
                }
                LlcMessage::DeleteRkey(message)
            }
            _ => ours.clone(),
        }
    }

    /// A captured answer, as it would be to our request.
    pub(super) fn rewrite_reply(&self, captured: &LlcMessage) -> LlcMessage {
        let mut message = captured.clone();
        match &mut message {
            LlcMessage::ConfirmRkey(reply) if reply.reply => {
                if let Some((_, ours)) = self.rmb(reply.rtoken.rkey) {
                    reply.rtoken = ours;
                }
            }
            LlcMessage::DeleteRkey(reply) if reply.reply => {
                for rkey in &mut reply.rkeys {
                    if let Some((_, ours)) = self.rmb(*rkey) {
                        *rkey = ours.rkey;
                    }
                }
            }
            // Linux repeats the request in its rejection.
            LlcMessage::AddLink(reply) if reply.rejection.is_some() => {
                if let Some((theirs, ours)) = self.add_link
                    && (reply.gid, reply.mac, reply.qpn) == (theirs.gid, theirs.mac, theirs.qpn)
                {
                    reply.gid = ours.gid;
                    reply.mac = ours.mac;
                    reply.qpn = ours.qpn;
                    reply.psn = ours.psn;
                }
            }
            _ => {}
        }
        message
    }
}
