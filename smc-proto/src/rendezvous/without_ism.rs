//! The rendezvous of SMC-D in a build without the feature `smc-d`: it is neither offered nor
//! accepted.
//!
//! [`Paths::served`](crate::path::Paths) leaves ISM devices out, so that a server declines as a
//! host does that has none. [`SmcdEnds`] has no values: the compiler drops every branch that
//! depends on one.

use super::progress::Prepared;
use super::{Handshake, Role};
use crate::connection::Connection;
use crate::connection_record::{RemoteElement, Target};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnIdx, HandshakeIdx};
use crate::path::IsmPath;
use crate::version::SmcVersion;
use crate::wire::clc::SmcdAcceptConfirm;
use crate::wire::types::{DiagnosisCode, IsmGid};

/// Both ends of an SMC-D connection that is being made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SmcdEnds {}

impl Engine<'_> {
    /// Server: no ISM device is among those that it chooses from.
    pub(super) fn begin_smcd(
        &mut self,
        _: ConnIdx,
        handshake: HandshakeIdx,
        _: IsmPath,
        _: IsmGid,
    ) {
        debug_assert!(false, "ISM devices are left out");
        self.decline(handshake, DiagnosisCode::NO_SMCD_DEVICE, false);
    }

    pub(super) fn choose_ism_group(&mut self, _: ConnIdx, handshake: HandshakeIdx) {
        self.expect_smcr(handshake);
    }

    pub(super) fn start_ism_group(&mut self, handshake: HandshakeIdx, _: Role, _: bool) {
        self.expect_smcr(handshake);
    }

    pub(super) fn smcd_prepared(&self, _: ConnIdx, _: Role) -> Prepared {
        Prepared::No(DiagnosisCode::NO_SMCD_DEVICE)
    }

    pub(super) fn advance_attaching(&mut self, _: ConnIdx, handshake: HandshakeIdx) {
        self.expect_smcr(handshake);
    }

    pub(super) fn smcd_accept_confirm(&self, h: &Handshake) -> Option<SmcdAcceptConfirm> {
        match h.smcd? {}
    }

    pub(super) fn smcd_connection(
        &mut self,
        handshake: HandshakeIdx,
    ) -> Option<(Connection, RemoteElement, Target)> {
        match self.handshakes.at(handshake)?.smcd? {}
    }

    /// Client: an Accept of SMC-D, which was not offered.
    //= V2-130
    pub(super) fn on_smcd_accept(
        &mut self,
        _: ConnIdx,
        handshake: HandshakeIdx,
        accept: &SmcdAcceptConfirm,
    ) {
        if let Some(h) = self.handshakes.at_mut(handshake) {
            //= V2-071
            h.version = match accept.v2 {
                None => SmcVersion::V1,
                Some(_) => SmcVersion::V2,
            };
        }
        self.decline(handshake, DiagnosisCode::MODE_MISMATCH, false);
    }

    /// Server: a Confirm of SMC-D, which was not accepted.
    pub(super) fn on_smcd_confirm(
        &mut self,
        conn: ConnIdx,
        _: HandshakeIdx,
        _: &SmcdAcceptConfirm,
    ) {
        self.reset(conn, CloseReason::PeerMisbehaved);
    }

    /// Asserts that a rendezvous is not one of SMC-D.
    fn expect_smcr(&self, handshake: HandshakeIdx) {
        if let Some(h) = self.handshakes.at(handshake)
            && let Some(ends) = h.smcd
        {
            match ends {}
        }
    }
}

#[cfg(test)]
mod tests;
