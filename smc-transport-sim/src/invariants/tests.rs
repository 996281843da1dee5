//! The invariants catch what must not be: wrong histories, fed to the ledgers of
//! two engines that did nothing wrong.

use smc_proto::command::{BufferKind, RdmaCommand, Segment};
use smc_proto::config::Config;
use smc_proto::event::{CloseReason, FallbackReason};
use smc_proto::id::{BufferId, DeviceId, LinkId, WrId};
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{CDC_LENGTH, Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs};
use smc_proto::wire::llc::{DeleteRkey, Entries, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{
    AlertToken, BufferSize, Cursor, DiagnosisCode, Gid, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken,
    RmbeIndex,
};

use super::*;
use crate::completion::Completion;
use crate::fabric::{FabricConfig, PortConfig};
use crate::sim::{Simulation, SocketId};

const RING: u32 = 16 << 10;

/// Two engines with a connection between them, and the ledgers of what they did.
struct World {
    ledger: Invariants,
    host: HostId,
    conn: ConnId,
    link: LinkId,
    /// Another queue pair of the host.
    other: LinkId,
    rmb: BufferId,
    send: BufferId,
    /// The peer's element.
    target: Target,
    /// Token that the peer gave to the connection, and the connection's own.
    peer_token: u32,
    token: u32,
}

fn port(number: u8) -> PortConfig {
    PortConfig {
        device: DeviceId(0),
        port: 1,
        gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number]),
        mac: Mac([2, 0, 0, 0, 0, number]),
        mtu: Mtu::M1024,
        subnet: 0,
    }
}

impl World {
    fn new() -> Self {
        let mut simulation = Simulation::new(FabricConfig::default(), 1);
        let [host, peer] = [1, 2].map(|number| {
            let mut config = Config::new(PeerId::new(number.into(), port(number).mac));
            config.receive_buffer = BufferSize::K16;
            config.send_buffer = BufferSize::K16;
            let limits = Limits::for_connections(4);
            simulation.add_host("host", config, limits, &[port(number)])
        });
        simulation.check_invariants();
        let ends = simulation.connect(host, peer);
        let _ = simulation.connect(peer, host);
        simulation.run_for(Duration::from_secs(1));
        let conn = |socket: SocketId| simulation.life(socket).unwrap().conn.unwrap();
        let token = |socket: SocketId| simulation.life(socket).unwrap().alert_token.unwrap();
        let (conn, peer_conn) = (conn(ends.0), conn(ends.1));
        let (token, peer_token) = (token(ends.0), token(ends.1));
        let rmb_of = |simulation: &mut Simulation, host, conn| {
            let endpoint = simulation.endpoint(host).unwrap();
            let conn = endpoint.conn(conn).unwrap();
            (
                conn.readable().unwrap().buffer,
                conn.send_space().unwrap().buffer,
            )
        };
        let (rmb, send) = rmb_of(&mut simulation, host, conn);
        let (peer_rmb, _) = rmb_of(&mut simulation, peer, peer_conn);
        let ledger = simulation.invariants().unwrap().clone();
        assert_eq!(ledger.breaches(), []);
        let links: Vec<_> = ledger.hosts[&host].links.keys().copied().collect();
        let over = *ledger.hosts[&host].buffers[&rmb]
            .registered
            .keys()
            .next()
            .unwrap();
        let (link, other) = match links[..] {
            [one, other] if one == over => (one, other),
            [one, other] => (other, one),
            _ => panic!("{links:?}"),
        };
        Self {
            ledger,
            host,
            conn,
            link,
            other,
            rmb,
            send,
            target: Target {
                host: peer,
                buffer: peer_rmb.into(),
                offset: 0,
            },
            peer_token,
            token,
        }
    }

    fn command(&mut self, command: RdmaCommand) {
        self.ledger.on_command(self.host, &command, None);
    }

    /// WRITEs `length` bytes to a place of the peer's ring.
    fn write(&mut self, place: u64, length: u32) {
        let piece = Segment { offset: 0, length };
        let command = RdmaCommand::Write {
            link: self.link,
            conn: self.conn,
            buffer: self.send,
            source: [piece, Segment::default()],
            rkey: Default::default(),
            address: 0,
        };
        let target = Target {
            offset: self.target.offset + place,
            ..self.target
        };
        self.ledger.on_command(self.host, &command, Some(target));
    }

    fn send(&mut self, number: u32, payload: [u8; CDC_LENGTH]) {
        let command = RdmaCommand::Send {
            link: self.link,
            wr_id: WrId(number),
            payload,
        };
        self.command(command);
    }

    /// A CDC message of this side, with so many bytes produced.
    fn notify(&mut self, number: u32, produced: u32, flags: ConnectionFlags) {
        let payload = cdc(self.peer_token, produced, 0, flags);
        self.send(number, payload);
    }

    /// A CDC message of the peer, which read so many bytes.
    fn receive(&mut self, consumed: u32, flags: ConnectionFlags) {
        let payload = cdc(self.token, 0, consumed, flags).to_vec();
        let link = self.link;
        let completion = Completion::Received { link, payload };
        self.ledger.on_completion(self.host, &completion);
    }

    fn complete(&mut self, number: u32) {
        let (link, wr_id) = (self.link, WrId(number));
        let completion = Completion::Sent { link, wr_id };
        self.ledger.on_completion(self.host, &completion);
    }

    /// Takes the registration of the send buffer back.
    fn take_back(&mut self) {
        let (buffer, link) = (self.send, self.link);
        self.command(RdmaCommand::DeregisterBuffer { buffer, link });
    }

    fn broken(&self) -> Vec<Rule> {
        let breaches = self.ledger.breaches().iter();
        breaches.map(|breach| breach.rule).collect()
    }

    #[track_caller]
    fn expect(&self, rule: Rule, words: &str) {
        assert_eq!(self.broken(), [rule], "{:?}", self.ledger.breaches());
        let what = self.ledger.breaches()[0].violation.to_string();
        assert!(what.contains(rule.name()) && what.contains(words), "{what}");
    }
}

fn cdc(token: u32, produced: u32, consumed: u32, flags: ConnectionFlags) -> [u8; CDC_LENGTH] {
    let cursor = |total: u32| Cursor {
        wrap: (total / RING) as u16,
        count: total % RING,
    };
    let message = Cdc {
        sequence: 1,
        alert_token: AlertToken(token),
        producer: cursor(produced),
        consumer: cursor(consumed),
        producer_flags: ProducerFlags::empty(),
        connection_flags: flags,
    };
    message.emit()
}

const NONE: ConnectionFlags = ConnectionFlags::empty();
const CLOSED: ConnectionFlags = ConnectionFlags::PEER_CONNECTION_CLOSED;
const ABORTED: ConnectionFlags = ConnectionFlags::ABNORMAL_CLOSE;

#[test]
fn what_a_window_allows_is_written_and_announced() {
    let mut world = World::new();
    world.write(0, RING - 1);
    world.notify(100, RING - 1, NONE);
    world.receive(RING - 1, NONE);
    world.write(u64::from(RING) - 1, 1);
    world.write(0, RING - 1);
    world.notify(101, 2 * RING - 1, NONE);
    // Over another link, what was not confirmed is written again.
    world.link = world.other;
    world.write(u64::from(RING) - 1, 1);
    world.write(0, 5);
    assert_eq!(world.broken(), []);
}

#[test]
fn a_send_buffer_is_given_back_once_the_rnic_has_read_it() {
    let mut world = World::new();
    world.write(0, 1);
    world.notify(100, 1, NONE);
    world.complete(100);
    world.take_back();
    assert_eq!(world.broken(), []);
}

#[test]
fn a_completion_does_not_cover_a_write_behind_it() {
    let mut world = World::new();
    world.write(0, 1);
    world.notify(100, 1, NONE);
    world.write(1, 1);
    world.complete(100);
    world.take_back();
    world.expect(Rule::Contract, "while an RNIC may read");
}

#[test]
fn nothing_is_written_beyond_the_window() {
    let mut world = World::new();
    world.write(0, RING);
    world.write(0, 1);
    world.expect(Rule::Granted, "granted are 16384 octets from 0");
}

#[test]
fn on_one_link_writes_follow_each_other() {
    let mut world = World::new();
    world.write(0, 100);
    world.write(50, 50);
    world.expect(Rule::Granted, "place 50, next is 100");
}

#[test]
fn nothing_is_written_again_that_the_peer_has_read() {
    let mut world = World::new();
    world.write(0, 100);
    world.receive(100, NONE);
    world.link = world.other;
    world.write(50, 50);
    world.expect(Rule::Granted, "read up to 100");
}

#[test]
fn nothing_is_written_outside_of_the_element() {
    let mut world = World::new();
    world.write(u64::from(RING) - 1, 2);
    world.expect(Rule::Granted, "outside");
}

#[test]
fn nothing_is_written_after_the_last_message() {
    for flags in [CLOSED, ABORTED] {
        let mut world = World::new();
        world.notify(100, 0, flags);
        world.write(0, 1);
        world.expect(Rule::Granted, "after the last CDC message");
    }
}

#[test]
fn nothing_is_announced_that_was_not_written() {
    let mut world = World::new();
    world.write(0, 10);
    world.notify(100, 11, NONE);
    world.expect(Rule::Window, "announces 11 octets, wrote 10");
}

#[test]
fn an_application_is_offered_no_more_than_the_ring_holds() {
    let mut world = World::new();
    let spans = |length| {
        BufferSpans::new(
            world.rmb,
            [Segment { offset: 0, length }, Segment::default()],
        )
    };
    let (fits, too_long) = (spans(RING), spans(RING + 1));
    world.ledger.on_readable(world.host, world.conn, &fits);
    assert_eq!(world.broken(), []);
    world.ledger.on_readable(world.host, world.conn, &too_long);
    world.expect(Rule::Window, "offers 16385 octets");
}

#[test]
fn an_element_is_kept_while_the_peer_may_write_to_it() {
    let take_away = |world: &mut World| {
        let (buffer, link) = (world.rmb, world.link);
        world.command(RdmaCommand::DeregisterBuffer { buffer, link });
    };
    let mut world = World::new();
    take_away(&mut world);
    world.expect(Rule::Reuse, "may write");
    // The peer is done.
    let mut world = World::new();
    world.receive(0, CLOSED);
    take_away(&mut world);
    assert_eq!(world.broken(), []);
    // The queue pair is.
    let mut world = World::new();
    let link = world.link;
    world.command(RdmaCommand::QpToError { link });
    take_away(&mut world);
    assert_eq!(world.broken(), []);
    // A send buffer belongs to one engine alone.
    let mut world = World::new();
    let (buffer, link) = (world.send, world.link);
    world.command(RdmaCommand::DeregisterBuffer { buffer, link });
    assert_eq!(world.broken(), []);
}

#[test]
fn an_element_that_was_cleared_too_early_is_not_given_again() {
    for peer_done in [false, true] {
        let mut world = World::new();
        if peer_done {
            world.receive(0, ABORTED);
        }
        let clear = RdmaCommand::ClearElement {
            buffer: world.rmb,
            offset: 0,
            length: RING,
            eye_catcher: false,
        };
        world.command(clear);
        assert_eq!(world.broken(), []);
        world.receive(0, ABORTED);
        // The engine offers it once more.
        let ledger = &world.ledger.hosts[&world.host];
        let rtoken = *ledger.buffers[&world.rmb]
            .registered
            .values()
            .next()
            .unwrap();
        let offer = accept(rtoken);
        world.ledger.on_clc_sent(world.host, world.conn, &offer);
        if peer_done {
            assert_eq!(world.broken(), []);
        } else {
            world.expect(Rule::Reuse, "was cleared while");
        }
    }
}

/// A peer that was reset before it established a connection gives the element of
/// it to the next one, which may name it by the key of another link.
#[test]
fn a_peer_that_gives_its_element_away_is_done_with_whoever_had_it() {
    let mut world = World::new();
    let (host, peer) = (world.host, world.target.host);
    let of = |world: &World, host: HostId| {
        let conns = world.ledger.hosts[&host].conns.iter();
        let mut conns = conns.map(|(id, c)| (c.tcp, *id)).collect::<Vec<_>>();
        conns.sort_unstable();
        <[_; 2]>::try_from(conns).unwrap().map(|(_, conn)| conn)
    };
    let ([_, next], [had, given]) = (of(&world, host), of(&world, peer));
    // The peer's element has a key for another link too.
    let own = world.ledger.hosts[&peer].conns[&had].own.unwrap();
    let rtoken = RToken {
        rkey: RKey(0xfeed),
        address: 0x5000,
    };
    let mut links = world.ledger.hosts[&peer].links.keys().copied();
    let registered = &world.ledger.hosts[&peer].buffers[&own.buffer].registered;
    let link = links.find(|link| !registered.contains_key(link)).unwrap();
    let buffer = own.buffer;
    let completion = Completion::BufferRegistered {
        buffer,
        link,
        rtoken,
    };
    world.ledger.on_completion(peer, &completion);
    // There its connection ends, here nothing is known of that.
    let reason = CloseReason::CloseTimeout;
    let closed = Event::Closed { conn: had, reason };
    world.ledger.on_event(peer, &closed);
    let message = accept(rtoken);
    world.ledger.on_clc_sent(peer, given, &message);
    world.ledger.on_clc_received(host, next, &message);
    let (buffer, link) = (world.rmb, world.link);
    world.command(RdmaCommand::DeregisterBuffer { buffer, link });
    assert_eq!(world.broken(), []);
}

/// A peer that was reset before it established a connection sends no last message of it,
/// but withdraws the RMB.
#[test]
fn a_peer_that_withdraws_the_rmb_of_an_ended_connection_is_done_with_it() {
    for ended in [false, true] {
        let mut world = World::new();
        let peer = world.target.host;
        let (tcp, side, own) = {
            let c = &world.ledger.hosts[&world.host].conns[&world.conn];
            (c.tcp, c.side, c.peer_own.unwrap().1)
        };
        let ledger = &world.ledger.hosts[&peer];
        let mut ends = ledger.conns.iter();
        let end = ends.find(|(_, c)| c.tcp == tcp && c.side != side);
        let conn = *end.unwrap().0;
        let mut registered = ledger.buffers[&own.buffer].registered.values();
        let rkeys = registered.next().map(|rtoken| rtoken.rkey).into_iter();
        let message = DeleteRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            unknown: 0,
            rkeys: Entries::inline(rkeys),
        };
        if ended {
            let reason = CloseReason::RendezvousFailed;
            let closed = Event::Closed { conn, reason };
            world.ledger.on_event(peer, &closed);
        }
        let payload = LlcMessage::DeleteRkey(message)
            .emit_short(SmcVersion::V1)
            .unwrap()
            .to_vec();
        let (buffer, link) = (world.rmb, world.link);
        let completion = Completion::Received { link, payload };
        world.ledger.on_completion(world.host, &completion);
        world.command(RdmaCommand::DeregisterBuffer { buffer, link });
        match ended {
            true => assert_eq!(world.broken(), []),
            false => world.expect(Rule::Reuse, "may write"),
        }
    }
}

fn accept(rtoken: RToken) -> Vec<u8> {
    let message = ClcMessage::Accept(AcceptConfirm {
        first_contact: false,
        peer_id: PeerId::new(1, port(1).mac),
        gid: port(1).gid,
        mac: port(1).mac,
        qpn: Qpn::new(2),
        rtoken,
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(7),
        buffer_size: BufferSize::K16,
        mtu: Mtu::M1024,
        psn: Psn::new(0),
        v2: None,
    });
    let mut bytes = vec![0; MAX_LENGTH];
    let length = message.emit(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

#[test]
fn every_send_completes_once_and_in_order() {
    let mut world = World::new();
    let link = world.link;
    world.send(100, [9; CDC_LENGTH]);
    world.send(101, [9; CDC_LENGTH]);
    let sent = |number| Completion::Sent {
        link,
        wr_id: WrId(number),
    };
    world.ledger.on_completion(world.host, &sent(100));
    assert_eq!(world.broken(), []);
    world.ledger.on_completion(world.host, &sent(100));
    world.expect(Rule::Posted, "out of turn");
}

#[test]
fn no_number_is_under_way_twice() {
    let mut world = World::new();
    world.send(100, [9; CDC_LENGTH]);
    world.send(100, [9; CDC_LENGTH]);
    world.expect(Rule::Posted, "twice");
}

#[test]
fn nothing_is_posted_on_a_broken_link() {
    let mut world = World::new();
    let failed = Completion::LinkFailed {
        link: world.link,
        cause: smc_proto::completion::LinkFailure::Other,
        conn: None,
    };
    world.ledger.on_completion(world.host, &failed);
    world.send(100, [9; CDC_LENGTH]);
    world.expect(Rule::Posted, "which is over");
}

#[test]
fn one_control_command_for_each_object_at_a_time() {
    let mut world = World::new();
    let link = world.link;
    world.command(RdmaCommand::QpToError { link });
    world.command(RdmaCommand::DestroyQp { link });
    world.expect(Rule::Contract, "while another is in progress");
    let mut world = World::new();
    let (buffer, kind) = (world.send, BufferKind::Send);
    assert_eq!(world.ledger.hosts[&world.host].buffers[&buffer].kind, kind);
    world.command(RdmaCommand::FreeBuffer { buffer });
    world.command(RdmaCommand::FreeBuffer { buffer });
    world.expect(Rule::Contract, "while another is in progress");
}

#[test]
fn each_connection_ends_once_and_then_is_silent() {
    let mut world = World::new();
    let (host, conn) = (world.host, world.conn);
    assert!(world.ledger.unfinished(host).contains(&conn));
    let reason = CloseReason::Normal;
    world.ledger.on_event(host, &Event::Closed { conn, reason });
    assert!(!world.ledger.unfinished(host).contains(&conn));
    assert_eq!(world.broken(), []);
    world.ledger.on_event(host, &Event::Readable { conn });
    world.expect(Rule::Terminal, "after the last event");
    let mut world = World::new();
    for _ in 0..2 {
        world.ledger.on_event(host, &Event::Closed { conn, reason });
    }
    world.expect(Rule::Terminal, "after the last event");
}

#[test]
fn no_side_falls_back_to_tcp_without_an_event() {
    let fell_back = |conn| Event::FellBack {
        conn,
        why: FallbackReason::new(DiagnosisCode::LINK_READY),
    };
    let mut world = World::new();
    let (host, conn) = (world.host, world.conn);
    world.ledger.on_event(host, &fell_back(conn));
    world.expect(Rule::Agree, "falls back to TCP without a Decline");
    let decline = ClcMessage::Decline(Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id: PeerId::new(1, port(1).mac),
        diagnosis: DiagnosisCode::LINK_READY,
        os: PeerOs::UNKNOWN,
    });
    let mut bytes = [0; MAX_LENGTH];
    let length = decline.emit(&mut bytes).unwrap();
    for sent in [true, false] {
        let mut world = World::new();
        if sent {
            world.ledger.on_clc_sent(host, conn, &bytes[..length]);
        } else {
            world.ledger.on_clc_received(host, conn, &bytes[..length]);
        }
        world.ledger.on_event(host, &fell_back(conn));
        assert_eq!(world.broken(), []);
    }
}

#[test]
fn a_call_does_not_work_without_end() {
    let mut world = World::new();
    world.ledger.on_steps(world.host, MOST_STEPS);
    assert_eq!(world.broken(), []);
    world.ledger.on_steps(world.host, MOST_STEPS + 1);
    world.expect(Rule::Steps, "4097 steps");
    assert_eq!(world.ledger.most_steps(), MOST_STEPS + 1);
}

#[test]
fn another_instance_of_a_host_begins_with_nothing() {
    let mut world = World::new();
    world.ledger.on_restart(world.host);
    assert_eq!(world.ledger.unfinished(world.host), []);
    let (buffer, link) = (world.rmb, world.link);
    world.command(RdmaCommand::DeregisterBuffer { buffer, link });
    assert_eq!(world.broken(), []);
}
