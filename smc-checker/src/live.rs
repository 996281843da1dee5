//! Judges a capture while it is written, and keeps none of it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use smc_capture::CaptureError;
use smc_capture::reader::CaptureReader;
use smc_capture::writer::CaptureWriter;
use smc_proto::storage::Storage;
use smc_transport_sim::record::Recorder;
use smc_transport_sim::sim::Simulation;

use crate::checker::Checker;
use crate::report::{Finding, Report};

/// Bytes that are collected before they are parsed.
const BATCH: usize = 1 << 20;
/// Bytes of each RDMA WRITE packet that are kept: rules read no data.
const PAYLOAD: usize = 0;

/// The judge of a capture that is being written, as what it is written into.
///
/// All clones are the same judge.
#[derive(Clone, Default)]
pub struct Live(Arc<Mutex<Inner>>);

struct Inner {
    checker: Checker,
    /// The header blocks of the capture.
    head: Vec<u8>,
    /// Bytes that were not parsed yet.
    waiting: Vec<u8>,
    frames: u64,
}

impl Live {
    /// A capture for it to judge, without the bytes of RDMA WRITEs.
    ///
    /// # Errors
    /// Returns the errors of [`CaptureWriter::new`].
    pub fn capture(&self) -> Result<CaptureWriter<Self>, CaptureError> {
        let mut capture = CaptureWriter::new(self.clone())?;
        capture.limit_write_payload(Some(PAYLOAD));
        Ok(capture)
    }

    /// Watches a simulation from now on.
    ///
    /// # Errors
    /// Returns the errors of [`capture`](Self::capture).
    pub fn watch<S: Storage>(simulation: &mut Simulation<S>) -> Result<Self, CaptureError> {
        let live = Self::default();
        let recorder = Arc::new(Mutex::new(Recorder::new(live.capture()?)));
        simulation.fabric().observe(Box::new(recorder));
        Ok(live)
    }

    /// What was found so far.
    ///
    /// # Errors
    /// If what was written is no capture.
    pub fn findings(&self) -> Result<Vec<Finding>, CaptureError> {
        let mut inner = self.inner();
        inner.judge()?;
        Ok(inner.checker.findings().to_vec())
    }

    /// Ends the capture, and returns the report. What is written later belongs to
    /// another one.
    ///
    /// # Errors
    /// If what was written is no capture.
    pub fn finish(&self) -> Result<Report, CaptureError> {
        let mut inner = self.inner();
        inner.judge()?;
        Ok(core::mem::take(&mut *inner).checker.finish())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Write for Live {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.inner();
        inner.waiting.extend(bytes);
        if inner.waiting.len() >= BATCH {
            inner.judge().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            checker: Checker::of_everything(),
            head: Vec::new(),
            waiting: Vec::new(),
            frames: 0,
        }
    }
}

/// Block types of pcapng that come before all frames.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;

impl Inner {
    /// Parses all whole blocks.
    fn judge(&mut self) -> Result<(), CaptureError> {
        let mut end = 0;
        while let Some((kind, length)) = block(self.waiting.get(end..).unwrap_or_default()) {
            let Some(bytes) = self.waiting.get(end..end + length) else {
                break;
            };
            if kind == SECTION || kind == INTERFACE {
                self.head.extend(bytes);
            }
            end += length;
        }
        let blocks: Vec<u8> = self.waiting.drain(..end).collect();
        let head_included = block(&blocks).is_some_and(|(kind, _)| kind == SECTION);
        let capture = match head_included {
            true => blocks,
            false => [self.head.as_slice(), &blocks].concat(),
        };
        if capture.is_empty() {
            return Ok(());
        }
        for frame in CaptureReader::new(capture.as_slice())? {
            let mut frame = frame?;
            self.frames += 1;
            frame.number = self.frames;
            self.checker.push(&frame);
        }
        Ok(())
    }
}

/// Type and length of the block at the front, in the order of the machine that wrote
/// it, which is this one.
fn block(bytes: &[u8]) -> Option<(u32, usize)> {
    let (kind, rest) = bytes.split_first_chunk::<4>()?;
    let (length, _) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
    Some((u32::from_ne_bytes(*kind), length.max(12)))
}
