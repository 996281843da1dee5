//! RNICs by a binding: those in software, and those of the host.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use smc_proto::command::{BufferSpans, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{ConnId, LinkId, WrId};
use smc_proto::wire::types::{Gid, Mac};
use smc_transport_verbs::binding::Binding;
use smc_transport_verbs::rnic::Rnic;
use smc_transport_verbs::soft::Fabric;

use crate::{Adapters, DEVICE, Side};

/// How long nothing at all may happen.
const SILENCE: Duration = Duration::from_secs(20);

/// Two bindings with an RNIC each.
pub struct Bindings<R: Rnic> {
    sides: [Binding<R>; 2],
    gid: (u16, Gid),
    /// What joins them, if it can refuse things.
    fabric: Option<Fabric>,
}

/// Two RNICs, each by its own handle; they may be one.
pub struct Made<R> {
    /// The RNICs.
    pub rnics: [R; 2],
    /// Index and value of the GID by which each is reached.
    pub gid: (u16, Gid),
    /// What joins them, if they are in software.
    pub fabric: Option<Fabric>,
}

impl<R: Rnic> Bindings<R> {
    /// Binds both.
    #[must_use]
    pub fn new(made: Made<R>) -> Self {
        let sides = made.rnics.map(|rnic| {
            let mut binding = Binding::new().expect("descriptors");
            binding.add(DEVICE, rnic).expect("a place for an RNIC");
            binding
        });
        Self {
            sides,
            gid: made.gid,
            fabric: made.fabric,
        }
    }
}

impl<R: Rnic> fmt::Debug for Bindings<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bindings")
            .field("gid", &self.gid)
            .finish_non_exhaustive()
    }
}

impl<R: Rnic> Adapters for Bindings<R> {
    fn address(&self, _: Side) -> (u16, Gid, Mac) {
        let (index, gid) = self.gid;
        // Devices find it by the GID.
        (index, gid, Mac::default())
    }

    fn execute(&mut self, side: Side, command: RdmaCommand) {
        self.sides[side].execute(DEVICE, command);
    }

    fn send_large(&mut self, side: Side, link: LinkId, wr_id: WrId, bytes: &[u8]) {
        self.sides[side].send_large(link, wr_id, bytes);
    }

    fn poll(&mut self, side: Side, listener: &mut dyn FnMut(RdmaCompletion<'_>)) -> bool {
        self.sides[side].poll().map(listener).is_some()
    }

    fn wait(&mut self) -> bool {
        if self.sides.iter().any(Binding::is_due) {
            return true;
        }
        let [a, b] = &self.sides;
        let mut fds = [a, b].map(|binding| PollFd::new(binding, PollFlags::IN));
        let begun = Instant::now();
        let time = SILENCE.try_into().expect("a short time");
        while begun.elapsed() < SILENCE {
            match poll(&mut fds, Some(&time)) {
                Ok(0) => return false,
                Ok(_) => return true,
                // A signal.
                Err(_) => {}
            }
        }
        false
    }

    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(100));
    }

    fn fill(&mut self, side: Side, spans: &BufferSpans, bytes: &[u8]) {
        let filled = self.sides[side].fill(spans, bytes);
        assert_eq!(filled, Ok(bytes.len() as u32));
    }

    fn take(&mut self, side: Side, conn: ConnId, spans: &BufferSpans) -> Option<Vec<u8>> {
        let mut bytes = vec![0; spans.len() as usize];
        let taken = self.sides[side].take(conn, spans, &mut bytes);
        let taken = taken.expect("pieces of an RMB");
        (taken > 0).then(|| {
            assert_eq!(taken, spans.len());
            bytes
        })
    }

    fn possessions(&self, side: Side) -> usize {
        let (links, buffers) = self.sides[side].usage();
        links + buffers
    }

    fn refuse_registrations(&mut self) -> bool {
        self.fabric
            .as_ref()
            .map(|fabric| fabric.lock_at_most(0))
            .is_some()
    }
}
