//! RMBs and their RTokens.

use smc_proto::wire::types::{RKey, RToken};

use super::link::LinkIndex;

/// Number of an RMB of its owner, in the order in which they were announced.
pub(crate) type RmbNumber = u64;

/// An RMB of one side.
#[derive(Clone, Debug)]
pub(crate) struct Rmb {
    pub(crate) number: RmbNumber,
    /// RToken of the RMB on each link.
    pub(crate) rtokens: Vec<(LinkIndex, RToken)>,
    /// Links on which its owner has named it, and therefore knows that the peer knows it
    /// there: the answer to CONFIRM RKEY may have been lost behind the tap, or not have been
    /// processed yet.
    pub(crate) counted: Vec<LinkIndex>,
    /// Whether its owner withdrew it and the peer knows.
    pub(crate) withdrawn: bool,
    /// The link that was being added when it came.
    pub(crate) during: Option<LinkIndex>,
}

impl Rmb {
    /// RToken of the RMB on a link.
    pub(crate) fn on(&self, link: LinkIndex) -> Option<RToken> {
        let mut all = self.rtokens.iter();
        all.find(|(on, _)| *on == link).map(|(_, rtoken)| *rtoken)
    }

    /// Notes its RToken on a link.
    pub(crate) fn set(&mut self, link: LinkIndex, rtoken: RToken) {
        match self.rtokens.iter_mut().find(|(on, _)| *on == link) {
            Some((_, known)) => *known = rtoken,
            None => self.rtokens.push((link, rtoken)),
        }
    }

    pub(crate) fn has_key(&self, link: LinkIndex, rkey: RKey) -> bool {
        self.on(link).is_some_and(|rtoken| rtoken.rkey == rkey)
    }
}
