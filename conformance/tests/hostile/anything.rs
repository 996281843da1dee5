//! A peer, an adapter, an application and a clock that do anything, in any order:
//! the engine keeps the adapter's contract, does bounded work, and in the end
//! nothing is left.

use conformance::script::{DEVICE, Kind, Peer, Script};
use proptest::prelude::*;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::config::OnSilence;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::path::PathEvent;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, Qpn};

/// Few slots, so that they are used again soon.
const FEW: Limits = Limits::new(4, 3, 2, 3, 7, 5);

/// One thing that happens. Numbers pick among what there is.
#[derive(Clone, Copy, Debug)]
enum Act {
    Connect,
    Listen,
    /// The CLC message that moves the connection on, with small changes.
    Clc(u8, u8, bool, u8),
    Decline(u8, bool),
    Bytes(u8, u8),
    /// The answer to what the engine asked last.
    Answer,
    Llc(u8, u8, u8),
    Cdc(u8, u8, u16, u16, u8, u8),
    Write(u8, u32),
    Read(u8),
    End(u8, u8),
    Tcp(u8, u8),
    Path(u8),
    LinkFails(u8),
    Refuse(u8, u8),
    Hold(u8),
    Release(bool),
    DeleteGroup,
    Wait(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let n = any::<u8>;
    prop_oneof![
        4 => Just(Act::Connect),
        4 => Just(Act::Listen),
        12 => (n(), 0..4u8, any::<bool>(), 0..6u8).prop_map(|(c, r, f, m)| Act::Clc(c, r, f, m)),
        1 => (n(), any::<bool>()).prop_map(|(c, s)| Act::Decline(c, s)),
        1 => (n(), n()).prop_map(|(c, l)| Act::Bytes(c, l)),
        20 => Just(Act::Answer),
        3 => (n(), n(), n()).prop_map(|(l, k, v)| Act::Llc(l, k, v)),
        5 => (n(), n(), 0..20u16, 0..60u16, n(), n())
            .prop_map(|(c, s, p, k, f, g)| Act::Cdc(c, s, p, k, f, g)),
        4 => (n(), 1..70_000u32).prop_map(|(c, w)| Act::Write(c, w)),
        3 => n().prop_map(Act::Read),
        3 => (n(), 0..4u8).prop_map(|(c, h)| Act::End(c, h)),
        1 => (n(), 0..3u8).prop_map(|(c, e)| Act::Tcp(c, e)),
        1 => (0..3u8).prop_map(Act::Path),
        1 => n().prop_map(Act::LinkFails),
        2 => (0..12u8, 1..3u8).prop_map(|(k, n)| Act::Refuse(k, n)),
        2 => (0..12u8).prop_map(Act::Hold),
        3 => any::<bool>().prop_map(Act::Release),
        1 => Just(Act::DeleteGroup),
        4 => prop_oneof![1..50u32, 1..7_000u32, 1..700_000u32].prop_map(Act::Wait),
    ]
}

const KINDS: [Kind; 12] = [
    Kind::CreateQp,
    Kind::ConnectQp,
    Kind::ActivateQp,
    Kind::QpToError,
    Kind::DestroyQp,
    Kind::Alloc,
    Kind::Register,
    Kind::Deregister,
    Kind::Free,
    Kind::Clear,
    Kind::Send,
    Kind::Write,
];

struct World {
    s: Script,
    conns: Vec<ConnId>,
    tokens: Vec<AlertToken>,
    asked: Option<LlcMessage<'static>>,
}

impl World {
    fn conn(&self, pick: u8) -> Option<ConnId> {
        let len = self.conns.len();
        (len > 0).then(|| self.conns[len - 1 - usize::from(pick) % len.min(4)])
    }

    /// Takes what the engine sent: proposals are accepted, questions kept.
    fn listen(&mut self) {
        while let Some((_, message)) = self.s.poll_clc() {
            if let ClcMessage::Accept(m) | ClcMessage::Confirm(m) = message {
                self.tokens.push(m.alert_token);
            }
        }
        while let Some(message) = self.s.poll_llc() {
            if !message.is_reply() {
                self.asked = Some(message);
            }
        }
        for event in self.s.take_events() {
            if let Event::Proposed { conn } = event {
                let paths = self.s.paths.clone();
                let _ = self.s.endpoint.accept(self.s.now, conn, &paths);
                self.s.pump();
            }
        }
    }

    fn play(&mut self, act: Act) {
        let s = &mut self.s;
        match act {
            Act::Connect | Act::Listen => {
                let options = smc_proto::endpoint::ConnOptions::new(Default::default());
                let opened = match act {
                    Act::Connect => s.endpoint.connect(s.now, options, &s.paths.clone()),
                    _ => s.endpoint.listen(s.now, options),
                };
                self.conns.extend(opened.ok());
                s.pump();
            }
            Act::Clc(pick, rmb, first, mtu) => {
                if let Some(conn) = self.conn(pick) {
                    let s = &mut self.s;
                    s.peer.qpn = Qpn::new(if rmb == 3 { 0x4712 } else { 0x4711 });
                    let mut half = s.peer.accept(rmb.into());
                    half.first_contact = first;
                    half.mtu = smc_proto::wire::types::Mtu::from_code(if mtu == 0 { 0 } else { 3 });
                    for message in [
                        s.peer.proposal(),
                        ClcMessage::Accept(half),
                        ClcMessage::Confirm(half),
                    ] {
                        // The first kind the engine takes is the one that was due.
                        let mut copy = s.endpoint.clone();
                        if copy
                            .handle_clc(s.now, conn, &Peer::octets(&message))
                            .is_ok()
                        {
                            let _ = s.octets(conn, &Peer::octets(&message));
                            break;
                        }
                    }
                }
            }
            Act::Decline(pick, sync) => {
                if let Some(conn) = self.conn(pick) {
                    let bytes = Peer::octets(&self.s.peer.decline_with(sync));
                    let _ = self.s.octets(conn, &bytes);
                }
            }
            Act::Bytes(pick, length) => {
                if let Some(conn) = self.conn(pick) {
                    let _ = self.s.octets(conn, &vec![0xe2; length.into()]);
                }
            }
            Act::Answer => {
                let answer = match self.asked.take() {
                    Some(LlcMessage::ConfirmLink(_)) => s.peer.confirm_link_reply(),
                    Some(LlcMessage::AddLink(m)) if m.psn.value() & 1 == 0 => {
                        s.peer.add_link_acceptance()
                    }
                    Some(LlcMessage::AddLink(_)) => s.peer.add_link_rejection(),
                    Some(other) => Peer::reply_to(&other),
                    // There was no request: then the peer sends something.
                    None if s.now.as_nanos() & 1 == 0 => s.peer.confirm_link(),
                    None => s.peer.add_link(),
                };
                let links: Vec<_> = s.adapter.links().collect();
                for link in links {
                    s.send_on(link, answer.clone());
                }
            }
            Act::Llc(pick, kind, value) => {
                let message = match kind % 12 {
                    0 => Peer::test_link(value, false),
                    1 => Peer::test_link(value, true),
                    2 => Peer::confirm_rkey(value.into()),
                    3 => Peer::delete_rkey(&[(value & 3).into(), (value >> 4).into()]),
                    4 => Peer::delete_link(value & 3),
                    5 => Peer::delete_all(),
                    6 => s.peer.add_link(),
                    7 => s.peer.confirm_link(),
                    8 => Peer::reply_to(&Peer::delete_link(value & 3)),
                    9 => Peer::reply_to(&Peer::delete_rkey(&[1])),
                    10 => s.peer.add_link_acceptance(),
                    _ => Peer::reply_to(&Peer::confirm_rkey(value.into())),
                };
                let link = s.adapter.links().nth((pick & 1).into());
                if let Some(link) = link {
                    s.send_on(link, message);
                }
            }
            Act::Cdc(pick, sequence, produced, consumed, flags, state) => {
                let len = self.tokens.len();
                let link = s.adapter.links().next();
                if let (Some(link), true) = (link, len > 0) {
                    let token = self.tokens[len - 1 - usize::from(pick) % len.min(4)];
                    let cdc = Peer::cdc(token, sequence.into(), produced.into(), consumed.into());
                    // Mostly plain data, now and then flags of any kind.
                    let state = if state & 3 == 0 { state } else { 0 };
                    s.send_cdc(
                        link,
                        Cdc {
                            producer_flags: ProducerFlags::from_bits_truncate(flags & 0xf0),
                            connection_flags: ConnectionFlags::from_bits_truncate(state),
                            ..cdc
                        },
                    );
                }
            }
            Act::Write(pick, length) => {
                if let Some(conn) = self.conn(pick)
                    && let Some(mut c) = self.s.endpoint.conn(conn)
                {
                    let space = c.send_space().map_or(0, |space| space.len());
                    let _ = c.commit(self.s.now, length.min(space));
                    self.s.pump();
                }
            }
            Act::Read(pick) => {
                if let Some(conn) = self.conn(pick)
                    && let Some(mut c) = self.s.endpoint.conn(conn)
                {
                    let length = c.readable().map_or(0, |spans| spans.len());
                    let _ = c.consume(self.s.now, length);
                    self.s.pump();
                }
            }
            Act::End(pick, how) => {
                if let Some(conn) = self.conn(pick)
                    && let Some(mut c) = self.s.endpoint.conn(conn)
                {
                    match how {
                        0 => c.abort(self.s.now),
                        1 => c.shutdown(self.s.now, Shutdown::Write),
                        2 => c.shutdown(self.s.now, Shutdown::Read),
                        _ => c.shutdown(self.s.now, Shutdown::Both),
                    }
                    self.s.pump();
                }
            }
            Act::Tcp(pick, event) => {
                if let Some(conn) = self.conn(pick) {
                    let events = [TcpEvent::PeerFin, TcpEvent::PeerReset, TcpEvent::Failed];
                    self.s.tcp(conn, events[usize::from(event)]);
                }
            }
            Act::Path(what) => {
                let (device, port) = (DEVICE, 1);
                s.path(match what {
                    0 => PathEvent::PortDown { device, port },
                    1 => PathEvent::PortUp(s.paths[0]),
                    _ => PathEvent::DeviceRemoved { device },
                });
            }
            Act::LinkFails(pick) => {
                let link = s.adapter.links().nth((pick & 1).into());
                if let Some(link) = link {
                    let (cause, conn) = (LinkFailure::RemoteAccess, self.conns.last().copied());
                    s.complete(RdmaCompletion::LinkFailed { link, cause, conn });
                }
            }
            Act::Refuse(kind, number) => {
                s.adapter
                    .refuse(KINDS[usize::from(kind.min(9))], number.into());
            }
            Act::Hold(kind) => {
                s.release();
                s.adapter.hold = Some(KINDS[usize::from(kind.min(10))]);
            }
            Act::Release(true) => s.release(),
            Act::Release(false) => s.release_one(),
            Act::DeleteGroup => {
                if let Some(group) = s.group {
                    s.endpoint.delete_group(s.now, group);
                    s.pump();
                }
            }
            Act::Wait(time) => s.wait(Duration::from_millis(time.into())),
        }
        let steps = self.s.endpoint.last_steps();
        if steps > 2_000 {
            self.s.fail(format_args!("{steps} steps for {act:?}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_left_whatever_happens(
        settings in any::<[bool; 4]>(),
        start in 0..3,
        acts in prop::collection::vec(act(), 1..60),
    ) {
        //= CASE-D18 test
        //= CASE-A12 test
        //= CASE-D15 test
        //= CLC-065 test
        //= SEC-009 test
        let [reset, eye_catcher, shared, aborts] = settings;
        let s = Script::limited(FEW, |config| {
            if reset {
                config.confirm_link_timeout = OnSilence::Reset;
                config.add_link_timeout = OnSilence::Reset;
            }
            config.eye_catcher = eye_catcher;
            config.elements_per_rmb = if shared { 3 } else { 1 };
            config.tcp_reset_aborts = aborts;
        });
        let mut world = World { s, conns: Vec::new(), tokens: Vec::new(), asked: None };
        // Two runs of three start with a group that is up.
        let first = match start {
            0 => None,
            1 => Some(world.s.client_first_contact()),
            _ => Some(world.s.server_first_contact()),
        };
        if let Some((conn, token)) = first {
            world.conns.push(conn);
            world.tokens.push(token);
        }
        for act in acts {
            world.play(act);
            world.listen();
            world.s.expect_agreement();
        }
        world.s.release();
        // The applications go; the rest is up to the timers.
        for conn in std::mem::take(&mut world.conns) {
            if let Some(mut c) = world.s.endpoint.conn(conn) {
                c.shutdown(world.s.now, Shutdown::Both);
            }
            world.s.pump();
        }
        world.s.end();
    }
}
