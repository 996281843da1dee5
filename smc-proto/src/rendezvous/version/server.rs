//! The server's part of negotiation: what it chooses from a Proposal, and whether the
//! client's Confirm repeats that.

use super::judge_limits;
use crate::config::{Config, Offers};
use crate::path::{IsmPath, LocalPath, Paths, Route};
use crate::rendezvous::proposed::{Proposed, ProposedV2};
use crate::version::{Negotiated, SERVES_V2, SmcVersion, Technology, Terms};
use crate::wire::clc::FirstContactExtension;
use crate::wire::types::{DiagnosisCode, Eid, IsmGid};

/// What a server accepts of a Proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// SMC-R, over the first of the RNIC ports that serve its version.
    SmcR(Negotiated),
    /// SMC-D, from one ISM device to another.
    SmcD {
        negotiated: Negotiated,
        /// This side's device.
        path: IsmPath,
        /// The client's device.
        peer: IsmGid,
    },
}

/// The technologies and versions that client and server both offer, one of which the
/// server may choose.
#[derive(Clone, Copy)]
struct Candidates {
    smcr_v1: bool,
    smcd_v1: bool,
    smcr_v2: bool,
    smcd_v2: bool,
}

impl Candidates {
    const fn has_v1(self) -> bool {
        self.smcr_v1 || self.smcd_v1
    }

    const fn is_empty(self) -> bool {
        !self.has_v1() && !self.smcr_v2 && !self.smcd_v2
    }
}

/// Chooses the first candidate that this side's devices can serve, in the order of deployed
/// servers: SMC-D version 2, SMC-D version 1, SMC-R version 2, SMC-R version 1.
///
/// # Errors
/// The diagnosis code to decline with: the reason why the first candidate failed.
//= V2-100
//= CLC-008
pub(crate) fn choose(
    config: &Config,
    proposed: &Proposed,
    paths: Paths<'_>,
) -> Result<Choice, DiagnosisCode> {
    let candidates = candidates(config, proposed, paths)?;
    let terms = terms_of_v2(config, proposed, candidates)?;
    let mut first_reason = None;
    if SERVES_V2
        && candidates.smcd_v2
        && let Some(v2) = &proposed.v2
    {
        match choose_smcd_v2(config, proposed, v2, paths, terms) {
            Ok(choice) => return Ok(choice),
            Err(code) => first_reason = Some(code),
        }
    }
    let v1_is_in_subnet = v1_is_in_subnet(candidates, paths);
    if candidates.has_v1() && !v1_is_in_subnet {
        first_reason = first_reason.or(Some(DiagnosisCode::PREFIX_MISMATCH));
    }
    if candidates.smcd_v1 && v1_is_in_subnet {
        match choose_smcd_v1(proposed, paths) {
            Some(choice) => return Ok(choice),
            None => first_reason = first_reason.or(Some(DiagnosisCode::NO_SMCD_DEVICE)),
        }
    }
    if SERVES_V2
        && candidates.smcr_v2
        && let Some(v2) = &proposed.v2
    {
        match choose_smcr_v2(config, v2, paths, terms) {
            Ok(choice) => return Ok(choice),
            Err(code) => first_reason = first_reason.or(Some(code)),
        }
    }
    //= RENDEZVOUS-003
    if candidates.smcr_v1 && v1_is_in_subnet {
        if paths.rnics.iter().any(serves_smcr_v1) {
            return Ok(Choice::SmcR(Negotiated::NOTHING));
        }
        first_reason = first_reason.or(Some(DiagnosisCode::NO_SMCR_DEVICE));
    }
    Err(first_reason.unwrap_or(DiagnosisCode::NO_DEVICE))
}

/// What the client offers, without what this side's configuration excludes and without
/// offers that lack a part of the Proposal that they need.
///
/// # Errors
/// The diagnosis code to decline with, if nothing is left.
//= V2-101
//= D-032
fn candidates(
    config: &Config,
    proposed: &Proposed,
    paths: Paths<'_>,
) -> Result<Candidates, DiagnosisCode> {
    let own = config.served_offers();
    let v2 = proposed.v2.as_ref();
    let mut candidates = Candidates {
        smcr_v1: proposed.v1.has_smcr() && own.contains(Offers::SMCR_V1),
        smcd_v1: proposed.v1.has_smcd() && own.contains(Offers::SMCD_V1),
        smcr_v2: v2.is_some_and(|v2| v2.path.has_smcr()) && own.contains(Offers::SMCR_V2),
        smcd_v2: v2.is_some_and(|v2| v2.path.has_smcd()) && own.contains(Offers::SMCD_V2),
    };
    let mut first_reason = None;
    if SERVES_V2 && candidates.smcd_v2 {
        let lacking = if !paths.ism.iter().any(|path| path.v2) {
            Some(DiagnosisCode::NO_ISM_V2)
        } else if proposed.ism_gids().next().is_none() {
            Some(DiagnosisCode::NO_SMCD_V2_EXTENSION)
        } else if v2.is_some_and(|v2| !v2.has_eids && !v2.has_seid) {
            Some(DiagnosisCode::NO_UEID)
        } else {
            None
        };
        candidates.smcd_v2 = lacking.is_none();
        first_reason = lacking;
    }
    if SERVES_V2 && candidates.smcr_v2 && v2.is_some_and(|v2| !v2.has_eids) {
        candidates.smcr_v2 = false;
        first_reason = first_reason.or(Some(DiagnosisCode::NO_UEID));
    }
    if candidates.is_empty() {
        Err(first_reason.unwrap_or(DiagnosisCode::PEER_NO_SMC))
    } else {
        Ok(candidates)
    }
}

/// Terms of SMC-R version 2: the lower release and limits of both sides, and the features
/// that both have.
///
/// # Errors
/// The diagnosis code to decline with, if a limit is too low.
//= V2-102
//= V2-103
//= V2-057
//= D-036
fn terms_of_v2(
    config: &Config,
    proposed: &Proposed,
    candidates: Candidates,
) -> Result<Terms, DiagnosisCode> {
    let mut terms = Terms::of(Technology::SmcR, SmcVersion::V2);
    let Some(v2) = proposed.v2.as_ref().filter(|_| SERVES_V2) else {
        return Ok(terms);
    };
    terms.release = v2.release.min(config.v2.release);
    if !terms.release.has_limits() {
        return Ok(terms);
    }
    terms.features = v2.features & config.v2.features;
    if candidates.smcr_v2 {
        terms.max_connections = v2.max_connections.min(config.advertised_connections());
        terms.max_links = v2.max_links.min(config.advertised_links());
        judge_limits(terms.max_connections, terms.max_links)?;
    }
    Ok(terms)
}

/// Whether this side's devices are in the client's subnets, which version 1 requires. A
/// server without any device for the candidates of version 1 does not know, and is to decline
/// for want of a device instead.
fn v1_is_in_subnet(candidates: Candidates, paths: Paths<'_>) -> bool {
    let has_devices = candidates.smcr_v1 && !paths.rnics.is_empty()
        || candidates.smcd_v1 && !paths.ism.is_empty();
    //= V2-106
    //= RENDEZVOUS-006
    let in_subnet = paths.rnics.iter().any(|path| path.subnet_match)
        || paths.ism.iter().any(|path| path.reaches_v1);
    in_subnet || !has_devices
}

/// SMC-D of version 2: a device on the same channel as one of the client's, from which that
/// one can be reached, and an EID that both sides have. The system EID is preferred.
//= D-030
//= D-031
fn choose_smcd_v2(
    config: &Config,
    proposed: &Proposed,
    v2: &ProposedV2,
    paths: Paths<'_>,
    terms: Terms,
) -> Result<Choice, DiagnosisCode> {
    let reached = proposed.ism_gids().find_map(|peer| {
        let fits = |path: &&IsmPath| {
            path.is_usable() && path.v2 && path.reaches == Some(peer) && path.gid.chid == peer.chid
        };
        paths.ism.iter().find(fits).map(|path| (*path, peer))
    });
    let Some((path, peer)) = reached else {
        return Err(DiagnosisCode::NO_SMCD_V2_DEVICE);
    };
    let seid = config.v2.seid.filter(|_| v2.seid_match);
    let eid = match seid.or(common_ueid(config, v2)) {
        Some(eid) => eid,
        None if v2.has_eids => return Err(DiagnosisCode::NO_DEVICE),
        None => return Err(DiagnosisCode::NO_SEID),
    };
    let terms = Terms {
        technology: Technology::SmcD,
        ..terms
    };
    Ok(Choice::SmcD {
        negotiated: Negotiated { terms, eid },
        path,
        peer,
    })
}

/// SMC-D of version 1: a device with the connection's PNET ID, from which the client's can be
/// reached.
fn choose_smcd_v1(proposed: &Proposed, paths: Paths<'_>) -> Option<Choice> {
    let fits = |path: &&IsmPath| path.is_usable() && path.pnet_match && path.reaches_v1;
    let path = *paths.ism.iter().find(fits)?;
    let area = proposed.ism?;
    let terms = Terms::of(Technology::SmcD, SmcVersion::V1);
    Some(Choice::SmcD {
        negotiated: Negotiated {
            terms,
            ..Negotiated::NOTHING
        },
        path,
        peer: IsmGid {
            gid: area.gid,
            gid_ext: 0,
            chid: area.chid,
        },
    })
}

/// SMC-R of version 2: a user EID that both sides have, and a port with a route to the
/// client's GID.
//= V2-104
//= V2-105
fn choose_smcr_v2(
    config: &Config,
    v2: &ProposedV2,
    paths: Paths<'_>,
    terms: Terms,
) -> Result<Choice, DiagnosisCode> {
    let Some(eid) = common_ueid(config, v2) else {
        return Err(DiagnosisCode::NO_DEVICE);
    };
    let mut ports = paths
        .rnics
        .iter()
        .filter(|path| path.is_usable() && path.serves(SmcVersion::V2))
        .peekable();
    if ports.peek().is_none() {
        return Err(DiagnosisCode::NO_SMCR_DEVICE);
    }
    let Some(path) = ports.find(|path| path.route != Route::None) else {
        return Err(DiagnosisCode::NO_ROUTE);
    };
    let terms = Terms {
        direct: path.route == Route::Direct,
        ..terms
    };
    Ok(Choice::SmcR(Negotiated { terms, eid }))
}

/// SMC-R of version 1: whether a port is in the client's subnet.
fn serves_smcr_v1(path: &LocalPath) -> bool {
    path.is_usable() && path.subnet_match && path.serves(SmcVersion::V1)
}

/// The first user EID of the client that this side has, too.
fn common_ueid(config: &Config, v2: &ProposedV2) -> Option<Eid> {
    let place = usize::from(v2.eid?);
    config.v2.ueids.as_slice().get(place).copied()
}

/// Compares the Confirm of a first contact with the terms that the Accept had, and returns
/// these with the features that both sides have.
///
/// # Errors
/// The diagnosis code to decline with, if release or limits differ.
//= V2-109
pub(crate) fn confirmed(
    terms: Terms,
    extension: &FirstContactExtension,
) -> Result<Terms, DiagnosisCode> {
    if extension.release != terms.release {
        return Err(DiagnosisCode::RELEASE_MISMATCH);
    }
    if !terms.release.has_limits() {
        return Ok(terms);
    }
    // SMC-D has no limits.
    if terms.technology == Technology::SmcR {
        if extension.max_connections != terms.max_connections {
            return Err(DiagnosisCode::MAX_CONNECTIONS);
        }
        if extension.max_links != terms.max_links {
            return Err(DiagnosisCode::MAX_LINKS);
        }
    }
    let features = terms.features & extension.features;
    Ok(Terms { features, ..terms })
}
