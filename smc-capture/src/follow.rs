//! Finds the SMC conversations in a capture.
//!
//! TCP connections whose SYN carries the SMC option are followed for their CLC
//! messages, RoCE packets for LLC and CDC messages and for RDMA WRITEs. What
//! is found comes out as [`Item`]s in the order of the frames that complete
//! them. Memory stays bounded whatever the capture holds ([`Limits`]).

mod clc;
mod direction;
mod item;
mod qp;
mod rdma;
mod send;
mod tcp;
mod write;

use super::CaptureError;
use super::frame::{Frame, parse_frame};
use super::reader::CapturedFrame;

pub use item::{
    Content, Item, Llc, Path, Protocol, RdmaWrite, RocePath, TcpOption, TcpPath, TcpSign,
    WritePiece,
};

use rdma::RdmaFollower;
use tcp::TcpFollower;

/// How much a [`Follower`] remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// TCP connections; the oldest are forgotten first.
    pub streams: usize,
    /// Bytes of unfinished CLC messages in each direction of a connection,
    /// and as many again that arrived out of order.
    pub stream_bytes: usize,
    /// Queue pairs; the oldest are forgotten first.
    pub queue_pairs: usize,
    /// Payload bytes of unfinished RDMA WRITEs, all together. Of longer ones
    /// only the lengths are reported.
    pub write_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 8192,
            stream_bytes: 4096,
            queue_pairs: 4096,
            write_bytes: 64 << 20,
        }
    }
}

/// Where and when something was seen.
#[derive(Clone, Copy)]
struct Moment {
    frame: u64,
    time: u64,
}

/// Follows the SMC conversations of one capture.
#[derive(Default)]
pub struct Follower {
    tcp: TcpFollower,
    rdma: RdmaFollower,
    start: Option<u64>,
}

impl Follower {
    /// A follower with other limits than the usual ones.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            tcp: TcpFollower::new(limits),
            rdma: RdmaFollower::new(limits),
            start: None,
        }
    }

    /// Reports TCP segments other than CLC as well, as [`Content::Tcp`].
    #[must_use]
    pub fn with_tcp(mut self) -> Self {
        self.tcp.report_all();
        self
    }

    /// Takes the next frame of the capture and appends what it completes.
    pub fn push(&mut self, frame: &CapturedFrame, items: &mut Vec<Item>) {
        self.start.get_or_insert(frame.time);
        let moment = Moment {
            frame: frame.number,
            time: frame.time,
        };
        match parse_frame(frame.link, &frame.bytes) {
            Frame::Tcp(segment) => {
                let before = items.len();
                self.tcp.push(moment, &segment, items);
                for item in items.iter().skip(before) {
                    self.rdma.learn_from_clc(item);
                }
            }
            Frame::Roce(roce) => self.rdma.push(moment, &roce, items),
            Frame::BadRoce {
                source,
                destination,
                error,
            } => items.push(rdma::bad_packet(moment, source, destination, error)),
            Frame::Other => {}
        }
    }

    /// Appends what the end of the capture leaves unfinished.
    pub fn finish(&mut self, items: &mut Vec<Item>) {
        self.tcp.finish(items);
        self.rdma.finish(items);
    }

    /// Time of the first frame, if there was one.
    #[must_use]
    pub fn start(&self) -> Option<u64> {
        self.start
    }
}

/// The items of a capture, one by one.
///
/// An error of the reader comes last, behind what was found before it.
pub struct Items<I> {
    frames: I,
    follower: Follower,
    ready: std::collections::VecDeque<Item>,
    scratch: Vec<Item>,
    count: u64,
    error: Option<CaptureError>,
    ended: bool,
}

/// Follows all `frames`, with the usual [`Limits`].
pub fn items<I>(frames: I) -> Items<I::IntoIter>
where
    I: IntoIterator<Item = Result<CapturedFrame, CaptureError>>,
{
    Items {
        frames: frames.into_iter(),
        follower: Follower::default(),
        ready: std::collections::VecDeque::new(),
        scratch: Vec::new(),
        count: 0,
        error: None,
        ended: false,
    }
}

impl<I> Items<I> {
    /// Time of the first frame, once an item or the end has been seen.
    #[must_use]
    pub fn start(&self) -> Option<u64> {
        self.follower.start()
    }

    /// Frames read so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.count
    }
}

impl<I> Iterator for Items<I>
where
    I: Iterator<Item = Result<CapturedFrame, CaptureError>>,
{
    type Item = Result<Item, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.ended {
                return self.error.take().map(Err);
            }
            match self.frames.next() {
                Some(Ok(frame)) => {
                    self.count = frame.number;
                    self.follower.push(&frame, &mut self.scratch);
                }
                end => {
                    self.ended = true;
                    self.error = end.and_then(Result::err);
                    self.follower.finish(&mut self.scratch);
                }
            }
            self.ready.extend(self.scratch.drain(..));
        }
    }
}
