//! Whatever happened to the links of a group, once the peer behaves the group
//! works again, or it is gone: no exchange hangs, nothing is left behind.

use conformance::check;
use conformance::script::{Kind, Peer, Script, rnic};
use smc_proto::time::Duration;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage};

/// A small generator of numbers: the same ones in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A message of the peer, right or wrong.
fn remark(dice: &mut Dice, server: bool) -> LlcMessage<'static> {
    let link = 1 + dice.below(4) as u8;
    let port = 1 + dice.below(3) as u8;
    let rmb = 1 + dice.below(4) as u32;
    let orderly = match dice.below(3) {
        0 => DeleteLinkFlags::empty(),
        _ => DeleteLinkFlags::ORDERLY,
    };
    match dice.below(14) {
        0 if server => Peer::takes(link, port),
        0 => Peer::offer(link, port),
        1 if server => Peer::rejects(link),
        1 => Peer::offer(link + 1, port),
        2 if server => Peer::hint(port),
        2 => Peer::asks(link, port),
        3 if server => Peer::confirms(link, port),
        3 => Peer::continuation(1, link, &[1], false),
        4 => Peer::continuation(1, link, &[1, 2], server),
        5 | 6 => Peer::delete_link_with(orderly, link, false),
        7 => Peer::delete_link_with(orderly, link, true),
        8 | 9 => Peer::confirm_rkey_on(link, rmb, &[3 - link.min(2)]),
        10 => Peer::rkey_continuation(rmb, &[link]),
        11 => Peer::delete_rkey_on(link, &[rmb + 1]),
        _ => Peer::test_link(1, false),
    }
}

const HELD: [Kind; 5] = [
    Kind::Send,
    Kind::Register,
    Kind::QpToError,
    Kind::ActivateQp,
    Kind::Deregister,
];

/// One thing that happens.
fn happen(s: &mut Script, dice: &mut Dice, server: bool) {
    let number = 1 + dice.below(3) as u8;
    match dice.below(22) {
        0 => s.port_down(1 + dice.below(2) as u8),
        1 | 2 => s.port_up(1 + dice.below(3) as u8),
        3 => {
            if s.link_with_queue_pair(number).is_some() {
                s.break_link(number);
            }
        }
        4 => s.wait(Duration::from_millis(100 * dice.below(12))),
        5 => {
            if let Some(link) = s.link_with_queue_pair(number) {
                s.endpoint.delete_link(s.now, link);
                s.pump();
            }
        }
        // The RNICs take their time with one kind of command, or no longer do.
        6 => s.adapter.hold = Some(HELD[dice.below(5) as usize]),
        7 => s.release(),
        // The peer answers what it was asked.
        8..=14 => {
            answer_one(s, server);
        }
        _ => {
            let message = remark(dice, server);
            if let Some(link) = s.link_with_queue_pair(number) {
                s.send_on(link, message);
            }
        }
    }
}

/// The peer's port at the end of a link of its own choice.
fn port_of(link: u8) -> u8 {
    if link <= 4 { link } else { 1 + link % 3 }
}

/// The peer answers the engine's next message as it should; whether there was one.
fn answer_one(s: &mut Script, server: bool) -> bool {
    let Some((link, message)) = s.poll_llc_with_link() else {
        return false;
    };
    let over = s.number_of(link);
    let answer = match &message {
        LlcMessage::ConfirmRkey(m) if !m.reply => Peer::reply_to(&message),
        LlcMessage::ConfirmRkeyContinuation(m) if !m.reply => Peer::reply_to(&message),
        LlcMessage::DeleteRkey(m) if !m.reply => Peer::reply_to(&message),
        LlcMessage::TestLink(m) if !m.reply => Peer::reply_to(&message),
        LlcMessage::DeleteLink(m) if !m.reply && server => Peer::reply_to(&message),
        LlcMessage::DeleteLink(m) if !m.reply => message.clone(),
        // As client it takes every other offer.
        LlcMessage::AddLink(m) if !m.reply && server => match m.link.0 % 2 {
            0 => Peer::takes(m.link.0, port_of(m.link.0)),
            _ => Peer::rejects(m.link.0),
        },
        LlcMessage::AddLinkContinuation(m) if !m.reply => {
            Peer::continuation(over, m.link.0, &[1], true)
        }
        LlcMessage::ConfirmLink(m) if !m.reply => Peer::confirms(m.link.0, port_of(m.link.0)),
        // As server it follows every hint.
        LlcMessage::AddLink(m) if !m.reply => {
            let number = s.highest_number() % 250 + 1;
            check!(s, m.link.0, 0);
            Peer::offer(number, port_of(number))
        }
        LlcMessage::AddLink(m) if m.rejection.is_none() => {
            Peer::continuation(over, m.link.0, &[1], false)
        }
        LlcMessage::AddLinkContinuation(m) => {
            let number = m.link.0;
            if s.link_with_queue_pair(number).is_some() {
                s.over(number).send(Peer::asks(number, port_of(number)));
            }
            return true;
        }
        _ => return true,
    };
    s.send_on(link, answer);
    true
}

/// The peer behaves for some seconds.
fn behave(s: &mut Script, server: bool, seconds: u64) {
    for _ in 0..seconds * 5 {
        while answer_one(s, server) {}
        s.wait(Duration::from_millis(200));
    }
}

/// The group still serves a new connection.
fn serves(s: &mut Script, server: bool) {
    s.skip();
    s.paths = (1..=4).map(rnic).collect();
    let known = s.groups_up();
    if server {
        // The client proposes a port of a link that works.
        let works = s.subsequent_on_any_link(50);
        (s.peer.gid, s.peer.mac) = (works.gid, works.mac);
        let conn = s.server_wants_rmb();
        behave(s, server, 3);
        let accept = s.expect_accept(conn);
        check!(s, (known, accept.first_contact), (1, false));
    } else {
        let conn = s.connect();
        s.expect_proposal(conn);
        let accept = s.subsequent_on_any_link(50);
        s.accept(conn, accept);
        behave(s, server, 3);
        s.expect_confirm(conn);
    }
}

fn run(server: bool, links: u8, seed: u64) -> bool {
    let mut dice = Dice(seed);
    let mut s = match (server, links) {
        (true, 1) => Script::server_offers_second().0,
        (false, 1) => Script::client_awaits_second().0,
        (true, _) => Script::many_link_server(links).0,
        (false, _) => Script::many_link_client(links).0,
    };
    for _ in 0..4 + dice.below(25) {
        happen(&mut s, &mut dice, server);
        s.expect_agreement();
        check!(s, s.endpoint.last_steps() < 1_000, true);
        check!(s, s.endpoint.usage().links <= 10, true);
    }
    s.release();
    behave(&mut s, server, 20);
    let alive = s.endpoint.usage().groups == 1;
    if alive {
        serves(&mut s, server);
    }
    s.end();
    alive
}

#[test]
fn whatever_happened_to_a_servers_links_the_group_works_on_or_is_gone() {
    let survived = (0..1_500)
        .filter(|seed| run(true, 1 + (seed % 4) as u8, *seed))
        .count();
    assert!(survived > 100, "only {survived} groups survived");
}

#[test]
fn whatever_happened_to_a_clients_links_the_group_works_on_or_is_gone() {
    let survived = (0..1_500)
        .filter(|seed| run(false, 1 + (seed % 4) as u8, *seed))
        .count();
    assert!(survived > 100, "only {survived} groups survived");
}
