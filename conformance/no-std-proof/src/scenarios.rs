//! What two engines do with each other: every kind of opening, use and end.

use smc_proto::command::TcpCommand;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::config::ProposalVersion;
use smc_proto::connection::{CloseState, Shutdown};
use smc_proto::endpoint::{ConnOptions, TcpEvent};
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::path::{PathEvent, RoceVersion};
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{BufferSize, DiagnosisCode, Eid};

use crate::Failure;
#[cfg(feature = "trace")]
use crate::events;
use crate::fabric::{Answer, DEVICE, Pair, Refusal};
use crate::input::Input;
use crate::objects::{self, Handles};
use crate::sink::{Sink, keep};
use crate::values::Any;

const SECOND: u64 = 1_000_000_000;
/// Bytes carried in each direction by the large transfers.
const MEBIBYTE: u64 = 1 << 20;

type Both = (ConnId, ConnId);

fn ensure(condition: bool, failure: Failure) -> Result<(), Failure> {
    if condition { Ok(()) } else { Err(failure) }
}

/// The byte at a position of a stream.
fn octet_at(key: u64, at: u64) -> u8 {
    let mixed = (at ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8 ^ (mixed >> 24) as u8
}

/// An endless stream from a position on.
fn stream(key: u64, mut at: u64) -> impl FnMut() -> u8 {
    move || {
        let octet = octet_at(key, at);
        at = at.wrapping_add(1);
        octet
    }
}

/// Carries `total` octets each way at once, in writes of any size, and compares
/// each with what was sent.
fn transfer(pair: &mut Pair, input: &mut Input, both: Both, total: u64) -> Result<(), Failure> {
    let keys = [input.u64(), input.u64()];
    let conns = [both.0, both.1];
    let (mut sent, mut received) = ([0u64; 2], [0u64; 2]);
    for _ in 0..100_000 {
        let mut moved = false;
        let ends = conns.iter().zip(conns.iter().rev()).zip(keys);
        let counts = sent.iter_mut().zip(received.iter_mut());
        for (side, (((from, to), key), (sent, received))) in (0..2).zip(ends.zip(counts)) {
            let rest = total.saturating_sub(*sent);
            let most = u64::from(input.below(50_000)).saturating_add(1).min(rest) as u32;
            let now = pair.now;
            let n = pair
                .side(side)
                .0
                .write(now, *from, most, false, stream(key, *sent))?;
            *sent = sent.saturating_add(u64::from(n));
            pair.pump()?;
            let m = pair.side(side).1.read(now, *to, stream(key, *received))?;
            *received = received.saturating_add(u64::from(m));
            pair.pump()?;
            moved |= n > 0 || m > 0;
        }
        if received == [total; 2] {
            return Ok(());
        }
        if !moved {
            // Coalescing waits, and so does a cursor.
            pair.settle(SECOND)?;
        }
    }
    Err(Failure::TransferStands)
}

fn closed(pair: &mut Pair, both: Both, reasons: [CloseReason; 2]) -> Result<(), Failure> {
    let [a, b] = &pair.hosts;
    let found = [a.known(both.0).closed, b.known(both.1).closed];
    ensure(found == reasons.map(Some), Failure::ClosedOtherwise)
}

fn shutdown(pair: &mut Pair, side: usize, conn: ConnId, how: Shutdown) -> Result<(), Failure> {
    let now = pair.now;
    let (host, _) = pair.side(side);
    let mut connection = host.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
    connection.shutdown(now, how);
    pair.pump()
}

fn abort(pair: &mut Pair, side: usize, conn: ConnId) -> Result<(), Failure> {
    let now = pair.now;
    let (host, _) = pair.side(side);
    host.endpoint
        .conn(conn)
        .ok_or(Failure::NoSuchConnection)?
        .abort(now);
    pair.pump()?;
    pair.settle(10 * SECOND)
}

fn established(pair: &mut Pair, both: Both, first_contact: bool) -> Result<(), Failure> {
    let [a, b] = &pair.hosts;
    let found = [a.known(both.0).established, b.known(both.1).established];
    ensure(found == [Some(first_contact); 2], Failure::NotEstablished)
}

fn handles(pair: &mut Pair, conn: ConnId) -> Result<Handles, Failure> {
    let (host, _) = pair.side(0);
    let link = host.links.iter().flatten().next().map(|(link, _)| *link);
    let group = host.known(conn).group.ok_or(Failure::NotEstablished)?;
    let connection = host.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
    Ok(Handles {
        conn,
        group,
        link: link.ok_or(Failure::NoSuchLink)?,
        buffer: connection.readable().ok_or(Failure::NoSuchBuffer)?.buffer,
    })
}

/// All of them, each on fresh endpoints.
pub fn all(pair: &mut Pair, input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    // The first on the endpoints as the static holds them.
    life(pair, input, sink)?;
    pair.restart(input.u64(), |config| {
        config.eye_catcher = true;
        config.elements_per_rmb = 3;
        config.receive_buffer = BufferSize::K16;
        config.send_buffer = BufferSize::K16;
        config.proposal_version = ProposalVersion::V1;
    });
    eye_catcher(pair, input)?;
    declines(pair, input)?;
    silence(pair, input)?;
    lost_links(pair, input)?;
    moved_links(pair, input, sink)?;
    lost_tcp(pair, input)?;
    recorded(pair, sink)?;
    for _ in 0..8 {
        disorder(pair, input, sink)?;
        recorded(pair, sink)?;
    }
    Ok(())
}

/// Reads what the recorders of both endpoints kept.
#[cfg(feature = "trace")]
fn recorded(pair: &mut Pair, sink: &mut Sink) -> Result<(), Failure> {
    pair.hosts
        .iter_mut()
        .try_for_each(|host| events::recorded(&mut host.endpoint, sink))
}

#[cfg(not(feature = "trace"))]
#[allow(
    clippy::unnecessary_wraps,
    reason = "the same call as with the feature"
)]
const fn recorded(_: &mut Pair, _: &mut Sink) -> Result<(), Failure> {
    Ok(())
}

/// First contact, subsequent contact, data, half close, close, abort, urgent data,
/// TEST LINK, end of the group.
fn life(pair: &mut Pair, input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    let first = pair.open()?;
    established(pair, first, true)?;
    transfer(pair, input, first, MEBIBYTE)?;
    let mut options = ConnOptions::new(Subnets::any(input));
    options.nodelay = true;
    options.receive_buffer = Some(BufferSize::K16);
    let second = pair.open_with(options)?;
    established(pair, second, false)?;
    transfer(pair, input, second, MEBIBYTE)?;

    let live = handles(pair, first.0)?;
    objects::all(input, sink, live);
    #[cfg(feature = "trace")]
    events::observers(input, sink, live);
    let now = pair.now;
    objects::endpoint(&mut pair.side(0).0.endpoint, now, first.0, sink);
    recorded(pair, sink)?;

    // The client ends its direction; the server still sends.
    shutdown(pair, 0, second.0, Shutdown::Write)?;
    pair.settle(SECOND)?;
    let (_, server) = pair.side(0);
    let ended = server
        .endpoint
        .conn(second.1)
        .is_some_and(|c| c.is_end_of_stream());
    ensure(ended, Failure::NoEndOfStream)?;
    let (now, key) = (pair.now, input.u64());
    let n = pair
        .side(1)
        .0
        .write(now, second.1, 3000, false, stream(key, 0))?;
    pair.pump()?;
    pair.settle(SECOND)?;
    let now = pair.now;
    let m = pair.side(0).0.read(now, second.0, stream(key, 0))?;
    ensure((n, m) == (3000, 3000), Failure::HalfCloseLosesData)?;
    let (client, _) = pair.side(0);
    let state = client.endpoint.conn(second.0).and_then(|c| c.state());
    ensure(state != Some(CloseState::Active), Failure::ClosedOtherwise)?;
    shutdown(pair, 1, second.1, Shutdown::Both)?;
    pair.settle(SECOND)?;
    shutdown(pair, 0, second.0, Shutdown::Both)?;
    pair.settle(SECOND)?;
    closed(pair, second, [CloseReason::Normal; 2])?;
    let tcp = pair.side(0).0.known(second.0).tcp;
    ensure(tcp == Some(TcpCommand::Close), Failure::TcpOtherwise)?;

    let third = pair.open()?;
    established(pair, third, false)?;
    abort(pair, 1, third.1)?;
    closed(
        pair,
        third,
        [CloseReason::PeerAbort, CloseReason::LocalAbort],
    )?;

    urgent(pair, input)?;

    // Nothing for half a minute: TEST LINK asks, and the link lives.
    let before = pair.side(0).0.endpoint.statistics().llc_sent;
    pair.settle(40 * SECOND)?;
    let after = pair.side(0).0.endpoint.statistics().llc_sent;
    ensure(after > before, Failure::NoTestLink)?;
    transfer(pair, input, first, 1000)?;

    let group = live.group;
    let now = pair.now;
    pair.side(0).0.endpoint.delete_group(now, group);
    pair.pump()?;
    pair.settle(10 * SECOND)?;
    let [a, b] = &pair.hosts;
    ensure(a.known(first.0).closed.is_some(), Failure::GroupLives)?;
    ensure(b.known(first.1).closed.is_some(), Failure::GroupLives)?;
    ensure((a.groups_up, a.groups_down) == (1, 1), Failure::GroupLives)?;
    ensure((b.groups_up, b.groups_down) == (1, 1), Failure::GroupLives)
}

fn urgent(pair: &mut Pair, input: &mut Input) -> Result<(), Failure> {
    let mut options = ConnOptions::new(Subnets::default());
    options.urgent_inline = false;
    let both = pair.open_with(options)?;
    established(pair, both, false)?;
    let (now, key) = (pair.now, input.u64());
    let n = pair
        .side(0)
        .0
        .write(now, both.0, 100, true, stream(key, 0))?;
    pair.pump()?;
    pair.settle(SECOND)?;
    let now = pair.now;
    let (_, server) = pair.side(0);
    ensure(server.known(both.1).urgent > 0, Failure::NoUrgent)?;
    // Reading stops before the urgent byte, which is read out of line, and goes on
    // behind it.
    let m = server.read(now, both.1, stream(key, 0))?;
    ensure((n, m) == (100, 99), Failure::NoUrgent)?;
    let octet = server.read_urgent(now, both.1)?;
    ensure(octet == Some(octet_at(key, 99)), Failure::NoUrgent)?;
    transfer(pair, input, both, 10_000)?;
    // A cork holds bytes until it is drawn.
    let now = pair.now;
    let (client, _) = pair.side(0);
    if let Some(mut connection) = client.endpoint.conn(both.0) {
        connection.set_cork(now, true);
        connection.flush(now);
        keep(connection.buffer_sizes());
        keep(connection.reused_buffers());
        keep(connection.progress());
        keep(connection.group_and_link());
        connection.set_cork(now, false);
    }
    // The same in its place in the stream.
    let (now, key) = (pair.now, input.u64());
    let (client, server) = pair.side(0);
    let connection = server.endpoint.conn(both.1);
    connection
        .ok_or(Failure::NoSuchConnection)?
        .set_urgent_inline(true);
    let n = client.write(now, both.0, 50, true, stream(key, 0))?;
    pair.pump()?;
    pair.settle(SECOND)?;
    let now = pair.now;
    let m = pair.side(1).0.read(now, both.1, stream(key, 0))?;
    ensure((n, m) == (50, 50), Failure::NoUrgent)?;
    abort(pair, 0, both.0)?;
    closed(
        pair,
        both,
        [CloseReason::LocalAbort, CloseReason::PeerAbort],
    )
}

/// Several elements in one RMB, each with an eye catcher; one is damaged.
fn eye_catcher(pair: &mut Pair, input: &mut Input) -> Result<(), Failure> {
    let first = pair.open()?;
    let second = pair.open()?;
    established(pair, first, true)?;
    established(pair, second, false)?;
    transfer(pair, input, first, MEBIBYTE >> 2)?;
    transfer(pair, input, second, MEBIBYTE >> 2)?;
    ensure(
        pair.side(0).0.eye_catcher_stands(first.0)?,
        Failure::EyeCatcherMoved,
    )?;
    ensure(
        pair.side(1).0.eye_catcher_stands(second.1)?,
        Failure::EyeCatcherMoved,
    )?;
    let now = pair.now;
    let damaged = RdmaCompletion::EyeCatcherDamaged { conn: first.0 };
    pair.side(0).0.endpoint.handle_rdma(now, damaged);
    pair.pump()?;
    pair.settle(10 * SECOND)?;
    closed(
        pair,
        first,
        [CloseReason::EyeCatcherDamaged, CloseReason::PeerAbort],
    )?;
    transfer(pair, input, second, 1000)
}

/// Every way to plain TCP.
fn declines(pair: &mut Pair, input: &mut Input) -> Result<(), Failure> {
    let why = DiagnosisCode::any(input);
    pair.restart(input.u64(), |_| {});
    pair.side(1).0.answer = Answer::Decline(why);
    let both = pair.open()?;
    let [a, b] = &pair.hosts;
    let found = a
        .known(both.0)
        .fell_back
        .and_then(|reason| reason.peer_diagnosis);
    ensure(found == Some(why), Failure::NotDeclined)?;
    ensure(b.known(both.1).fell_back.is_some(), Failure::NotDeclined)?;
    let handed = matches!(a.known(both.0).tcp, Some(TcpCommand::HandOver { .. }));
    ensure(handed, Failure::TcpOtherwise)?;

    pair.restart(input.u64(), |_| {});
    let mut options = ConnOptions::new(Subnets::any(input));
    options.option_negotiated = false;
    let both = pair.open_with(options)?;
    ensure(
        pair.hosts[0].known(both.0).fell_back.is_some(),
        Failure::NotDeclined,
    )?;

    for (side, refusal) in [
        (0, Refusal::QueuePairs),
        (0, Refusal::Registrations),
        (1, Refusal::QueuePairs),
        (1, Refusal::Registrations),
    ] {
        pair.restart(input.u64(), |_| {});
        pair.side(side).0.refusal = refusal;
        let both = pair.open()?;
        pair.settle(30 * SECOND)?;
        let [a, b] = &pair.hosts;
        for known in [a.known(both.0), b.known(both.1)] {
            let ended = known.fell_back.is_some() || known.closed.is_some();
            ensure(ended && known.established.is_none(), Failure::NotDeclined)?;
        }
    }
    Ok(())
}

/// The peer does not answer.
fn silence(pair: &mut Pair, input: &mut Input) -> Result<(), Failure> {
    pair.restart(input.u64(), |_| {});
    pair.clc_lost = true;
    let both = pair.open()?;
    pair.settle(60 * SECOND)?;
    let [a, b] = &pair.hosts;
    for known in [a.known(both.0), b.known(both.1)] {
        ensure(
            known.fell_back.is_some() || known.closed.is_some(),
            Failure::NeverTimesOut,
        )?;
    }
    // The application does not answer either.
    pair.restart(input.u64(), |_| {});
    pair.side(1).0.answer = Answer::Wait;
    let both = pair.open()?;
    pair.settle(60 * SECOND)?;
    let [a, b] = &pair.hosts;
    for known in [a.known(both.0), b.known(both.1)] {
        ensure(
            known.fell_back.is_some() || known.closed.is_some(),
            Failure::NeverTimesOut,
        )?;
    }
    Ok(())
}

/// A port goes down, a queue pair breaks.
fn lost_links(pair: &mut Pair, input: &mut Input) -> Result<(), Failure> {
    for round in 0..3 {
        pair.restart(input.u64(), |_| {});
        let both = pair.open()?;
        established(pair, both, true)?;
        transfer(pair, input, both, 10_000)?;
        let (now, live) = (pair.now, handles(pair, both.0)?);
        let endpoint = &mut pair.side(0).0.endpoint;
        match round {
            0 => endpoint.handle_path(
                now,
                PathEvent::PortDown {
                    device: DEVICE,
                    port: 1,
                },
            ),
            1 => endpoint.handle_path(now, PathEvent::DeviceRemoved { device: DEVICE }),
            _ => {
                let cause = LinkFailure::RetriesExhausted;
                let (link, conn) = (live.link, Some(both.0));
                endpoint.handle_rdma(now, RdmaCompletion::LinkFailed { link, cause, conn });
            }
        }
        pair.pump()?;
        let known = pair.side(0).0.known(both.0);
        ensure(
            known.closed == Some(CloseReason::LinksLost),
            Failure::ClosedOtherwise,
        )?;
        // Back up: the next connection is a first contact again.
        let now = pair.now;
        let up = PathEvent::PortUp(pair.side(0).0.path);
        pair.side(0).0.endpoint.handle_path(now, up);
        pair.settle(120 * SECOND)?;
    }
    Ok(())
}

/// Two links; one is deleted in order or breaks, and the connection goes on.
fn moved_links(pair: &mut Pair, input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    let (v1, v2) = (RoceVersion::V1, RoceVersion::V2);
    for (orderly, roce) in [(true, v1), (false, v1), (true, v2), (false, v2)] {
        pair.restart(input.u64(), |config| {
            let _ = config.v2.ueids.push(Eid::system(1, 2));
        });
        pair.use_gids(roce);
        pair.add_spares();
        let both = pair.open()?;
        established(pair, both, true)?;
        transfer(pair, input, both, 50_000)?;
        let (now, live) = (pair.now, handles(pair, both.0)?);
        let endpoint = &mut pair.side(0).0.endpoint;
        ensure(endpoint.usage().links == 2, Failure::NoSuchLink)?;
        let terms = endpoint.terms(live.group).ok_or(Failure::NoSuchLink)?;
        sink.hashed(&terms, &terms);
        if let Some(host) = endpoint.peer_host(live.group) {
            sink.hashed(&host, &host);
        }
        ensure(terms.version == roce.smc(), Failure::NoSuchLink)?;
        ensure(endpoint.vlan(live.group).is_none(), Failure::NoSuchLink)?;
        let status = endpoint.link(live.link).ok_or(Failure::NoSuchLink)?;
        sink.value(&status, &status);
        if orderly {
            endpoint.delete_link(now, live.link);
        } else {
            let (link, conn) = (live.link, None);
            let cause = LinkFailure::RetriesExhausted;
            endpoint.handle_rdma(now, RdmaCompletion::LinkFailed { link, cause, conn });
        }
        transfer(pair, input, both, 50_000)?;
        let moved = pair.side(0).0.endpoint.statistics().failovers;
        ensure(moved == 1, Failure::ClosedOtherwise)?;
    }
    Ok(())
}

/// TCP ends beneath an SMC connection.
fn lost_tcp(pair: &mut Pair, input: &mut Input) -> Result<(), Failure> {
    for aborts in [false, true] {
        pair.restart(input.u64(), |config| config.tcp_reset_aborts = aborts);
        let both = pair.open()?;
        let now = pair.now;
        let (client, server) = pair.side(0);
        client.endpoint.handle_tcp(now, both.0, TcpEvent::PeerFin);
        server.endpoint.handle_tcp(now, both.1, TcpEvent::PeerFin);
        transfer(pair, input, both, 10_000)?;
        let now = pair.now;
        pair.side(0)
            .0
            .endpoint
            .handle_tcp(now, both.0, TcpEvent::PeerReset);
        pair.pump()?;
        if aborts {
            pair.settle(10 * SECOND)?;
            closed(pair, both, [CloseReason::TcpReset, CloseReason::PeerAbort])?;
        } else {
            transfer(pair, input, both, 10_000)?;
        }
    }
    Ok(())
}

/// Anything at any time: the outcome is not judged, only that it ends.
fn disorder(pair: &mut Pair, input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    let (eye_catcher, elements) = (input.bit(), input.octet());
    pair.restart(input.u64(), |config| {
        config.eye_catcher = eye_catcher;
        config.elements_per_rmb = elements;
        config.connections_per_group = 2;
        config.receive_buffer = BufferSize::K16;
    });
    let both = pair.open()?;
    let Ok(live) = handles(pair, both.0) else {
        return Ok(());
    };
    let mut conns = both;
    for _ in 0..64 {
        let side = usize::from(input.bit());
        let (now, conn) = (pair.now, if side == 0 { conns.0 } else { conns.1 });
        let octets: [u8; 80] = input.octets();
        let cut = octets.get(..input.below(80) as usize).unwrap_or(&octets);
        let endpoint = &mut pair.side(side).0.endpoint;
        match input.below(13) {
            0 => keep(endpoint.handle_clc(now, conn, cut)),
            1 => {
                // Bytes of a message that begin right.
                let mut message = octets;
                message[..8].copy_from_slice(&[0xe2, 0xd4, 0xc3, 0xd9, 2, 0, 68, 0x18]);
                keep(endpoint.handle_clc(now, conn, &message));
            }
            2 => {
                let completion = objects::any_completion(input, live, cut);
                endpoint.handle_rdma(now, completion);
            }
            3 => {
                let mut payload: [u8; 44] = input.octets();
                payload[..2].copy_from_slice(&[input.octet() & 0x0f, 44]);
                let link = live.link;
                endpoint.handle_rdma(
                    now,
                    RdmaCompletion::Received {
                        link,
                        payload: &payload,
                    },
                );
            }
            4 => {
                // A CDC message of this connection with any cursors.
                let mut cdc = smc_proto::wire::cdc::Cdc::any(input);
                cdc.alert_token.0 = input.u32();
                let (link, payload) = (live.link, &cdc.emit());
                endpoint.handle_rdma(now, RdmaCompletion::Received { link, payload });
            }
            5 => {
                let event =
                    input.one_of(&[TcpEvent::PeerFin, TcpEvent::PeerReset, TcpEvent::Failed]);
                endpoint.handle_tcp(now, conn, event);
            }
            6 => {
                let (device, port) = (DEVICE, input.octet() & 1);
                endpoint.handle_path(now, PathEvent::PortDown { device, port });
            }
            7 => {
                if let Some(mut connection) = endpoint.conn(conn) {
                    keep(connection.commit(now, input.below(20_000)));
                    keep(connection.consume(now, input.below(20_000)));
                    keep(connection.write(now, |space| space.len() >> 1));
                    keep(connection.read(now, |octets| octets.len().wrapping_add(1)));
                    keep(connection.commit_urgent(now, input.below(20)));
                }
            }
            8 => {
                if let Some(mut connection) = endpoint.conn(conn) {
                    let how = input.one_of(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]);
                    connection.shutdown(now, how);
                }
            }
            9 => {
                if let Ok(opened) = pair.open() {
                    conns = opened;
                }
            }
            10 => keep(pair.pump()),
            11 => {
                let time = input.u64() >> 28;
                keep(pair.settle(time));
            }
            _ => objects::endpoint(endpoint, now, conn, sink),
        }
    }
    keep(pair.pump());
    keep(pair.settle(1000 * SECOND));
    Ok(())
}
