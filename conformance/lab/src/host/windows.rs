//! Whether senders use the window: from the peer's word that there is room again, to the
//! next RDMA WRITE.
//!
//! A sender whose last CDC message says that it is blocked has octets waiting. Once the
//! consumer cursor of the peer moves, nothing keeps it.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use smc_proto::wire::cdc::{Cursor, ProducerFlags};
use smc_proto::wire::types::Gid;
use smc_transport_sim::capture::follow::{self, Content, Path as Way};
use smc_transport_sim::capture::reader::CaptureReader;

use super::{Trouble, failed};

/// Half of all windows are to be used within this. Not all: an emulated guest shares a core
/// with others, and stands still meanwhile.
const PROMPT: Duration = Duration::from_millis(5);
/// Fewer tell nothing.
const ENOUGH: usize = 8;

/// How long one sender's windows stood open, in order of length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays(Vec<Duration>);

#[derive(Default)]
struct Sender {
    blocked: bool,
    /// What the peer had read when it last told.
    read: Option<Cursor>,
    opened: Option<u64>,
    delays: Delays,
}

/// The delays of the host with this GID, by a capture of one connection at its own device.
pub(crate) fn of(capture: &Path, sender: Gid) -> Result<Delays, Trouble> {
    let doing = || failed(capture.display());
    let frames = CaptureReader::open(capture).map_err(doing())?;
    let times: HashMap<u64, u64> = frames
        .map(|frame| frame.map(|frame| (frame.number, frame.time)))
        .collect::<Result<_, _>>()
        .map_err(doing())?;
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
                at.blocked = cdc.producer_flags.contains(ProducerFlags::WRITE_BLOCKED);
            }
            Content::Cdc(cdc) if at.read != Some(cdc.consumer) => {
                at.read = Some(cdc.consumer);
                if at.blocked {
                    at.opened.get_or_insert(item.time);
                }
            }
            Content::Write(write) if own => {
                let begun = times.get(&write.first_frame).copied();
                if let (Some(opened), Some(begun)) = (at.opened.take(), begun) {
                    let delay = begun.saturating_sub(opened);
                    at.delays.0.push(Duration::from_nanos(delay));
                }
            }
            _ => {}
        }
    }
    at.delays.0.sort_unstable();
    Ok(at.delays)
}

impl Delays {
    fn part(&self, hundredths: usize) -> Duration {
        let at = self.0.len() * hundredths / 100;
        self.0.get(at).or(self.0.last()).copied().unwrap_or_default()
    }

    /// Whether windows are used at once.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn judge(&self) -> Result<(), String> {
        if self.0.len() < ENOUGH {
            return Err(format!("a blocked sender was given room {} times", self.0.len()));
        }
        match self.part(50) {
            median if median > PROMPT => Err(format!("windows stand open: {self}")),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{} windows, used within {:.1} ms (median), {:.1} ms (95 of 100), {:.1} ms (all)",
            self.0.len(),
            millis(self.part(50)),
            millis(self.part(95)),
            millis(self.part(100)),
        )
    }
}
