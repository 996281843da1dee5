//! SMC-D: streams, every end there is, and everything a device or a peer may report.

use smc_proto::command::{IsmCommand, Signal};
use smc_proto::completion::IsmCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::time::Duration;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::ism_event::{EventInfo, SHUTDOWN, TEST};

use crate::Failure;
use crate::input::Input;
use crate::ism_pair::{DEVICE, IsmPair, gid};
use crate::sink::{Sink, keep};

/// Plays all of it.
pub fn all(pair: &mut IsmPair, input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    for maps in [[true; 2], [false; 2], [true, false]] {
        pair.restart(input.u64(), maps);
        stream(pair, input).ok_or(Failure::TransferStands)?;
        values(pair, input, sink).ok_or(Failure::NoSuchConnection)?;
        ends(pair, input).ok_or(Failure::ClosedOtherwise)?;
        reports(pair, input).ok_or(Failure::GroupLives)?;
        refusals(pair, input).ok_or(Failure::NeverIdle)?;
        #[cfg(feature = "trace")]
        for end in &mut pair.ends {
            crate::events::recorded(&mut end.endpoint, sink)?;
        }
    }
    Ok(())
}

/// Shows what goes between an endpoint and a device.
fn values(pair: &mut IsmPair, input: &mut Input, sink: &mut Sink) -> Option<()> {
    let end = pair.side(0).0;
    let (conn, buffer) = (end.conn?, end.dmb()?);
    let cdc = input.octets();
    sink.value(
        &IsmCommand::Signal { conn, buffer, cdc },
        &IsmCommand::ClearDmb { buffer },
    );
    let signal = |cdc| Signal { conn, buffer, cdc };
    let other = CdcIsm::parse(&cdc, Endianness::NATIVE).unwrap_or_default();
    sink.value(&signal(CdcIsm::default()), &signal(other));
    sink.hashed(
        &IsmCompletion::Signalled { buffer, cdc },
        &IsmCompletion::MoveFailed { conn },
    );
    let info = EventInfo::from_bits(input.u64(), Endianness::NATIVE);
    let other = EventInfo::from_bits(input.u64(), Endianness::NATIVE);
    sink.hashed(&info, &other);
    let (before, token) = end.endpoint.conn(conn)?.progress()?;
    let (after, same) = end.endpoint.conn(conn)?.progress()?;
    sink.value(&before, &after);
    sink.value(&token, &same);
    let (before, after) = (end.endpoint.readiness(conn)?, end.endpoint.readiness(conn)?);
    sink.value(&before, &after);
    Some(())
}

fn pass(pair: &mut IsmPair, from: usize, octets: &[u8], urgent: bool) -> Option<()> {
    let to = 1_usize.checked_sub(from)?;
    let mut got = [0; 64];
    let mut left = octets;
    for _ in 0..1_000 {
        if left.is_empty() {
            break;
        }
        let part = left.get(..left.len().min(got.len()))?;
        let sent = pair.write(from, part, urgent)?;
        pair.pump()?;
        let read = pair.read(to, &mut got)?;
        (part.get(..sent)? == got.get(..read)?).then_some(())?;
        left = left.get(sent..)?;
        pair.pump()?;
    }
    left.is_empty().then_some(())
}

fn stream(pair: &mut IsmPair, input: &mut Input) -> Option<()> {
    pair.connect()?;
    pair.ends.iter().all(|end| end.established).then_some(())?;
    for side in [0, 1, 0, 1] {
        pass(pair, side, input.all(), false)?;
        pass(pair, side, input.all(), true)?;
    }
    Some(())
}

fn ends(pair: &mut IsmPair, input: &mut Input) -> Option<()> {
    let close = |pair: &mut IsmPair, side: usize, how| {
        let now = pair.now;
        let end = pair.side(side).0;
        end.endpoint.conn(end.conn?)?.shutdown(now, how);
        pair.pump()
    };
    close(pair, 0, Shutdown::Write)?;
    pass(pair, 1, input.all(), false)?;
    close(pair, 1, Shutdown::Both)?;
    close(pair, 0, Shutdown::Both)?;
    // DMBs of before are used again, zeroed.
    pair.connect()?;
    pass(pair, 0, input.all(), false)?;
    let now = pair.now;
    let end = pair.side(1).0;
    end.endpoint.conn(end.conn?)?.abort(now);
    pair.wait(now.after(Duration::from_secs(20)))?;
    pair.ends
        .iter()
        .all(|end| end.closed.is_some())
        .then_some(())?;
    // The group is not used any more.
    let idle = pair.now.after(Duration::from_secs(700));
    pair.wait(idle)?;
    pair.ends
        .iter_mut()
        .all(|end| end.endpoint.usage().groups == 0)
        .then_some(())
}

fn reports(pair: &mut IsmPair, input: &mut Input) -> Option<()> {
    for step in 0..7 {
        pair.connect()?;
        let now = pair.now;
        let server = pair.side(1).0;
        let (Some(conn), Some(buffer)) = (server.conn, server.dmb()) else {
            return None;
        };
        let source = server.source()?;
        let mut cdc = [0; 32];
        for octet in &mut cdc {
            *octet = input.octet();
        }
        let event = |code| IsmCompletion::Event {
            device: DEVICE,
            peer: gid(1),
            code,
            info: u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0x0f, 1, 0]),
        };
        let reported = match step {
            0 => IsmCompletion::Signalled { buffer, cdc },
            1 => IsmCompletion::MoveFailed { conn },
            2 => IsmCompletion::DmbFailed { buffer },
            3 => IsmCompletion::PeerVanished {
                device: DEVICE,
                peer: gid(1),
            },
            4 => event(TEST),
            5 => event(SHUTDOWN),
            _ => IsmCompletion::DmbWithdrawn { buffer: source },
        };
        keep(server.endpoint.sender(source));
        server.endpoint.handle_ism(now, reported);
        // A head that is certainly foreign, and one of any kind behind it.
        let [kind, ..] = &mut cdc;
        *kind |= 1;
        let foreign = IsmCompletion::Signalled { buffer, cdc };
        server.endpoint.handle_ism(now, foreign);
        if let Some(mut conn) = server.endpoint.conn(conn) {
            conn.abort(now);
        }
        let client = pair.side(0).0;
        client.endpoint.handle_ism(
            now,
            IsmCompletion::PeerVanished {
                device: DEVICE,
                peer: gid(2),
            },
        );
        pair.wait(now.after(Duration::from_secs(100)))?;
    }
    Some(())
}

fn refusals(pair: &mut IsmPair, input: &mut Input) -> Option<()> {
    for number in 0..8 {
        for side in [0, 1] {
            pair.restart(input.u64(), [number & 1 == 0; 2]);
            pair.side(side).0.refuse_at = Some(number);
            // It is established, or declined, or reset; it never stalls.
            pair.connect()?;
            let now = pair.now;
            pair.wait(now.after(Duration::from_secs(800)))?;
        }
    }
    Some(())
}
