//! Scripts with several links: RNICs that come and go, links by number, and what
//! is sent over which link.

use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::event::Event;
use smc_proto::id::{DeviceId, LinkId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, ConfirmLink, ConfirmRkey, ConfirmRkeyContinuation, DeleteLink,
    DeleteLinkFlags, DeleteRkey, LlcMessage, TestLink,
};
use smc_proto::wire::types::Qpn;

use super::{Script, path};

/// The port of the endpoint's RNIC of this number; number 1 is the one that
/// scripts with one link use.
#[must_use]
pub fn rnic(number: u8) -> LocalPath {
    let mut path = path(number);
    path.device = DeviceId(number - 1);
    path.port = 1;
    path
}

/// Messages over one link.
#[derive(Debug)]
pub struct Over<'s> {
    script: &'s mut Script,
    link: LinkId,
}

macro_rules! expect_over {
    ($($name:ident $type:ty;)*) => {$(
        /// The next LLC message, which is this one, on this link.
        #[track_caller]
        pub fn $name(self) -> $type {
            self.check();
            self.script.$name()
        }
    )*};
}

impl Over<'_> {
    /// Sends an LLC message.
    pub fn send(self, message: LlcMessage<'static>) {
        self.script.send_on(self.link, message);
    }

    /// Sends a CDC message.
    pub fn send_cdc(self, cdc: Cdc) {
        self.script.send_cdc(self.link, cdc);
    }

    #[track_caller]
    fn check(&self) {
        let next = self.script.llc.front().map(|(link, _)| *link);
        if next != Some(self.link) {
            let (sent, link) = (&self.script.llc, self.link);
            self.script
                .fail(format_args!("a message on {link} expected, not {sent:?}"));
        }
    }

    expect_over! {
        expect_llc LlcMessage<'static>;
        expect_confirm_link ConfirmLink;
        expect_confirm_link_reply ConfirmLink;
        expect_add_link AddLink<'static>;
        expect_add_link_reply AddLink<'static>;
        expect_add_link_rejection AddLink<'static>;
        expect_continuation AddLinkContinuation;
        expect_continuation_reply AddLinkContinuation;
        expect_delete_link DeleteLink;
        expect_delete_link_reply DeleteLink;
        expect_confirm_rkey ConfirmRkey;
        expect_confirm_rkey_reply ConfirmRkey;
        expect_rkey_continuation ConfirmRkeyContinuation;
        expect_rkey_continuation_reply ConfirmRkeyContinuation;
        expect_delete_rkey DeleteRkey<'static>;
        expect_delete_rkey_reply DeleteRkey<'static>;
        expect_test_link TestLink;
        expect_test_link_reply TestLink;
    }

    /// The next CDC message, which is on this link.
    #[track_caller]
    pub fn expect_cdc(self) -> Cdc {
        let (link, cdc) = self.script.expect_cdc();
        self.script.expect_eq(link, self.link);
        cdc
    }
}

impl Script {
    /// Gives this side RNICs 1 to `count`, each with one port. Connections name
    /// the first four; the others are reported to the endpoint as they come up.
    #[must_use]
    pub fn rnics(mut self, count: u8) -> Self {
        self.paths = (1..=count.min(4)).map(rnic).collect();
        for number in 5..=count {
            self.port_up(number);
        }
        self
    }

    /// The port of an RNIC comes up.
    pub fn port_up(&mut self, number: u8) {
        self.path(PathEvent::PortUp(rnic(number)));
    }

    /// The port of an RNIC goes down.
    pub fn port_down(&mut self, number: u8) {
        let LocalPath { device, port, .. } = rnic(number);
        self.path(PathEvent::PortDown { device, port });
    }

    /// An RNIC is gone.
    pub fn remove_rnic(&mut self, number: u8) {
        let device = rnic(number).device;
        self.path(PathEvent::DeviceRemoved { device });
    }

    /// The link with this number.
    #[track_caller]
    pub fn link_no(&self, number: u8) -> LinkId {
        match self.numbers.get(&number) {
            Some(link) => *link,
            None => self.fail(format_args!("no link has number {number}")),
        }
    }

    /// The link whose queue pair at this side has this number.
    #[must_use]
    pub fn link_of(&self, qpn: Qpn) -> Option<LinkId> {
        self.adapter.link_of(qpn)
    }

    /// Returns the messages over the link with this number.
    #[track_caller]
    pub fn over(&mut self, number: u8) -> Over<'_> {
        let link = self.link_no(number);
        Over { script: self, link }
    }

    /// The queue pair of a link breaks: no acknowledgement came.
    #[track_caller]
    pub fn break_link(&mut self, number: u8) {
        let link = self.link_no(number);
        self.complete(RdmaCompletion::LinkFailed {
            link,
            cause: LinkFailure::RetriesExhausted,
            conn: None,
        });
    }

    /// The application is notified of a new link.
    #[track_caller]
    pub fn expect_link_up(&mut self, number: u8) {
        let wanted = self.link_no(number);
        match self.link_events.pop_front() {
            Some(Event::LinkUp { link, .. }) if link == wanted => {}
            other => self.fail(format_args!("link {number} is not up: {other:?}")),
        }
    }

    /// The application is notified that a link is gone.
    #[track_caller]
    pub fn expect_link_down(&mut self, number: u8) {
        let wanted = self.link_no(number);
        match self.link_events.pop_front() {
            Some(Event::LinkDown { link, .. }) if link == wanted => {}
            other => self.fail(format_args!("link {number} is not down: {other:?}")),
        }
    }

    /// The application is not notified of links.
    #[track_caller]
    pub fn expect_no_link_event(&self) {
        if !self.link_events.is_empty() {
            self.fail(format_args!("links changed: {:?}", self.link_events));
        }
    }

    /// Notes which link has which number, as the engine's messages show.
    pub(super) fn note_number(&mut self, message: &LlcMessage<'_>) {
        let (number, qpn) = match message {
            LlcMessage::ConfirmLink(m) => (m.link, m.qpn),
            LlcMessage::AddLink(m) if m.rejection.is_none() => (m.link, m.qpn),
            _ => return,
        };
        if let Some(link) = self.adapter.link_of(qpn) {
            self.numbers.insert(number.0, link);
        }
    }
}

impl Script {
    /// Discards requests of this side to delete single links.
    pub fn skip_delete_requests(&mut self) {
        let single = |m: &DeleteLink| !m.reply && !m.flags.contains(DeleteLinkFlags::ALL);
        self.llc
            .retain(|(_, m)| !matches!(m, LlcMessage::DeleteLink(m) if single(m)));
    }

    /// The next LLC message, which stays where it is.
    #[must_use]
    pub fn next_llc(&self) -> Option<&LlcMessage<'static>> {
        self.llc.front().map(|(_, message)| message)
    }

    /// The next LLC message and its link, if there is one.
    pub fn poll_llc_with_link(&mut self) -> Option<(LinkId, LlcMessage<'static>)> {
        self.llc.pop_front()
    }

    /// The number of a link, 1 if it has none yet.
    #[must_use]
    pub fn number_of(&self, link: LinkId) -> u8 {
        let named = self.numbers.iter().find(|(_, known)| **known == link);
        named.map_or(1, |(number, _)| *number)
    }

    /// The highest number a link had.
    #[must_use]
    pub fn highest_number(&self) -> u8 {
        self.numbers.keys().copied().max().unwrap_or(0)
    }

    /// How many groups there are.
    pub fn groups_up(&mut self) -> u32 {
        self.endpoint.usage().groups
    }

    /// An Accept for a further connection that names a link that works.
    #[track_caller]
    pub fn subsequent_on_any_link(&self, rmb: u32) -> AcceptConfirm {
        let works = |number: &u8| self.link_with_queue_pair(*number).is_some();
        let Some(number) = self.numbers.keys().copied().find(works) else {
            self.fail("no link works");
        };
        let (qpn, gid, mac) = self.adapter.peer_of(self.numbers[&number]);
        AcceptConfirm {
            qpn,
            gid,
            mac,
            ..self.peer.subsequent(rmb)
        }
    }

    /// The link with this number, if it has a queue pair that is not broken.
    #[must_use]
    pub fn link_with_queue_pair(&self, number: u8) -> Option<LinkId> {
        let link = self.numbers.get(&number)?;
        self.adapter.links().find(|other| other == link)
    }

    /// The next CDC message, if there is one on this link.
    pub fn poll_cdc_over(&mut self, number: u8) -> Option<Cdc> {
        let wanted = self.numbers.get(&number).copied();
        let (link, _) = self.cdc.front()?;
        (Some(*link) == wanted)
            .then(|| self.cdc.pop_front().map(|(_, cdc)| cdc))
            .flatten()
    }

    /// Rejects what is offered over a link until it is this RNIC's port: the
    /// number of that link.
    #[track_caller]
    pub fn refuse_offers_but(&mut self, rnic_number: u8, over: u8) -> u8 {
        loop {
            let offer = self.over(over).expect_add_link();
            if offer.gid == rnic(rnic_number).gid {
                return offer.link.0;
            }
            self.over(over).send(super::Peer::rejects(offer.link.0));
        }
    }

    /// Lets time pass in which the peer sends on these links, so that they are not
    /// tested.
    #[track_caller]
    pub fn pass(&mut self, time: core::time::Duration, links: &[u8]) {
        let step = core::time::Duration::from_secs(10);
        let end = self.now.after(time);
        while self.now < end {
            self.wait(end.since(self.now).min(step));
            for link in links {
                self.over(*link).send(super::Peer::test_link(*link, false));
            }
            self.llc
                .retain(|(_, m)| !matches!(m, LlcMessage::TestLink(m) if m.reply));
        }
    }
}
