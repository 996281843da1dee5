//! A host whose engine has no room for a connection for which the SYNs already
//! promised SMC.

use smc_proto::storage::Storage;
use smc_proto::wire::clc::{ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs};
use smc_proto::wire::types::DiagnosisCode;

use super::socket::Clc;
use super::{Simulation, Transport};
use crate::describe::{self, Stream};

impl<S: Storage> Simulation<S> {
    /// A client declines in place of the Proposal: its application's bytes, where
    /// the server expects that message, would end the connection (CLC-072).
    pub(super) fn refuse_to_propose(&mut self, index: usize) {
        if let Some(socket) = self.sockets.get_mut(index) {
            (socket.clc, socket.state.transport) = (Clc::Over, Transport::Tcp);
            self.decline_for_want_of_room(index);
        }
    }

    /// Answers a Proposal with Decline, in the name of the engine. A client that
    /// declines by itself needs no answer, and one that does neither is on TCP.
    pub(super) fn refuse_proposal(&mut self, index: usize) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let (tcp, side) = (socket.tcp, socket.side);
        let bytes = self.fabric.tcp_unread(tcp, side);
        if describe::stream(bytes) == Stream::Incomplete {
            return;
        }
        (socket.clc, socket.state.transport) = (Clc::Over, Transport::Tcp);
        let Ok((message, length)) = ClcMessage::parse(bytes) else {
            return;
        };
        self.fabric.tcp_consume(tcp, side, length);
        if let ClcMessage::Proposal(_) = message {
            self.decline_for_want_of_room(index);
        }
    }

    fn decline_for_want_of_room(&mut self, index: usize) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let Some(host) = self.hosts.get(usize::from(socket.host.0)) else {
            return;
        };
        let decline = ClcMessage::Decline(Decline {
            version: ClcVersion::V1,
            out_of_sync: false,
            peer_id: host.endpoint.config().peer_id,
            diagnosis: DiagnosisCode::MEMORY,
            os: PeerOs::UNKNOWN,
        });
        let mut bytes = [0; MAX_LENGTH];
        let length = decline.emit(&mut bytes).unwrap_or(0);
        let bytes = bytes.get(..length).unwrap_or_default();
        self.fabric.tcp_send(socket.tcp, socket.side, bytes);
    }
}
