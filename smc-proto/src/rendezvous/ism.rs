//! SMC-D: from the choice to a group of the device.

use super::version;
use crate::config::Offers;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::path::IsmPath;
use crate::version::{SmcVersion, Technology};
use crate::wire::clc::SmcdAcceptConfirm;
use crate::wire::types::{DiagnosisCode, IsmGid};

impl Engine<'_> {
    /// Server: the group of a device and a peer is to carry the connection.
    pub(crate) fn choose_ism_group(
        &mut self,
        _conn: u32,
        handshake: u32,
        _path: IsmPath,
        _peer: IsmGid,
    ) {
        self.decline(handshake, DiagnosisCode::NO_SMCD_DEVICE, false);
    }

    /// The server's Accept of SMC-D.
    //= V2-130
    //= D-026
    pub(crate) fn on_smcd_accept(&mut self, conn: u32, handshake: u32, accept: &SmcdAcceptConfirm) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let (version, offer) = match accept.v2 {
            None => (SmcVersion::V1, Offers::SMCD_V1),
            Some(_) => (SmcVersion::V2, Offers::SMCD_V2),
        };
        //= V2-071
        h.version = version;
        if !h.offers.contains(offer) {
            self.decline(handshake, DiagnosisCode::MODE_MISMATCH, false);
            return;
        }
        let peer = accept.device();
        let offered = |path: &&IsmPath| match version {
            SmcVersion::V1 => path.pnet_match,
            SmcVersion::V2 => path.v2 && path.gid.chid == peer.chid,
        };
        let Some(path) = h.ism().iter().find(offered).copied() else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        if let Some(v2) = &accept.v2 {
            h.agreed.eid = v2.eid;
            if accept.first_contact {
                let extension = &v2.extension;
                match version::confirm_terms(&self.core.config, Technology::SmcD, extension) {
                    Ok(terms) => h.agreed.terms = terms,
                    Err(code) => return self.decline(handshake, code, false),
                }
            }
        }
        self.join_ism_group(conn, handshake, path, peer);
    }

    /// Client: the group of a device and a peer carries the connection.
    fn join_ism_group(&mut self, _conn: u32, handshake: u32, _path: IsmPath, _peer: IsmGid) {
        self.decline(handshake, DiagnosisCode::NO_SMCD_DEVICE, false);
    }
}
