//! `smc_proto::connection` by itself: two connections, and an order of calls
//! that the input decides.

use smc_proto::command::DataTransmit;
use smc_proto::config::ConnectionConfig;
use smc_proto::connection::{
    ApiMisuse, CdcOutcome, CloseCause, CloseState, Connection, ConnectionParams, FatalCause,
    NotifyRecord, PeerMisbehaved, Ring, Sent, Shutdown, Span, Spans, Stats, Urgent,
};
use smc_proto::event::CloseReason;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::types::AlertToken;

use crate::Failure;
use crate::input::Input;
use crate::sink::{Sink, keep};
use crate::values::Any;

const IN_FLIGHT: usize = 8;

/// A connection and what its network holds.
struct Side {
    connection: Connection,
    sent: [Option<(Cdc, NotifyRecord)>; IN_FLIGHT],
}

fn params(input: &mut Input) -> ConnectionParams {
    let size = input.below(1 << 16).saturating_add(64);
    let usual = Ring::new(0, 1 << 14);
    let ring = Ring::new(input.below(16), size).or(usual);
    // The second is never `None`; the third is there so that nothing panics.
    let ring = ring.or(Ring::new(0, 1));
    let Some(ring) = ring else {
        crate::system::exit(crate::EMPTY_CHOICE);
    };
    let mut params = ConnectionParams::new(
        AlertToken::any(input),
        ring,
        ring,
        input.below(1 << 16).saturating_add(1),
    );
    params.nodelay = input.bit();
    params.urgent_inline = input.bit();
    params
}

/// Calls every method many times.
pub fn all(input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    let cfg = ConnectionConfig::DEFAULT;
    for _ in 0..24 {
        let (a, b) = (params(input), params(input));
        sink.value(&a, &b);
        let mut both = [a, {
            let mut params = b;
            params.receive = a.peer;
            params.peer = a.receive;
            params
        }]
        .map(|p| Side {
            connection: Connection::new(&p, &cfg),
            sent: [const { None }; IN_FLIGHT],
        });
        let mut now = Instant::from_nanos(u64::from(input.u16()));
        for _ in 0..128 {
            let [a, b] = &mut both;
            let (side, other) = if input.bit() { (a, b) } else { (b, a) };
            step(input, sink, &cfg, &mut now, side, other);
        }
        for side in &both {
            sink.debug(&side.connection);
        }
    }
    values(input, sink);
    Ok(())
}

fn step(
    input: &mut Input,
    sink: &mut Sink,
    cfg: &ConnectionConfig,
    now: &mut Instant,
    side: &mut Side,
    other: &mut Side,
) {
    let c = &mut side.connection;
    match input.below(40) {
        0..6 => {
            let space = c.send_space();
            spans(sink, space);
            let length = input.below(space.len().saturating_add(2));
            let result = c.commit(*now, cfg, length);
            sink.shown(
                &result.err().unwrap_or(ApiMisuse::Closed),
                &ApiMisuse::Reset,
            );
        }
        6 => {
            let length = input.below(64);
            keep(c.commit_urgent(*now, cfg, length));
        }
        7..13 => {
            let length = input.below(c.readable().len().saturating_add(2));
            keep(c.consume(length));
        }
        13 => {
            keep(c.urgent());
            if let Ok(urgent) = c.take_urgent() {
                sink.hashed(
                    &urgent,
                    &Urgent {
                        offset: 0,
                        ahead: 0,
                    },
                );
            }
        }
        14..22 => work(sink, cfg, *now, side),
        22..28 => {
            if let Some((cdc, _)) = side.sent.first().and_then(Option::as_ref) {
                sink.hashed(
                    &other.connection.on_cdc(*now, cfg, cdc),
                    &CdcOutcome::Applied,
                );
            }
        }
        28..32 => {
            if let Some((_, record)) = side.sent.first().copied().flatten() {
                side.sent.rotate_left(1);
                if let Some(last) = side.sent.last_mut() {
                    *last = None;
                }
                sink.hashed(&record, &record);
                side.connection.on_notify_completed(*now, cfg, record);
            }
        }
        32 => keep(c.on_cdc(*now, cfg, &Cdc::any(input))),
        33 => {
            let how = input.one_of(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]);
            sink.hashed(&how, &Shutdown::Both);
            c.shutdown(*now, cfg, how);
        }
        34 => match input.below(8) {
            0 => c.abort(*now, cfg),
            1 => c.on_tcp_reset(*now, cfg),
            2 => {
                let cause = fatal(input);
                keep(cause.can_notify_peer());
                c.on_fatal(*now, cfg, cause);
            }
            3 => c.set_urgent_inline(input.bit()),
            4 => c.set_cork(input.bit()),
            5 => c.flush(),
            6 => keep(c.buffer_sizes()),
            _ => {}
        },
        35 => {
            c.on_link_changed(*now, cfg);
            side.sent = [const { None }; IN_FLIGHT];
        }
        36 => {
            if let Some(deadline) = c.next_timeout() {
                *now = deadline.max(*now);
            }
            c.on_timeout(*now, cfg);
        }
        37 => *now = now.after(Duration::from_nanos(input.u64() >> 16)),
        _ => {
            keep((
                c.state(),
                c.is_end_of_stream(),
                c.wants_work(),
                c.outstanding_notifies(),
            ));
            keep((c.cause(), c.is_finished(), c.next_timeout()));
            sink.debug(&c.take_notices());
            sink.value(&c.stats(), &Stats::default());
            c.fingerprint(*now, sink);
            sink.debug(&c.clone());
        }
    }
}

/// Takes work until there is none or the network is full.
fn work(sink: &mut Sink, cfg: &ConnectionConfig, now: Instant, side: &mut Side) {
    for _ in 0..4 {
        let Some(free) = side.sent.iter_mut().find(|sent| sent.is_none()) else {
            return;
        };
        let mut transmit = DataTransmit::EMPTY;
        // Called by its address: where it is called by name it is inlined, and leaves no
        // symbol that could be counted.
        let next_transmit = core::hint::black_box(
            Connection::next_transmit
                as fn(
                    &mut Connection,
                    Instant,
                    &ConnectionConfig,
                    u64,
                    &mut DataTransmit,
                ) -> Option<Sent>,
        );
        let Some(next) = next_transmit(&mut side.connection, now, cfg, 1 << 32, &mut transmit)
        else {
            return;
        };
        sink.value(&next, &next);
        keep(transmit.cdc.is_plain());
        *free = Some((transmit.cdc, next.record));
    }
}

fn spans(sink: &mut Sink, spans: Spans) {
    sink.hashed(&spans, &Spans::default());
    keep((spans.first(), spans.second(), spans.len(), spans.is_empty()));
    for span in spans.iter() {
        sink.hashed(&span, &Span::default());
    }
}

fn fatal(input: &mut Input) -> FatalCause {
    input.one_of(&[
        FatalCause::LinkLost,
        FatalCause::MemoryOutOfReach,
        FatalCause::RmbeConflict,
        FatalCause::EyeCatcherDamaged,
        FatalCause::DataLost,
        FatalCause::AccessRefused,
        FatalCause::TcpData,
    ])
}

fn misbehaved(input: &mut Input) -> PeerMisbehaved {
    input.one_of(&[
        PeerMisbehaved::ProducerOutsideRing,
        PeerMisbehaved::ProducerBeyondWindow,
        PeerMisbehaved::ProducerFarBack,
        PeerMisbehaved::ConsumerOutsideRing,
        PeerMisbehaved::ConsumerBeyondPublished,
        PeerMisbehaved::ConsumerFarBack,
    ])
}

/// The types of the module.
fn values(input: &mut Input, sink: &mut Sink) {
    for _ in 0..8 {
        let (cause, what) = (fatal(input), misbehaved(input));
        sink.shown(&cause, &FatalCause::LinkLost);
        sink.shown(&what, &PeerMisbehaved::ProducerOutsideRing);
        let close = input.one_of(&[
            CloseCause::Orderly,
            CloseCause::Aborted,
            CloseCause::UnreadData,
            CloseCause::PeerClosedEarly,
            CloseCause::PeerAborted,
            CloseCause::LingerExpired,
            CloseCause::CloseWaitExpired,
            CloseCause::TcpReset,
            CloseCause::Fatal(cause),
            CloseCause::PeerMisbehaved(what),
        ]);
        sink.shown(&close, &CloseCause::Orderly);
        sink.shown(&CloseReason::from(close), &CloseReason::Normal);
        let state = input.one_of(&[
            CloseState::Active,
            CloseState::PeerAbortWait,
            CloseState::Closed,
        ]);
        sink.hashed(&state, &CloseState::Active);
        sink.ordered(&state, &CloseState::AppCloseWait1);
        let ring = Ring::new(input.below(256), input.u32());
        if let Some(ring) = ring {
            sink.hashed(&ring, &ring);
            keep((ring.base(), ring.end(), ring.usable()));
        }
    }
}
