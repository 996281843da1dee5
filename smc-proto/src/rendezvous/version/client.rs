//! The client: what it offers, and whether the Accept is something of that.

use super::{has_eids, judge_limits};
use crate::config::{Config, Offers, ProposalVersion};
use crate::path::{IsmPath, LocalPath, Paths, Route};
use crate::rendezvous::ConnOptions;
use crate::version::{Negotiated, SERVES_V2, SmcVersion, Technology, Terms};
use crate::wire::clc::{AcceptConfirm, AcceptConfirmV2, FirstContactExtension};
use crate::wire::types::{DiagnosisCode, Mac};

/// What a client can offer for a connection, and the MAC of the port that both
/// versions of SMC-R are to use; why it can offer nothing.
//= V2-031
//= V2-032
//= V2-136
pub(crate) fn offer(
    config: &Config,
    options: &ConnOptions,
    paths: Paths<'_>,
) -> Result<(Offers, Option<Mac>), DiagnosisCode> {
    let mut allowed = config.served_offers();
    if config.proposal_version == ProposalVersion::V1 {
        allowed &= Offers::V1;
    }
    let has_subnets = options.subnets.is_some();
    // What could be offered, were there subnets.
    let had_v1 = allowed.contains(Offers::SMCR_V1) && !paths.rnics.is_empty()
        || allowed.contains(Offers::SMCD_V1) && !paths.ism.is_empty();
    if !has_subnets {
        allowed.remove(Offers::V1);
    }
    if !options.ipv4 || !has_eids(config) {
        allowed.remove(Offers::SMCR_V2);
    }
    if !has_eids(config) && config.v2.seid.is_none() {
        allowed.remove(Offers::SMCD_V2);
    }
    let serves = |path: &LocalPath, version| {
        let offer = match version {
            SmcVersion::V1 => Offers::SMCR_V1,
            SmcVersion::V2 => Offers::SMCR_V2,
        };
        path.is_usable() && allowed.contains(offer) && path.serves(version)
    };
    // The Proposal has one MAC for both versions: the preferred port's.
    //= V2-030
    let port = paths
        .rnics
        .iter()
        .find(|path| serves(path, SmcVersion::V1) || serves(path, SmcVersion::V2));
    let mut offers = Offers::empty();
    for (version, flag) in [
        (SmcVersion::V1, Offers::SMCR_V1),
        (SmcVersion::V2, Offers::SMCR_V2),
    ] {
        let same_port = |path: &LocalPath| port.is_some_and(|port| port.mac == path.mac);
        let mut all = paths.rnics.iter();
        offers.set(
            flag,
            all.any(|path| serves(path, version) && same_port(path)),
        );
    }
    let ism = |fits: fn(&IsmPath) -> bool| {
        let mut all = paths.ism.iter();
        all.any(|path| path.is_usable() && fits(path))
    };
    offers.set(Offers::SMCD_V1, ism(|path| path.pnet_match));
    offers.set(Offers::SMCD_V2, SERVES_V2 && ism(|path| path.v2));
    offers &= allowed | Offers::SMCR;
    if !offers.is_empty() {
        return Ok((offers, port.map(|port| port.mac)));
    }
    Err(if had_v1 && !has_subnets {
        DiagnosisCode::CONFIGURATION
    } else if paths.rnics.is_empty() {
        DiagnosisCode::NO_SMCR_DEVICE
    } else {
        DiagnosisCode::NO_DEVICE
    })
}

/// What an Accept of SMC-R means, if it is one of what was offered.
//= V2-130
pub(crate) fn accepted(
    config: &Config,
    offers: Offers,
    accept: &AcceptConfirm,
    route: Route,
) -> Result<Negotiated, DiagnosisCode> {
    let Some(v2) = &accept.v2 else {
        return match offers.contains(Offers::SMCR_V1) {
            true => Ok(Negotiated::NOTHING),
            false => Err(DiagnosisCode::MODE_MISMATCH),
        };
    };
    if !SERVES_V2 || !offers.contains(Offers::SMCR_V2) {
        return Err(DiagnosisCode::MODE_MISMATCH);
    }
    let mut terms = Terms::of(Technology::SmcR, SmcVersion::V2);
    if accept.first_contact {
        terms = confirm_terms(config, Technology::SmcR, &v2.extension)?;
        //= V2-131
        terms.direct = match (v2.extension.direct, route) {
            (true, _) => true,
            (false, Route::Gateway) => false,
            (false, Route::None) => return Err(DiagnosisCode::NO_ROUTE),
            (false, Route::Direct) => return Err(DiagnosisCode::INDIRECT_MISMATCH),
        };
    }
    //= V2-051
    let AcceptConfirmV2 { eid, .. } = *v2;
    Ok(Negotiated { terms, eid })
}

/// What the first contact extension of an Accept says, as the Confirm repeats it.
//= V2-132
//= V2-056
pub(crate) fn confirm_terms(
    config: &Config,
    technology: Technology,
    extension: &FirstContactExtension,
) -> Result<Terms, DiagnosisCode> {
    let release = extension.release;
    if release > config.v2.release {
        return Err(DiagnosisCode::RELEASE_MISMATCH);
    }
    let mut terms = Terms {
        release,
        ..Terms::of(technology, SmcVersion::V2)
    };
    if !release.has_limits() {
        return Ok(terms);
    }
    terms.features = extension.features & config.v2.features;
    if technology == Technology::SmcR {
        judge_limits(extension.max_connections, extension.max_links)?;
        if extension.max_links > config.advertised_links() {
            return Err(DiagnosisCode::MAX_LINKS);
        }
        terms.max_connections = extension.max_connections;
        terms.max_links = extension.max_links;
    }
    Ok(terms)
}
