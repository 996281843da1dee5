//! What an endpoint offers, and how it introduces itself in version 2.

use crate::wire::types::{Eid, FeatureMask, Hostname, PeerOs, Release};

/// Most user EIDs of an endpoint (V2-251).
pub const MAX_UEIDS: usize = 4;

bitflags::bitflags! {
    /// Technologies in their versions, as an endpoint may offer and accept them.
    /// What it really offers for a connection depends on its paths and EIDs.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Offers: u8 {
        /// SMC-R as in RFC 7609.
        const SMCR_V1 = 1;
        /// SMC-R of version 2; needs a user EID.
        const SMCR_V2 = 2;
        /// SMC-D of version 1.
        const SMCD_V1 = 4;
        /// SMC-D of version 2; needs an EID.
        const SMCD_V2 = 8;
        /// SMC-R in both versions.
        const SMCR = Self::SMCR_V1.bits() | Self::SMCR_V2.bits();
        /// SMC-D in both versions.
        const SMCD = Self::SMCD_V1.bits() | Self::SMCD_V2.bits();
        /// Version 1 of both.
        const V1 = Self::SMCR_V1.bits() | Self::SMCD_V1.bits();
        /// Version 2 of both.
        const V2 = Self::SMCR_V2.bits() | Self::SMCD_V2.bits();
    }
}

/// Up to [`MAX_UEIDS`] user EIDs, by preference.
//= V2-251
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserEids {
    // What is not in use is zero, so that the derived comparison is right.
    eids: [Eid; MAX_UEIDS],
    count: u8,
}

impl UserEids {
    /// None.
    pub const NONE: Self = Self {
        eids: [Eid([0; 32]); MAX_UEIDS],
        count: 0,
    };

    /// Adds an EID behind the others; one that is there already stays where it is.
    ///
    /// # Errors
    /// The EID, if there are [`MAX_UEIDS`].
    pub fn push(&mut self, eid: Eid) -> Result<(), Eid> {
        if self.as_slice().contains(&eid) {
            return Ok(());
        }
        match self.eids.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = eid;
                self.count = self.count.saturating_add(1);
                Ok(())
            }
            None => Err(eid),
        }
    }

    /// Where an EID is among them.
    pub(crate) fn place_of(&self, eid: &Eid) -> Option<u8> {
        let [a, b, c, d] = &self.eids;
        [(0, a), (1, b), (2, c), (3, d)]
            .into_iter()
            .find(|(place, own)| *place < self.count && *own == eid)
            .map(|(place, _)| place)
    }

    /// The EIDs by preference.
    #[must_use]
    pub fn as_slice(&self) -> &[Eid] {
        self.eids.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// How an endpoint introduces itself in version 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct V2Config {
    /// User EIDs: peers with a common one belong together. Without any there is no
    /// SMC-R of version 2.
    pub ueids: UserEids,
    /// System EID, for SMC-D between systems of one machine (V2-253).
    pub seid: Option<Eid>,
    /// Highest release that is spoken.
    pub release: Release,
    /// Features that are advertised from release 1 on.
    pub features: FeatureMask,
    /// Name of this host, sent at first contact.
    pub hostname: Hostname,
    /// Operating system, sent at first contact and in Declines.
    pub os: PeerOs,
}

impl V2Config {
    /// Release 1 without EIDs: speaks no SMC-R of version 2 until one is added.
    pub const DEFAULT: Self = Self {
        ueids: UserEids::NONE,
        seid: None,
        release: Release::V2_1,
        features: FeatureMask::EMULATED_ISM,
        hostname: Hostname([b' '; 32]),
        os: PeerOs::UNKNOWN,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_up_to_four_eids_in_the_order_of_configuration() {
        //= V2-251 test
        let eids = ["C", "A", "B", "D", "E"].map(|text| Eid::user(text).unwrap());
        let mut all = UserEids::NONE;
        for eid in &eids[..4] {
            assert_eq!(all.push(*eid), Ok(()));
            assert_eq!(all.push(*eid), Ok(()));
        }
        assert_eq!(all.push(eids[4]), Err(eids[4]));
        assert_eq!(all.as_slice(), &eids[..4]);
    }
}
