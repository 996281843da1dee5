//! Two hosts with one link, and the completions they received.

use std::time::{Duration, Instant};

use smc_proto::command::{BufferKind, BufferSpans, QpAddress, RdmaCommand, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, ConnId, WrId};
use smc_proto::wire::types::{Mtu, Psn, Qpn, RToken};

use crate::handles::Handles;
use crate::{Adapters, DEVICE, Side};

/// Bytes of an element; each RMB has two, each send buffer one.
pub(crate) const LENGTH: u32 = 16_384;
/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One end.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) of: Handles,
    pub(crate) qpn: Qpn,
    pub(crate) rmb: Option<RToken>,
    /// Whether RMB and send buffer are registered.
    pub(crate) registered: [bool; 2],
    /// Answers to commands, and unsolicited completions.
    pub(crate) answers: Vec<RdmaCompletion<'static>>,
    pub(crate) received: Vec<Vec<u8>>,
    pub(crate) sent: Vec<u32>,
    pub(crate) failed: Option<(LinkFailure, Option<ConnId>)>,
}

impl End {
    fn take(&mut self, completion: RdmaCompletion<'_>) {
        use RdmaCompletion as C;
        let answer: RdmaCompletion<'static> = match completion {
            C::Received { link, payload } => {
                assert_eq!(link, self.of.link);
                return self.received.push(payload.to_vec());
            }
            C::Sent { link, wr_id } => {
                assert_eq!(link, self.of.link);
                return self.sent.push(wr_id.0);
            }
            C::LinkFailed { cause, conn, .. } => {
                assert_eq!(self.failed, None, "reported twice");
                self.failed = Some((cause, conn));
                return;
            }
            C::QpCreated { link, qpn } => C::QpCreated { link, qpn },
            C::QpConnected { link } => C::QpConnected { link },
            C::QpActive { link } => C::QpActive { link },
            C::QpDrained { link } => C::QpDrained { link },
            C::QpDestroyed { link } => C::QpDestroyed { link },
            C::BufferAllocated { buffer } => C::BufferAllocated { buffer },
            C::BufferRegistered {
                buffer,
                link,
                rtoken,
            } => C::BufferRegistered {
                buffer,
                link,
                rtoken,
            },
            C::BufferDeregistered { buffer, link } => C::BufferDeregistered { buffer, link },
            C::BufferFreed { buffer } => C::BufferFreed { buffer },
            C::ElementCleared { buffer, offset } => C::ElementCleared { buffer, offset },
            C::LinkRefused { link } => C::LinkRefused { link },
            C::BufferRefused { buffer } => C::BufferRefused { buffer },
            C::EyeCatcherDamaged { conn } => C::EyeCatcherDamaged { conn },
        };
        self.answers.push(answer);
    }
}

/// Two ends, of which the second one's RMB may have eye catchers.
pub(crate) struct Ends<A: Adapters> {
    pub(crate) adapters: A,
    pub(crate) at: [End; 2],
}

impl<A: Adapters> Ends<A> {
    /// With memory and queue pairs in state INIT.
    pub(crate) fn made(adapters: A, receive_size: [u32; 2], eye_catcher: bool) -> Self {
        let end = || End {
            of: Handles::new(),
            qpn: Qpn::default(),
            rmb: None,
            registered: [false; 2],
            answers: Vec::new(),
            received: Vec::new(),
            sent: Vec::new(),
            failed: None,
        };
        let mut ends = Self {
            adapters,
            at: [end(), end()],
        };
        for (side, receive_size) in receive_size.into_iter().enumerate() {
            let Handles {
                link, rmb, send, ..
            } = ends.at[side].of;
            let (gid_index, ..) = ends.adapters.address(side);
            let create = RdmaCommand::CreateQp {
                link,
                device: DEVICE,
                port: 1,
                gid_index,
                receive_size,
            };
            match ends.ask(side, create) {
                RdmaCompletion::QpCreated { link: of, qpn } if of == link => {
                    ends.at[side].qpn = qpn;
                }
                other => panic!("{other:?}"),
            }
            for (buffer, kind, elements) in [(rmb, BufferKind::Rmb, 2), (send, BufferKind::Send, 1)]
            {
                let alloc = RdmaCommand::AllocBuffer {
                    buffer,
                    kind,
                    elements,
                    element_size: LENGTH,
                    eye_catcher: eye_catcher && kind == BufferKind::Rmb,
                };
                let allocated = RdmaCompletion::BufferAllocated { buffer };
                assert_eq!(ends.ask(side, alloc), allocated);
                ends.register(side, buffer);
            }
        }
        ends
    }

    /// Ready to send, with receives of so many bytes.
    pub(crate) fn up(make: &dyn Fn() -> A, receive_size: u32) -> Self {
        let mut ends = Self::made(make(), [receive_size; 2], false);
        ends.join();
        ends
    }

    /// Joins the queue pairs.
    pub(crate) fn join(&mut self) {
        // Near the end, so that they wrap.
        let psn = |side: Side| Psn::new(0xff_fff0 + side as u32);
        for side in 0..2 {
            let link = self.at[side].of.link;
            let (_, gid, mac) = self.adapters.address(1 - side);
            let peer = QpAddress::new(self.at[1 - side].qpn, psn(1 - side), gid, mac);
            let connect = RdmaCommand::ConnectQp {
                link,
                peer,
                mtu: Mtu::M1024,
                hop_limit: 1,
            };
            let connected = RdmaCompletion::QpConnected { link };
            assert_eq!(self.ask(side, connect), connected);
        }
        for side in 0..2 {
            let link = self.at[side].of.link;
            let psn = psn(side);
            let active = RdmaCompletion::QpActive { link };
            let activate = RdmaCommand::ActivateQp { link, psn };
            assert_eq!(self.ask(side, activate), active);
        }
    }

    /// Takes all completions that are ready at a host.
    pub(crate) fn listen(&mut self, side: Side) {
        let Self { adapters, at } = self;
        let end = &mut at[side];
        while adapters.poll(side, &mut |completion| end.take(completion)) {}
    }

    /// Waits until something holds; both hosts listen.
    #[track_caller]
    pub(crate) fn until(&mut self, holds: impl Fn(&[End; 2]) -> bool) {
        let begun = Instant::now();
        loop {
            self.listen(0);
            self.listen(1);
            if holds(&self.at) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "it does not come about");
            if !self.adapters.wait() {
                self.listen(0);
                self.listen(1);
                assert!(holds(&self.at), "nothing more happens: {:?}", self.at);
                return;
            }
        }
    }

    /// Gives a command that has an answer, and waits for that; there is one.
    #[track_caller]
    pub(crate) fn ask(&mut self, side: Side, command: RdmaCommand) -> RdmaCompletion<'static> {
        self.listen(side);
        let before = self.at[side].answers.len();
        self.adapters.execute(side, command);
        self.until(|at| at[side].answers.len() > before);
        self.listen(side);
        let answers = &self.at[side].answers[before..];
        assert_eq!(answers.len(), 1, "more than one answer: {answers:?}");
        answers[0]
    }

    pub(crate) fn register(&mut self, side: Side, buffer: BufferId) {
        let of = self.at[side].of;
        let link = of.link;
        match self.ask(side, RdmaCommand::RegisterBuffer { buffer, link }) {
            RdmaCompletion::BufferRegistered {
                buffer: about,
                link: at,
                rtoken,
            } => {
                assert_eq!((about, at), (buffer, link));
                let is_rmb = buffer == of.rmb;
                self.at[side].registered[usize::from(!is_rmb)] = true;
                if is_rmb {
                    self.at[side].rmb = Some(rtoken);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn deregister(&mut self, side: Side, buffer: BufferId) {
        let of = self.at[side].of;
        let link = of.link;
        let answer = self.ask(side, RdmaCommand::DeregisterBuffer { buffer, link });
        assert_eq!(answer, RdmaCompletion::BufferDeregistered { buffer, link });
        self.at[side].registered[usize::from(buffer != of.rmb)] = false;
    }

    /// Sends a message of the usual length that begins with a number.
    pub(crate) fn send(&mut self, side: Side, number: u32) {
        let mut payload = [0; 44];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        let (link, wr_id) = (self.at[side].of.link, WrId(number));
        let send = RdmaCommand::Send {
            link,
            wr_id,
            payload,
        };
        self.adapters.execute(side, send);
    }

    /// Writes pieces of a host's send buffer to its peer's RMB.
    pub(crate) fn write(&mut self, side: Side, source: [Segment; 2], offset: u64) {
        let to = self.at[1 - side].rmb.expect("an RMB");
        self.write_to(side, source, to, offset);
    }

    pub(crate) fn write_to(&mut self, side: Side, source: [Segment; 2], to: RToken, offset: u64) {
        let of = self.at[side].of;
        let write = RdmaCommand::Write {
            link: of.link,
            conn: of.conn,
            buffer: of.send,
            source,
            rkey: to.rkey,
            address: to.address.wrapping_add(offset),
        };
        self.adapters.execute(side, write);
    }

    /// Fills a host's send buffer with bytes by which their places are known.
    pub(crate) fn fill(&mut self, side: Side) -> Vec<u8> {
        let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8 + 1).collect();
        let spans = BufferSpans::new(self.at[side].of.send, one(0, LENGTH));
        self.adapters.fill(side, &spans, &bytes);
        bytes
    }

    /// What is in a host's RMB.
    pub(crate) fn memory(&mut self, side: Side, offset: u32, length: u32) -> Vec<u8> {
        self.marked(side, offset, length, None).expect("no mark")
    }

    /// Reads bytes of an element, if its eye catcher is intact.
    pub(crate) fn marked(
        &mut self,
        side: Side,
        offset: u32,
        length: u32,
        eye_catcher_at: Option<u32>,
    ) -> Option<Vec<u8>> {
        let of = self.at[side].of;
        let mut spans = BufferSpans::new(of.rmb, one(offset, length));
        spans.eye_catcher_at = eye_catcher_at;
        self.adapters.take(side, of.conn, &spans)
    }

    /// Stops a host's queue pair.
    pub(crate) fn drain(&mut self, side: Side) {
        let link = self.at[side].of.link;
        let drained = RdmaCompletion::QpDrained { link };
        let answer = self.ask(side, RdmaCommand::QpToError { link });
        assert_eq!(answer, drained);
    }

    /// Takes everything down as an engine does, after which nothing is left.
    pub(crate) fn down(mut self) {
        for side in 0..2 {
            self.drain(side);
            self.clear(side);
        }
    }

    /// Takes down what a host has whose queue pair is drained.
    pub(crate) fn clear(&mut self, side: Side) {
        let Handles {
            link, rmb, send, ..
        } = self.at[side].of;
        for (place, buffer) in [rmb, send].into_iter().enumerate() {
            if self.at[side].registered[place] {
                self.deregister(side, buffer);
            }
            let answer = self.ask(side, RdmaCommand::FreeBuffer { buffer });
            assert_eq!(answer, RdmaCompletion::BufferFreed { buffer });
        }
        let answer = self.ask(side, RdmaCommand::DestroyQp { link });
        assert_eq!(answer, RdmaCompletion::QpDestroyed { link });
        assert_eq!(self.adapters.possessions(side), 0);
        assert_eq!(self.adapters.complaints(), Vec::<String>::new());
    }
}

/// One piece, and an unused one.
pub(crate) fn one(offset: u32, length: u32) -> [Segment; 2] {
    [Segment { offset, length }, Segment::default()]
}
