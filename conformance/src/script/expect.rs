//! What a test expects the engine to send.

use core::fmt::Debug;

use smc_proto::command::TcpCommand;
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{ConnId, LinkId};
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::{AcceptConfirm, ClcKind, ClcMessage, Decline, Proposal};
use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, ConfirmLink, ConfirmRkey, ConfirmRkeyContinuation, DeleteLink,
    DeleteRkey, LlcMessage, TestLink,
};
use smc_proto::wire::types::{AddLinkRejectReason, DiagnosisCode};

use super::Script;

macro_rules! expect_llc {
    ($($(#[$doc:meta])* $name:ident, $variant:ident, $type:ty, $reply:literal;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&mut self) -> $type {
            match self.expect_llc() {
                LlcMessage::$variant(message) if message.reply == $reply => message,
                other => self.fail(format_args!("{} was expected, not {other}", stringify!($name))),
            }
        }
    )*};
}

impl Script {
    /// The next CLC message of the engine.
    #[track_caller]
    pub fn expect_clc(&mut self) -> (ConnId, ClcMessage) {
        match self.clc.pop_front() {
            Some(message) => message,
            None => self.fail("no CLC message was sent"),
        }
    }

    /// The next CLC message, if there is one.
    pub fn poll_clc(&mut self) -> Option<(ConnId, ClcMessage)> {
        self.clc.pop_front()
    }

    /// Takes the next CLC message if it is of this kind: whether it was.
    pub fn has_sent(&mut self, kind: ClcKind) -> bool {
        let sent = self
            .clc
            .front()
            .is_some_and(|(_, message)| message.kind() == kind);
        if sent {
            self.clc.pop_front();
        }
        sent
    }

    #[track_caller]
    fn clc_of(&mut self, conn: ConnId) -> ClcMessage {
        let (of, message) = self.expect_clc();
        if of != conn {
            self.fail(format_args!("{message} is of {of}, not of {conn}"));
        }
        message
    }

    /// A Proposal.
    #[track_caller]
    pub fn expect_proposal(&mut self, conn: ConnId) -> Proposal {
        match self.clc_of(conn) {
            ClcMessage::Proposal(message) => message,
            other => self.fail(format_args!("a Proposal was expected, not {other}")),
        }
    }

    /// An Accept.
    #[track_caller]
    pub fn expect_accept(&mut self, conn: ConnId) -> AcceptConfirm {
        match self.clc_of(conn) {
            ClcMessage::Accept(message) => message,
            other => self.fail(format_args!("an Accept was expected, not {other}")),
        }
    }

    /// A Confirm.
    #[track_caller]
    pub fn expect_confirm(&mut self, conn: ConnId) -> AcceptConfirm {
        match self.clc_of(conn) {
            ClcMessage::Confirm(message) => message,
            other => self.fail(format_args!("a Confirm was expected, not {other}")),
        }
    }

    /// A Decline with this code, after which the connection is plain TCP.
    #[track_caller]
    pub fn expect_decline(&mut self, conn: ConnId, code: DiagnosisCode) -> Decline {
        let decline = match self.clc_of(conn) {
            ClcMessage::Decline(message) => message,
            other => self.fail(format_args!("a Decline was expected, not {other}")),
        };
        if decline.diagnosis != code {
            self.fail(format_args!(
                "Decline {code} was expected, not {}",
                decline.diagnosis
            ));
        }
        self.expect_fallback(conn, code);
        decline
    }

    /// The connection became plain TCP with this code: whether a crossing
    /// Decline is watched for.
    #[track_caller]
    pub fn expect_fallback(&mut self, conn: ConnId, code: DiagnosisCode) -> bool {
        let watching = match self.expect_tcp() {
            (of, TcpCommand::HandOver { watch_for_decline }) if of == conn => watch_for_decline,
            other => self.fail(format_args!("{conn} was not handed over: {other:?}")),
        };
        match self.next_event() {
            Event::FellBack { conn: of, why } if of == conn && why.code == code => watching,
            other => self.fail(format_args!("fallback with {code} expected, not {other:?}")),
        }
    }

    /// The TCP connection was reset and the connection ended for this reason.
    #[track_caller]
    pub fn expect_reset(&mut self, conn: ConnId, reason: CloseReason) {
        let command = self.expect_tcp();
        if command != (conn, TcpCommand::Reset) {
            self.fail(format_args!("RST of {conn} expected, not {command:?}"));
        }
        self.expect_closed(conn, reason);
    }

    /// Takes the end of the connection for this reason; other events are skipped.
    #[track_caller]
    pub fn expect_closed(&mut self, conn: ConnId, reason: CloseReason) {
        loop {
            match self.next_event() {
                Event::Closed {
                    conn: of,
                    reason: r,
                } if of == conn && r == reason => return,
                Event::Readable { .. } | Event::Writable { .. } | Event::GroupDown { .. } => {}
                other => self.fail(format_args!("end of {conn}: {reason:?}, not {other:?}")),
            }
        }
    }

    /// The next command for a TCP connection.
    #[track_caller]
    pub fn expect_tcp(&mut self) -> (ConnId, TcpCommand) {
        match self.tcp.pop_front() {
            Some(command) => command,
            None => self.fail("no TCP command was given"),
        }
    }

    /// The next event.
    #[track_caller]
    pub fn next_event(&mut self) -> Event {
        match self.events.pop_front() {
            Some(event) => event,
            None => self.fail("nothing happened"),
        }
    }

    /// An event.
    #[track_caller]
    pub fn expect_event(&mut self, event: Event) {
        let found = self.next_event();
        self.expect_eq(found, event);
    }

    /// A connection carried by SMC-R; on first contact the group is up as well.
    #[track_caller]
    pub fn expect_established(&mut self, conn: ConnId) -> bool {
        // Events of a group may come before those of its connections.
        while let Some(Event::GroupUp { .. } | Event::GroupDown { .. }) = self.events.front() {
            self.events.pop_front();
        }
        let first_contact = match self.next_event() {
            Event::Established {
                conn: of,
                first_contact,
                ..
            } if of == conn => first_contact,
            other => self.fail(format_args!("{conn} is not established: {other:?}")),
        };
        // What follows at once are hints, and events of the group.
        while let Some(Event::Writable { .. } | Event::Readable { .. } | Event::GroupUp { .. }) =
            self.events.front()
        {
            self.events.pop_front();
        }
        first_contact
    }

    /// The next LLC message.
    #[track_caller]
    pub fn expect_llc(&mut self) -> LlcMessage<'static> {
        match self.llc.pop_front() {
            Some((_, message)) => message,
            None => self.fail("no LLC message was sent"),
        }
    }

    /// The next LLC message, if there is one.
    pub fn poll_llc(&mut self) -> Option<LlcMessage<'static>> {
        self.llc.pop_front().map(|(_, message)| message)
    }

    expect_llc! {
        /// A CONFIRM LINK request.
        expect_confirm_link, ConfirmLink, ConfirmLink, false;
        /// A CONFIRM LINK reply.
        expect_confirm_link_reply, ConfirmLink, ConfirmLink, true;
        /// An ADD LINK request.
        expect_add_link, AddLink, AddLink<'static>, false;
        /// An ADD LINK reply.
        expect_add_link_reply, AddLink, AddLink<'static>, true;
        /// An ADD LINK CONTINUATION request.
        expect_continuation, AddLinkContinuation, AddLinkContinuation, false;
        /// An ADD LINK CONTINUATION reply.
        expect_continuation_reply, AddLinkContinuation, AddLinkContinuation, true;
        /// A DELETE LINK request.
        expect_delete_link, DeleteLink, DeleteLink, false;
        /// A DELETE LINK reply.
        expect_delete_link_reply, DeleteLink, DeleteLink, true;
        /// A CONFIRM RKEY request.
        expect_confirm_rkey, ConfirmRkey, ConfirmRkey, false;
        /// A CONFIRM RKEY reply.
        expect_confirm_rkey_reply, ConfirmRkey, ConfirmRkey, true;
        /// A CONFIRM RKEY CONTINUATION request.
        expect_rkey_continuation, ConfirmRkeyContinuation, ConfirmRkeyContinuation, false;
        /// A CONFIRM RKEY CONTINUATION reply.
        expect_rkey_continuation_reply, ConfirmRkeyContinuation, ConfirmRkeyContinuation, true;
        /// A DELETE RKEY request.
        expect_delete_rkey, DeleteRkey, DeleteRkey<'static>, false;
        /// A DELETE RKEY reply.
        expect_delete_rkey_reply, DeleteRkey, DeleteRkey<'static>, true;
        /// A TEST LINK request.
        expect_test_link, TestLink, TestLink, false;
        /// A TEST LINK reply.
        expect_test_link_reply, TestLink, TestLink, true;
    }

    /// An ADD LINK reply that rejects for want of another path.
    #[track_caller]
    pub fn expect_add_link_rejection(&mut self) -> AddLink<'static> {
        let reply = self.expect_add_link_reply();
        self.expect_eq(
            reply.rejection,
            Some(AddLinkRejectReason::NO_ALTERNATE_PATH),
        );
        reply
    }

    /// The next CDC message and its link.
    #[track_caller]
    pub fn expect_cdc(&mut self) -> (LinkId, Cdc) {
        match self.cdc.pop_front() {
            Some(message) => message,
            None => self.fail("no CDC message was sent"),
        }
    }

    /// Nothing was sent over TCP or RDMA, and nothing happened.
    #[track_caller]
    pub fn expect_silence(&mut self) {
        let sent = (&self.clc, &self.llc, &self.cdc, &self.tcp, &self.events);
        if !(sent.0.is_empty()
            && sent.1.is_empty()
            && sent.2.is_empty()
            && sent.3.is_empty()
            && sent.4.is_empty())
        {
            self.fail(format_args!("silence was expected, not {sent:?}"));
        }
    }

    /// Discards what was sent and not expected.
    pub fn skip(&mut self) {
        self.clc.clear();
        self.llc.clear();
        self.cdc.clear();
        self.tcp.clear();
        self.events.clear();
    }

    /// Takes the events that were not expected.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    /// Two values are the same; if not, the conversation is printed.
    #[track_caller]
    pub fn expect_eq<T: PartialEq + Debug>(&self, found: T, expected: T) {
        if found != expected {
            self.fail(format_args!("expected {expected:?}, found {found:?}"));
        }
    }

    /// Expects these lines in the transcript in this order, others between them.
    #[track_caller]
    pub fn expect_transcript(&self, lines: &[&str]) {
        let mut transcript = self.transcript.iter();
        for line in lines {
            if !transcript.any(|noted| noted.contains(line)) {
                self.fail(format_args!(
                    "not in the transcript, or not in this order: {line}"
                ));
            }
        }
    }
}
