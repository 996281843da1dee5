//! What the peer sends, and its effect.

use smc_proto::endpoint::{ClcError, ClcProgress};
use smc_proto::id::ConnId;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, SmcdAcceptConfirm};

use super::{Hand, Mode};
use crate::rig::peer::smcd;

impl Hand {
    // ---- what the peer does -----------------------------------------------------------

    /// Proposal of the peer.
    #[must_use]
    pub fn proposal(&self) -> ClcMessage {
        smcd::proposal(self.mode)
    }

    /// The peer's half of a connection, with its DMB of this token.
    #[must_use]
    pub fn half(&self, first_contact: bool, token: u64) -> SmcdAcceptConfirm {
        smcd::half(self.mode, first_contact, token)
    }

    /// Bytes over TCP: what the engine makes of them.
    ///
    /// # Errors
    /// The engine's.
    pub fn octets(&mut self, conn: ConnId, bytes: &[u8]) -> Result<ClcProgress, ClcError> {
        let result = self.endpoint.handle_clc(self.now, conn, bytes);
        self.pump();
        result
    }

    /// A whole message, which must be taken.
    #[track_caller]
    pub fn clc(&mut self, conn: ConnId, message: &ClcMessage) {
        let mut bytes = [0; MAX_LENGTH];
        let len = message.emit(&mut bytes).expect("it fits");
        let taken = self.octets(conn, bytes.get(..len).unwrap_or_default());
        assert!(
            matches!(taken, Ok(ClcProgress::Consumed { len: l, .. }) if l == len),
            "{taken:?}"
        );
    }

    // ---- what both come to ------------------------------------------------------------

    /// A connection as client, whose peer gives it its DMB of this token.
    #[track_caller]
    pub fn client(&mut self, first_contact: bool, token: u64) -> ConnId {
        let conn = self.connect();
        let accept = self.half(first_contact, token);
        self.clc(conn, &ClcMessage::SmcdAccept(accept));
        conn
    }

    /// A connection as server whose Accept is kept.
    #[track_caller]
    pub fn accepts(&mut self) -> ConnId {
        let conn = self.listen();
        let proposal = self.proposal();
        self.clc(conn, &proposal);
        conn
    }

    /// A connection as server.
    #[track_caller]
    pub fn server(&mut self, first_contact: bool, token: u64) -> ConnId {
        let conn = self.accepts();
        let confirm = self.half(first_contact, token);
        self.clc(conn, &ClcMessage::SmcdConfirm(confirm));
        conn
    }

    /// A new group and its first connection.
    #[must_use]
    #[track_caller]
    pub fn connected(mode: Mode, client: bool) -> (Self, ConnId) {
        let mut hand = Self::new(mode);
        let conn = match client {
            true => hand.client(true, 0xa),
            false => hand.server(true, 0xa),
        };
        assert!(hand.is_established(conn), "{:?}", hand.events);
        (hand, conn)
    }
}
