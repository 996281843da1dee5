//! CLC messages: they begin connections and link groups.

use smc_capture::follow::TcpSign;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage};

use super::{Checker, Moment, judge};
use crate::known::Place;
use crate::rules;
use crate::state::connection::{Connection, End};
use crate::state::group::Group;
use crate::state::link::{Link, LinkEnd};
use crate::state::side::Side;
use crate::state::stream::{Answer, Stream};
use crate::view::{ClcView, TcpView};

impl Checker {
    pub(super) fn clc(
        &mut self,
        at: Moment,
        number: u64,
        from: Side,
        message: &ClcMessage,
        bytes: &[u8],
    ) {
        self.report.seen.clc += 1;
        self.known.stream(number);
        let Self { known, report, .. } = self;
        let Some(stream) = known.streams.get(&number) else {
            return;
        };
        let named = match message {
            ClcMessage::Accept(m) | ClcMessage::Confirm(m) => known.place((m.gid, m.qpn)),
            _ => None,
        };
        let group = named.map(|place| place.group).or(stream.group);
        let group = group.and_then(|n| Some((n, known.groups.get(&n)?.gaps)));
        let view = ClcView {
            known,
            stream,
            from,
            message,
            bytes,
            time: at.time,
        };
        judge(report, at, group, rules::clc::RULES, &view);
        judge(report, at, group, rules::version::RULES, &view);
        judge(report, at, group, rules::contact::RULES, &view);
        self.note_clc(number, from, message);
    }

    fn note_clc(&mut self, number: u64, from: Side, message: &ClcMessage) {
        match message {
            ClcMessage::Proposal(proposal) => {
                let stream = self.known.stream(number);
                stream
                    .proposal
                    .get_or_insert_with(|| Box::new(proposal.clone()));
            }
            ClcMessage::Accept(accept) => {
                let answer = Answer::SmcR(Box::new(*accept));
                let stream = self.known.stream(number);
                if from == Side::Server && stream.accept.is_none() {
                    stream.accept = Some(answer);
                    self.accept(number, accept);
                }
            }
            ClcMessage::Confirm(confirm) => {
                let answer = Answer::SmcR(Box::new(*confirm));
                let stream = self.known.stream(number);
                if from == Side::Client && stream.confirm.is_none() {
                    stream.confirm = Some(answer);
                    self.confirm(number, confirm);
                }
            }
            ClcMessage::SmcdAccept(accept) => {
                let answer = Answer::SmcD(Box::new(*accept));
                self.known.stream(number).accept = Some(answer);
            }
            ClcMessage::SmcdConfirm(confirm) => {
                let answer = Answer::SmcD(Box::new(*confirm));
                self.known.stream(number).confirm = Some(answer);
                self.report.seen.smcd_connections += 1;
            }
            ClcMessage::Decline(decline) => {
                *self.known.stream(number).declines.of_mut(from) = Some(*decline);
                self.declined(number);
            }
        }
    }

    /// The server's end: of a new group, or of a link there is.
    fn accept(&mut self, number: u64, accept: &AcceptConfirm) {
        let end = link_end(accept);
        // The link may have gone since the server chose it: the group is what counts.
        let known = self.known.in_live_group(end.address);
        let known = known.filter(|place| place.owner == Side::Server && !accept.first_contact);
        let place = known.unwrap_or_else(|| {
            let mut group = Group::new(accept.first_contact);
            group.links.push(Link::new(accept.first_contact));
            *group.peers.of_mut(Side::Server) = Some(accept.peer_id);
            let place = Place {
                group: self.known.begin(group),
                link: 0,
                owner: Side::Server,
            };
            self.known.set_end(place, end);
            place
        });
        let connection = self.known.connection();
        if let Some(group) = self.known.groups.get_mut(&place.group) {
            group.open(connection, Connection::new(number));
        }
        let stream = self.known.stream(number);
        stream.group = Some(place.group);
        stream.connection = Some(connection);
        self.set_connection_end(place, connection, accept);
    }

    /// The client's end.
    fn confirm(&mut self, number: u64, confirm: &AcceptConfirm) {
        self.report.seen.smcr_connections += 1;
        let Stream {
            group: Some(group),
            connection: Some(connection),
            accept: Some(Answer::SmcR(accept)),
            ..
        } = self.known.stream(number).clone()
        else {
            return;
        };
        let end = link_end(confirm);
        let known = self.known.place(end.address);
        let known = known.filter(|p| p.group == group && p.owner == Side::Client);
        let place = known.filter(|_| !accept.first_contact).unwrap_or_else(|| {
            let served = self.known.place((accept.gid, accept.qpn));
            Place {
                group,
                link: served.filter(|p| p.group == group).map_or(0, |p| p.link),
                owner: Side::Client,
            }
        });
        if known.is_none() || accept.first_contact {
            self.known.set_end(place, end);
            if let Some(group) = self.known.groups.get_mut(&group) {
                *group.peers.of_mut(Side::Client) = Some(confirm.peer_id);
            }
        }
        if accept.first_contact {
            self.begin((accept.gid, accept.qpn), confirm.psn);
            self.begin(end.address, accept.psn);
        }
        self.set_connection_end(place, connection, confirm);
    }

    fn set_connection_end(&mut self, place: Place, connection: u64, message: &AcceptConfirm) {
        let Some(group) = self.known.groups.get_mut(&place.group) else {
            return;
        };
        let rmb = group.learn(place.owner, place.link, message.rtoken);
        group.count(place.owner, rmb, place.link);
        let end = End {
            token: message.alert_token,
            rmb,
            index: message.rmbe_index.0,
            size: message.buffer_size.octets(),
        };
        group.set_end(connection, place.owner, end);
    }

    /// A connection goes on as TCP; a group that was only for it ends.
    fn declined(&mut self, number: u64) {
        let stream = self.known.stream(number).clone();
        let group = stream.group.and_then(|n| self.known.groups.get_mut(&n));
        let (Some(group), Some(connection)) = (group, stream.connection) else {
            return;
        };
        if let Some(connection) = group.connections.get_mut(&connection) {
            connection.declined = true;
        }
        if stream.accept.as_ref().is_some_and(Answer::first_contact) {
            group.ended = Some(Side::Client);
        }
    }

    pub(super) fn tcp_sign(&mut self, at: Moment, number: u64, from: Side, sign: TcpSign) {
        self.known.stream(number);
        let Self { known, report, .. } = self;
        let Some(stream) = known.streams.get(&number) else {
            return;
        };
        let view = TcpView { stream, from, sign };
        let group = None;
        judge(report, at, group, rules::tcp::RULES, &view);
        let group = stream.group.and_then(|n| known.groups.get_mut(&n));
        let connection = stream.connection;
        let connection = group.and_then(|group| group.connections.get_mut(&connection?));
        if let Some(connection) = connection.filter(|_| !matches!(sign, TcpSign::Data { .. })) {
            connection.tcp_over = true;
        }
    }
}

fn link_end(message: &AcceptConfirm) -> LinkEnd {
    LinkEnd {
        address: (message.gid, message.qpn),
        mac: message.mac,
        mtu: message.mtu,
        psn: message.psn,
    }
}
