//! What a run was, and whether its counters agree.

use std::sync::{Arc, Mutex};
use std::time::Instant as RealInstant;

use sha2::Digest;

use super::{Run, lock, problem};
use crate::demo::Capture;
use crate::demo::links::LinkLife;
use crate::demo::tally::{Family, Tally};
use crate::demo::watch::Watch;
use crate::output::Failure;

/// What a run was.
#[derive(Debug)]
pub struct Outcome {
    /// Bytes that the source had.
    pub bytes: u64,
    /// SHA-256 of the source, of what the server read and of what came back.
    pub sha256: [[u8; 32]; 3],
    /// Real seconds.
    pub seconds: f64,
    /// Virtual seconds from opening the connection to the end.
    pub virtual_seconds: f64,
    /// Virtual seconds from the first byte to the last one that came back.
    pub transfer_seconds: f64,
    /// Messages that arrived, each once.
    pub tally: Tally,
    /// Messages on the wires beside these: repeated, lost or refused.
    pub not_accepted: Tally,
    /// Bytes that came back to the client.
    pub back: u64,
    /// Why the transfer ended early.
    pub failure: Option<String>,
    /// Times the connection moved to another link: client, and server.
    pub failovers: [u64; 2],
    /// All links there were.
    pub links: Vec<LinkLife>,
    /// Times a sender met a full window: client, and server.
    pub window_stalls: [u64; 2],
    /// Frames in the capture.
    pub frames: u64,
    pub(in crate::demo) watch: Arc<Mutex<Watch>>,
}

impl Outcome {
    /// Whether what arrived is what was sent, both ways.
    #[must_use]
    pub fn sha256_ok(&self) -> bool {
        let [sent, there, back] = &self.sha256;
        sent == there && sent == back
    }

    /// Bytes of the source as 10^9 bits in each real second.
    #[must_use]
    pub fn gbit_per_s(&self) -> f64 {
        rate(self.bytes, self.seconds)
    }

    /// Bytes of the source as 10^9 bits in each virtual second of the transfer.
    #[must_use]
    pub fn virtual_gbit_per_s(&self) -> f64 {
        rate(self.bytes, self.transfer_seconds)
    }
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8e-9 / seconds
    } else {
        0.0
    }
}

impl Run<'_> {
    pub(super) fn outcome(
        mut self,
        start: RealInstant,
        failure: Option<String>,
    ) -> Result<Outcome, Failure> {
        let frames = self.capture.map_or(Ok(0), Capture::finish)?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(finding) = self.simulation.findings().next() {
            return Err(problem(&format!("the simulation complains: {finding}")));
        }
        let mut statistics = Vec::new();
        for host in self.hosts {
            statistics.extend(self.simulation.endpoint(host).map(|e| *e.statistics()));
        }
        let (tally, not_accepted) = {
            let watch = lock(&self.watch);
            (watch.tally, watch.not_accepted)
        };
        let sum = |of: fn(&smc_proto::stats::Statistics) -> u64| -> u64 {
            statistics.iter().map(of).sum()
        };
        let counted = [
            ("CLC messages", Family::Clc, sum(|s| s.clc_sent)),
            ("LLC messages", Family::Llc, sum(|s| s.llc_sent)),
            ("CDC messages", Family::Cdc, sum(|s| s.cdc_sent)),
            // What applications write in place the engines never see.
            (
                "writes",
                Family::Write,
                match self.in_place {
                    true => tally.family(Family::Write),
                    false => sum(|s| s.writes),
                },
            ),
        ];
        for (what, family, sent) in counted {
            let seen = tally.family(family);
            // What was on its way over a link that died never arrived.
            if seen > sent || (seen < sent && !self.troubled) {
                return Err(problem(&format!(
                    "the engines sent {sent} {what}, on the wire there were {seen}"
                )));
            }
        }
        let first = self.first_byte.unwrap_or(self.last_byte);
        let stalls = |end: usize| statistics.get(end).map_or(0, |s| s.window_stalls);
        let failovers = |end: usize| statistics.get(end).map_or(0, |s| s.failovers);
        Ok(Outcome {
            bytes: self.bytes,
            sha256: self.digests.map(|digest| digest.finalize().into()),
            seconds,
            virtual_seconds: self.simulation.now().as_nanos() as f64 * 1e-9,
            transfer_seconds: self.last_byte.since(first).as_secs_f64(),
            tally,
            not_accepted,
            back: self.back,
            failure,
            failovers: [failovers(0), failovers(1)],
            links: self.links.lives,
            window_stalls: [stalls(0), stalls(1)],
            frames,
            watch: self.watch,
        })
    }
}
