//! Whether senders use the window: from the peer's update that there is room again, to the
//! next RDMA WRITE.
//!
//! A sender whose last CDC message has the blocked flag has bytes waiting. Once the
//! consumer cursor of the peer moves, nothing keeps it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use smc_capture::follow::{self, Content, Path as Way};
use smc_capture::reader::{CaptureReader, CapturedFrame};
use smc_proto::wire::cdc::ProducerFlags;
use smc_proto::wire::types::{Cursor, Gid};

use super::{Trouble, failed};

/// Half of all windows are to be used within this. Not all: between any two instructions
/// an emulated guest may stand still.
const PROMPT: Duration = Duration::from_millis(5);
/// A guest that lets its peer wait longer for any sign of life, such as its soft-RoCE's
/// acknowledgement, was stopped: that proves nothing about SMC.
const ALIVE: Duration = Duration::from_millis(1);
/// Fewer samples prove nothing.
const ENOUGH: usize = 8;

/// How long one sender's windows stood open, in order of length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    all: Vec<Duration>,
    /// Delays during which the guest did not stand still.
    lively: Vec<Duration>,
}

#[derive(Default)]
struct Sender {
    blocked: bool,
    /// What the peer had read according to its last update.
    read: Option<Cursor>,
    /// The frame by which the peer gave room, and its time.
    opened: Option<(u64, u64)>,
    delays: Delays,
}

/// The delays of the host with this address, by a capture of one connection at its own device.
pub(crate) fn of(capture: &Path, sender: Ipv4Addr) -> Result<Delays, Trouble> {
    let doing = || failed(capture.display());
    let frames = CaptureReader::open(capture).map_err(doing())?;
    let frames: BTreeMap<u64, Frame> = frames
        .map(|frame| frame.map(|frame| (frame.number, Frame::new(&frame, sender))))
        .collect::<Result<_, _>>()
        .map_err(doing())?;
    let sender = Gid(sender.to_ipv6_mapped().octets());
    let mut at = Sender::default();
    for item in follow::items(CaptureReader::open(capture).map_err(doing())?) {
        let item = item.map_err(doing())?;
        let Way::Roce(way) = &item.path else {
            continue;
        };
        let own = way.source == sender;
        match &item.content {
            _ if item.retransmission => {}
            Content::Cdc(cdc) if own => {
                at.blocked = cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED);
            }
            Content::Cdc(cdc) if at.read != Some(cdc.consumer) => {
                at.read = Some(cdc.consumer);
                if at.blocked {
                    at.opened.get_or_insert((item.frame, item.time));
                }
            }
            Content::Write(write) if own => {
                if let (Some((number, opened)), Some(begun)) =
                    (at.opened.take(), frames.get(&write.first_frame))
                {
                    let since = |at: u64| Duration::from_nanos(at.saturating_sub(opened));
                    let mut behind = frames.range(number + 1..);
                    let alive = behind.find(|(_, frame)| frame.own);
                    at.delays.all.push(since(begun.time));
                    if alive.is_some_and(|(_, frame)| since(frame.time) <= ALIVE) {
                        at.delays.lively.push(since(begun.time));
                    }
                }
            }
            _ => {}
        }
    }
    at.delays.all.sort_unstable();
    at.delays.lively.sort_unstable();
    Ok(at.delays)
}

/// A frame of the capture.
struct Frame {
    /// In nanoseconds.
    time: u64,
    /// The sender sent it.
    own: bool,
}

impl Frame {
    fn new(frame: &CapturedFrame, sender: Ipv4Addr) -> Self {
        // The source address of an IPv4 packet behind an Ethernet header.
        let source = frame.bytes.get(26..30);
        Self {
            time: frame.time,
            own: source == Some(&sender.octets()),
        }
    }
}

/// The one that so many of a hundred do not exceed.
fn part(delays: &[Duration], hundredths: usize) -> Duration {
    let at = delays.len() * hundredths / 100;
    let one = delays.get(at).or(delays.last());
    one.copied().unwrap_or_default()
}

impl Delays {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether windows are used at once.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn judge(&self) -> Result<(), String> {
        match (self.lively.len(), part(&self.lively, 50)) {
            // The guest was stopped most of the time.
            (few, _) if few < ENOUGH => Ok(()),
            (_, median) if median > PROMPT => Err(format!("windows stand open: {self}")),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{} windows, half used within {:.1} ms, 95 of 100 within {:.1} ms, all within \
             {:.1} ms; half of {} while the guest did not stand still within {:.1} ms",
            self.all.len(),
            millis(part(&self.all, 50)),
            millis(part(&self.all, 95)),
            millis(part(&self.all, 100)),
            self.lively.len(),
            millis(part(&self.lively, 50)),
        )
    }
}
