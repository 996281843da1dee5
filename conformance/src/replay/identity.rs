//! Which of our identities stands for which of the captured end's: learnt from
//! pairs of messages, ours and the captured one that it takes the place of.
//!
//! Identities are the fields that name an object of their sender: queue pair,
//! first packet number, RToken, alert token, link user ID. Our end has the peer
//! ID and the ports of the captured one, so these, and everything else, have to be
//! equal. Ours have to name our own objects.

mod llc;

use std::collections::BTreeMap;

use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, MAX_LENGTH};
use smc_proto::wire::llc::AddLink;
use smc_proto::wire::types::{AlertToken, LinkNumber, PeerId, RKey, RToken};

/// The map, from captured to ours.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities {
    tokens: BTreeMap<AlertToken, AlertToken>,
    /// By link and captured key: the captured token and ours.
    rmbs: BTreeMap<(LinkNumber, RKey), (RToken, RToken)>,
    /// Whether any RMB of ours may take the place of one that was announced.
    any_rmb: bool,
    add_link: Option<(AddLink<'static>, AddLink<'static>)>,
}

impl Identities {
    /// With `any_rmb`, our end may reuse other RMBs than the captured one.
    pub(super) fn new(any_rmb: bool) -> Self {
        Self {
            any_rmb,
            ..Self::default()
        }
    }

    /// Our name for a connection.
    pub(super) fn token(&self, captured: AlertToken) -> Option<AlertToken> {
        self.tokens.get(&captured).copied()
    }

    /// The captured RToken of a key on a link and ours in its place.
    pub(super) fn rmb(&self, link: LinkNumber, captured: RKey) -> Option<(RToken, RToken)> {
        self.rmbs.get(&(link, captured)).copied()
    }

    fn learn_rmb(&mut self, link: LinkNumber, captured: RToken, ours: RToken) {
        self.rmbs.insert((link, captured.rkey), (captured, ours));
    }

    /// Pairs CLC messages; `link` is the one that the captured message names. The
    /// bytes of ours, with the captured identities in it: to be compared with the
    /// captured bytes.
    pub(super) fn pair_clc(
        &mut self,
        link: Option<LinkNumber>,
        captured: &ClcMessage,
        ours: &ClcMessage,
    ) -> Result<Vec<u8>, String> {
        let message = match (captured, ours, link) {
            (ClcMessage::Proposal(theirs), ClcMessage::Proposal(own), _) => {
                let mut message = own.clone();
                // Linux leaves its identity out without an offer of version 1; ours has
                // it there, and is checked to be our own (V2-023).
                if theirs.v2_offer.is_some() && theirs.peer_id == PeerId::default() {
                    message.peer_id = theirs.peer_id;
                    (message.gid, message.mac) = (theirs.gid, theirs.mac);
                }
                ClcMessage::Proposal(message)
            }
            (ClcMessage::Accept(theirs), ClcMessage::Accept(ours), Some(link)) => {
                ClcMessage::Accept(self.pair_half(link, theirs, ours)?)
            }
            (ClcMessage::Confirm(theirs), ClcMessage::Confirm(ours), Some(link)) => {
                ClcMessage::Confirm(self.pair_half(link, theirs, ours)?)
            }
            _ => return Err(format!("ours is {ours}")),
        };
        let mut buffer = [0; MAX_LENGTH];
        let length = message.emit(&mut buffer).map_err(|e| format!("{e:?}"))?;
        Ok(buffer.get(..length).unwrap_or_default().to_vec())
    }

    fn pair_half(
        &mut self,
        link: LinkNumber,
        theirs: &AcceptConfirm,
        ours: &AcceptConfirm,
    ) -> Result<AcceptConfirm, String> {
        self.tokens.insert(theirs.alert_token, ours.alert_token);
        // CONFIRM RKEY announced it, or the half of an earlier connection.
        if let Some((_, known)) = self.rmb(link, theirs.rtoken.rkey)
            && known != ours.rtoken
            && !self.any_rmb
        {
            return Err(format!("our RMB is {}, not {known}", ours.rtoken));
        }
        self.learn_rmb(link, theirs.rtoken, ours.rtoken);
        Ok(AcceptConfirm {
            qpn: theirs.qpn,
            rtoken: theirs.rtoken,
            alert_token: theirs.alert_token,
            psn: theirs.psn,
            ..*ours
        })
    }
}
