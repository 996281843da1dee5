//! The states in which an endpoint waits for a CLC message, of SMC-R and of SMC-D: what a
//! peer sends in its TCP stream is judged alike, whatever is to carry the connection.

use std::fmt::Debug;

use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ClcError, ClcProgress, Endpoint};
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::ClcMessage;
use smc_transport_sim::sim::Tables;

use crate::script::{Peer, Script, Waiting};
use crate::smcd::hand::{Hand, Mode};

/// What an endpoint waits for, and over what it wants to speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitState {
    /// `None`: SMC-R.
    smcd: Option<Mode>,
    /// One of [`Waiting::FOR_CLC`].
    pub waiting: Waiting,
}

/// An endpoint that waits, and its connection that does.
#[derive(Clone, Debug)]
pub struct Reached {
    world: World,
    /// The connection.
    pub conn: ConnId,
    due: Vec<u8>,
}

// There is one of them at a time.
#[expect(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum World {
    SmcR(Script),
    SmcD(Hand),
}

impl WaitState {
    /// Every state, of SMC-R and of each mode of SMC-D.
    pub fn all() -> impl Iterator<Item = Self> {
        let transports = [None].into_iter().chain(Mode::ALL.map(Some));
        transports.flat_map(|smcd| Waiting::FOR_CLC.map(|waiting| Self { smcd, waiting }))
    }

    /// Whether it is one of SMC-D.
    #[must_use]
    pub const fn is_smcd(self) -> bool {
        self.smcd.is_some()
    }

    /// Bytes of an Accept or Confirm that mean nothing here.
    pub fn reserved(self) -> impl Iterator<Item = usize> {
        let (few, many) = match self.smcd.map(|mode| mode.version) {
            None => ([51, 60], 0..0),
            Some(SmcVersion::V1) => ([26, 27], 32..44),
            Some(SmcVersion::V2) => ([26, 27], 0..0),
        };
        few.into_iter().chain(many)
    }

    /// The message that is due.
    #[must_use]
    #[track_caller]
    pub fn due(self) -> Vec<u8> {
        self.reach().due
    }

    /// An endpoint in this state, nothing left to expect.
    #[must_use]
    #[track_caller]
    pub fn reach(self) -> Reached {
        match self.smcd {
            None => {
                let (script, conn) = self.waiting.reach();
                let due = Peer::octets(&due_of_smcr(self.waiting, &script.peer));
                let world = World::SmcR(script);
                Reached { world, conn, due }
            }
            Some(mode) => {
                let (hand, conn, due) = smcd(mode, self.waiting);
                let (due, world) = (Peer::octets(&due), World::SmcD(hand));
                Reached { world, conn, due }
            }
        }
    }
}

fn due_of_smcr(waiting: Waiting, peer: &Peer) -> ClcMessage {
    match waiting {
        Waiting::Accept => ClcMessage::Accept(peer.accept(1)),
        Waiting::SubsequentAccept => ClcMessage::Accept(peer.subsequent(2)),
        Waiting::Confirm => ClcMessage::Confirm(peer.accept(1)),
        Waiting::SubsequentConfirm => ClcMessage::Confirm(peer.subsequent(2)),
        _ => peer.proposal(),
    }
}

#[track_caller]
fn smcd(mode: Mode, waiting: Waiting) -> (Hand, ConnId, ClcMessage) {
    let mut hand = Hand::new(mode);
    if waiting == Waiting::SubsequentAccept {
        let _ = hand.client(true, 0xa);
    } else if waiting == Waiting::SubsequentConfirm {
        let _ = hand.server(true, 0xa);
    }
    let first = hand.half(true, 0xa);
    let next = hand.half(false, 0xb);
    let (conn, due) = match waiting {
        Waiting::Accept => (hand.connect(), ClcMessage::SmcdAccept(first)),
        Waiting::SubsequentAccept => (hand.connect(), ClcMessage::SmcdAccept(next)),
        Waiting::Confirm => (hand.accepts(), ClcMessage::SmcdConfirm(first)),
        Waiting::SubsequentConfirm => (hand.accepts(), ClcMessage::SmcdConfirm(next)),
        _ => (hand.listen(), hand.proposal()),
    };
    hand.sent_clc.clear();
    hand.events.clear();
    hand.tcp.clear();
    hand.moved.clear();
    (hand, conn, due)
}

impl Reached {
    /// The message that is due.
    #[must_use]
    pub fn due(&self) -> Vec<u8> {
        self.due.clone()
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut Endpoint<Tables> {
        match &mut self.world {
            World::SmcR(script) => &mut script.endpoint,
            World::SmcD(hand) => &mut hand.endpoint,
        }
    }

    /// Bytes over TCP: what the engine makes of them.
    ///
    /// # Errors
    /// The engine's.
    pub fn octets(&mut self, bytes: &[u8]) -> Result<ClcProgress, ClcError> {
        match &mut self.world {
            World::SmcR(script) => script.octets(self.conn, bytes),
            World::SmcD(hand) => hand.octets(self.conn, bytes),
        }
    }

    /// Compares; the transcript is printed where they differ.
    #[track_caller]
    pub fn expect_eq<T: PartialEq + Debug>(&self, found: T, expected: T) {
        match &self.world {
            World::SmcR(script) => script.expect_eq(found, expected),
            World::SmcD(hand) => {
                assert_eq!(found, expected, "{:?}\n{:#?}", hand.mode, hand.events);
            }
        }
    }

    /// The endpoint has nothing to send.
    #[track_caller]
    pub fn expect_silence(&mut self) {
        match &mut self.world {
            World::SmcR(script) => script.expect_silence(),
            World::SmcD(hand) => {
                assert!(hand.sent_clc.is_empty(), "{:?}", hand.sent_clc);
                assert!(hand.tcp.is_empty(), "{:?}", hand.tcp);
                assert!(hand.events.is_empty(), "{:?}", hand.events);
            }
        }
    }

    /// Malformed bytes end the TCP connection, are counted, and make no group.
    #[track_caller]
    pub fn expect_broken(mut self, bytes: &[u8]) {
        let violations = self.endpoint().statistics().violations;
        let groups = self.endpoint().usage().groups;
        let result = self.octets(bytes);
        self.expect_eq(result.is_err(), true);
        let conn = self.conn;
        let reason = CloseReason::PeerMisbehaved;
        match &mut self.world {
            World::SmcR(script) => script.expect_reset(conn, reason),
            World::SmcD(hand) => {
                assert_eq!(hand.tcp, [(conn, TcpCommand::Reset)]);
                assert_eq!(hand.closed(conn), Some(reason));
                hand.tcp.clear();
            }
        }
        let counted = self.endpoint().statistics().violations;
        self.expect_eq(counted, violations + 1);
        let groups_now = self.endpoint().usage().groups;
        self.expect_eq(groups_now <= groups, true);
        let again = self.octets(bytes);
        self.expect_eq(again, Ok(ClcProgress::NotClc));
        self.end();
    }

    /// Everything runs out, and nothing is left.
    #[track_caller]
    pub fn end(self) {
        match self.world {
            World::SmcR(script) => script.end(),
            World::SmcD(hand) => hand.end(),
        }
    }
}
