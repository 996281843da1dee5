//! The server: what it accepts of a Proposal, and whether the Confirm agrees.

use super::judge_limits;
use crate::config::{Config, Offers};
use crate::path::{IsmPath, Paths, Route};
use crate::rendezvous::proposed::{Proposed, ProposedV2};
use crate::version::{Negotiated, SmcVersion, Technology, Terms};
use crate::wire::clc::FirstContactExtension;
use crate::wire::types::{DiagnosisCode, Eid, IsmGid};

/// What a server accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// SMC-R, over the first of the paths that serve its version.
    SmcR(Negotiated),
    /// SMC-D, over this device to that one of the client.
    SmcD {
        negotiated: Negotiated,
        path: IsmPath,
        peer: IsmGid,
    },
}

/// What is still in question while a server chooses.
#[derive(Clone, Copy)]
struct Open {
    r1: bool,
    d1: bool,
    r2: bool,
    d2: bool,
}

/// Chooses in the order of deployed servers; the code to decline with, if nothing
/// works, is that of the first reason found.
//= V2-100
//= CLC-008
pub(crate) fn choose(
    config: &Config,
    proposed: &Proposed,
    paths: Paths<'_>,
) -> Result<Choice, DiagnosisCode> {
    let open = usable_offers(config, proposed, paths)?;
    let terms = terms_of_v2(config, proposed, open)?;
    let mut why = None;
    if open.d2
        && let Some(v2) = &proposed.v2
    {
        match smcd_v2(config, proposed, v2, paths) {
            Ok((path, peer, eid)) => {
                let terms = Terms {
                    technology: Technology::SmcD,
                    ..terms
                };
                return Ok(Choice::SmcD {
                    negotiated: Negotiated { terms, eid },
                    path,
                    peer,
                });
            }
            Err(code) => why = why.or(Some(code)),
        }
    }
    //= V2-106
    //= RENDEZVOUS-006
    let in_subnet = paths.rnics.iter().any(|path| path.subnet_match)
        || paths.ism.iter().any(|path| path.reaches_v1);
    // A side that has nothing for what is asked knows of no subnets.
    let some = open.r1 && !paths.rnics.is_empty() || open.d1 && !paths.ism.is_empty();
    let v1 = in_subnet || !some;
    if (open.r1 || open.d1) && !v1 {
        why = why.or(Some(DiagnosisCode::PREFIX_MISMATCH));
    }
    if open.d1 && v1 {
        let fits = |path: &&IsmPath| path.is_usable() && path.pnet_match && path.reaches_v1;
        match (paths.ism.iter().find(fits), proposed.ism) {
            (Some(path), Some(area)) => {
                let terms = Terms::of(Technology::SmcD, SmcVersion::V1);
                return Ok(Choice::SmcD {
                    negotiated: Negotiated {
                        terms,
                        ..Negotiated::NOTHING
                    },
                    path: *path,
                    peer: IsmGid {
                        gid: area.gid,
                        gid_ext: 0,
                        chid: area.chid,
                    },
                });
            }
            _ => why = why.or(Some(DiagnosisCode::NO_SMCD_DEVICE)),
        }
    }
    if open.r2
        && let Some(v2) = &proposed.v2
    {
        match smcr_v2(config, v2, paths) {
            Ok((eid, direct)) => {
                let terms = Terms { direct, ..terms };
                return Ok(Choice::SmcR(Negotiated { terms, eid }));
            }
            Err(code) => why = why.or(Some(code)),
        }
    }
    //= RENDEZVOUS-003
    if open.r1 && v1 {
        let fits = paths
            .rnics
            .iter()
            .any(|path| path.is_usable() && path.subnet_match && path.serves(SmcVersion::V1));
        if fits {
            return Ok(Choice::SmcR(Negotiated::NOTHING));
        }
        why = why.or(Some(DiagnosisCode::NO_SMCR_DEVICE));
    }
    Err(why.unwrap_or(DiagnosisCode::NO_DEVICE))
}

/// What the client offers and this side could take by its settings and by what the
/// Proposal has with the offer.
//= V2-101
//= D-032
fn usable_offers(
    config: &Config,
    proposed: &Proposed,
    paths: Paths<'_>,
) -> Result<Open, DiagnosisCode> {
    let own = config.offers;
    let mut why = None;
    let v2 = proposed.v2.as_ref();
    let mut r2 = v2.is_some_and(|v2| v2.path.has_smcr()) && own.contains(Offers::SMCR_V2);
    let mut d2 = v2.is_some_and(|v2| v2.path.has_smcd()) && own.contains(Offers::SMCD_V2);
    if d2 && !paths.ism.iter().any(|path| path.v2) {
        d2 = false;
        why = why.or(Some(DiagnosisCode::NO_ISM_V2));
    }
    if d2 && proposed.ism_gids().next().is_none() {
        d2 = false;
        why = why.or(Some(DiagnosisCode::NO_SMCD_V2_EXTENSION));
    }
    if d2 && v2.is_some_and(|v2| !v2.has_eids && !v2.has_seid) {
        d2 = false;
        why = why.or(Some(DiagnosisCode::NO_UEID));
    }
    if r2 && v2.is_some_and(|v2| !v2.has_eids) {
        r2 = false;
        why = why.or(Some(DiagnosisCode::NO_UEID));
    }
    let r1 = proposed.v1.has_smcr() && own.contains(Offers::SMCR_V1);
    let d1 = proposed.v1.has_smcd() && own.contains(Offers::SMCD_V1);
    if r1 || d1 || r2 || d2 {
        Ok(Open { r1, d1, r2, d2 })
    } else {
        Err(why.unwrap_or(DiagnosisCode::PEER_NO_SMC))
    }
}

/// Release and limits: the lower of both sides'.
//= V2-102
//= V2-103
//= V2-057
//= D-036
fn terms_of_v2(config: &Config, proposed: &Proposed, open: Open) -> Result<Terms, DiagnosisCode> {
    let mut terms = Terms::of(Technology::SmcR, SmcVersion::V2);
    let Some(v2) = &proposed.v2 else {
        return Ok(terms);
    };
    terms.release = v2.release.min(config.v2.release);
    if !terms.release.has_limits() {
        return Ok(terms);
    }
    terms.features = v2.features & config.v2.features;
    if open.r2 {
        terms.max_connections = v2.max_connections.min(config.advertised_connections());
        terms.max_links = v2.max_links.min(config.advertised_links());
        judge_limits(terms.max_connections, terms.max_links)?;
    }
    Ok(terms)
}

/// A device on the channel of one that the client has, and the EID.
//= D-030
//= D-031
fn smcd_v2(
    config: &Config,
    proposed: &Proposed,
    v2: &ProposedV2,
    paths: Paths<'_>,
) -> Result<(IsmPath, IsmGid, Eid), DiagnosisCode> {
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
    match seid.or(common_ueid(config, v2)) {
        Some(eid) => Ok((path, peer, eid)),
        None if v2.has_eids => Err(DiagnosisCode::NO_DEVICE),
        None => Err(DiagnosisCode::NO_SEID),
    }
}

/// The first user EID of the client that this side has.
fn common_ueid(config: &Config, v2: &ProposedV2) -> Option<Eid> {
    let place = usize::from(v2.eid?);
    config.v2.ueids.as_slice().get(place).copied()
}

/// The common EID, and whether the client's GID is reached directly.
//= V2-104
//= V2-105
fn smcr_v2(
    config: &Config,
    v2: &ProposedV2,
    paths: Paths<'_>,
) -> Result<(Eid, bool), DiagnosisCode> {
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
    match ports.find(|path| path.route != Route::None) {
        Some(path) => Ok((eid, path.route == Route::Direct)),
        None => Err(DiagnosisCode::NO_ROUTE),
    }
}

/// Whether the Confirm of a first contact repeats what the Accept said, and the
/// features then.
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
    let limited = terms.technology == Technology::SmcR;
    if limited && extension.max_connections != terms.max_connections {
        return Err(DiagnosisCode::MAX_CONNECTIONS);
    }
    if limited && extension.max_links != terms.max_links {
        return Err(DiagnosisCode::MAX_LINKS);
    }
    let features = terms.features & extension.features;
    Ok(Terms { features, ..terms })
}
