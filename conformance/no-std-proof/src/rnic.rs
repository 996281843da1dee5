//! An RNIC that does, defers or refuses what it is asked for, as the input says.

use smc_proto::adapter::{Answer, Refused, Rnic};
use smc_proto::command::{BufferKind, QpAddress, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, DeviceId, LinkId, WrId};
use smc_proto::wire::BufferTooSmall;
use smc_proto::wire::types::{Mtu, Psn, Qpn, RToken};

use crate::input::Input;
use crate::sink::{Sink, keep};
use crate::values::Any;

pub struct Nic<'a> {
    pub input: &'a mut Input,
    /// The link that a completion is for, and how many follow.
    pub completions: (LinkId, u32),
}

/// Prints and compares answers.
pub fn answers(input: &mut Input, sink: &mut Sink) {
    let qpn = Qpn::any(input);
    let answer: Answer<Qpn> = input.bit().then_some(qpn).into();
    sink.value(&answer, &Answer::Later);
    let result = if input.bit() { Ok(qpn) } else { Err(Refused) };
    let answer: Answer<Qpn> = result.into();
    sink.value(&answer, &Answer::Failed(Refused));
    sink.value(&Refused, &Refused);
}

impl Nic<'_> {
    fn answer<T, E>(&mut self, done: T, failed: E) -> Answer<T, E> {
        match self.input.below(3) {
            0 => Answer::Done(done),
            1 => Answer::Later,
            _ => Answer::Failed(failed),
        }
    }

    fn control(&mut self) -> Answer {
        self.answer((), Refused)
    }
}

impl Rnic for Nic<'_> {
    fn device(&self) -> DeviceId {
        DeviceId(0)
    }

    fn create_qp(&mut self, _: LinkId, _: u8, _: u16, _: u32) -> Answer<Qpn> {
        let qpn = Qpn::any(self.input);
        self.answer(qpn, Refused)
    }

    fn connect_qp(&mut self, _: LinkId, _: QpAddress, _: Mtu, _: u8) -> Answer {
        self.control()
    }

    fn activate_qp(&mut self, _: LinkId, _: Psn) -> Answer {
        self.control()
    }

    fn drain_qp(&mut self, _: LinkId) -> Answer {
        self.control()
    }

    fn destroy_qp(&mut self, _: LinkId) -> Answer {
        self.control()
    }

    fn alloc_buffer(&mut self, _: BufferId, _: BufferKind, _: u8, _: u32, _: bool) -> Answer {
        self.control()
    }

    fn register_buffer(&mut self, _: BufferId, _: LinkId) -> Answer<RToken> {
        let rtoken = RToken::any(self.input);
        self.answer(rtoken, Refused)
    }

    fn deregister_buffer(&mut self, _: BufferId, _: LinkId) -> Answer {
        self.control()
    }

    fn free_buffer(&mut self, _: BufferId) -> Answer {
        self.control()
    }

    fn clear_element(&mut self, _: BufferId, _: u32, _: u32, _: bool) -> Answer {
        self.control()
    }

    fn write(
        &mut self,
        _: LinkId,
        _: BufferId,
        _: [Segment; 2],
        _: RToken,
    ) -> Result<(), LinkFailure> {
        match self.input.bit() {
            true => Ok(()),
            false => Err(LinkFailure::Other),
        }
    }

    fn send(&mut self, _: LinkId, _: WrId, payload: &[u8; 44]) -> Answer<(), LinkFailure> {
        keep(*payload);
        self.answer((), LinkFailure::Other)
    }

    fn send_large(
        &mut self,
        _: LinkId,
        _: WrId,
        _: u32,
        emit: &mut dyn FnMut(&mut [u8]) -> Result<usize, BufferTooSmall>,
    ) -> Answer<(), LinkFailure> {
        let mut message = [0; 1024];
        match emit(&mut message) {
            Ok(_) => self.answer((), LinkFailure::Other),
            Err(_) => Answer::Failed(LinkFailure::Other),
        }
    }

    fn poll_completion(&mut self) -> Option<RdmaCompletion<'_>> {
        let (link, left) = self.completions;
        self.completions = (link, left.checked_sub(1)?);
        Some(RdmaCompletion::QpActive { link })
    }
}

/// The same RNIC with what the trait provides.
pub struct Plain<'a>(pub Nic<'a>);

impl Rnic for Plain<'_> {
    fn device(&self) -> DeviceId {
        self.0.device()
    }

    fn create_qp(&mut self, link: LinkId, port: u8, gid: u16, receive: u32) -> Answer<Qpn> {
        self.0.create_qp(link, port, gid, receive)
    }

    fn connect_qp(&mut self, link: LinkId, peer: QpAddress, mtu: Mtu, hops: u8) -> Answer {
        self.0.connect_qp(link, peer, mtu, hops)
    }

    fn activate_qp(&mut self, link: LinkId, psn: Psn) -> Answer {
        self.0.activate_qp(link, psn)
    }

    fn drain_qp(&mut self, link: LinkId) -> Answer {
        self.0.drain_qp(link)
    }

    fn destroy_qp(&mut self, link: LinkId) -> Answer {
        self.0.destroy_qp(link)
    }

    fn alloc_buffer(
        &mut self,
        buffer: BufferId,
        kind: BufferKind,
        elements: u8,
        size: u32,
        eye_catcher: bool,
    ) -> Answer {
        self.0
            .alloc_buffer(buffer, kind, elements, size, eye_catcher)
    }

    fn register_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer<RToken> {
        self.0.register_buffer(buffer, link)
    }

    fn deregister_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer {
        self.0.deregister_buffer(buffer, link)
    }

    fn free_buffer(&mut self, buffer: BufferId) -> Answer {
        self.0.free_buffer(buffer)
    }

    fn clear_element(&mut self, buffer: BufferId, offset: u32, length: u32, eye: bool) -> Answer {
        self.0.clear_element(buffer, offset, length, eye)
    }

    fn write(
        &mut self,
        link: LinkId,
        buffer: BufferId,
        source: [Segment; 2],
        target: RToken,
    ) -> Result<(), LinkFailure> {
        self.0.write(link, buffer, source, target)
    }

    fn send(&mut self, link: LinkId, wr_id: WrId, payload: &[u8; 44]) -> Answer<(), LinkFailure> {
        self.0.send(link, wr_id, payload)
    }

    fn poll_completion(&mut self) -> Option<RdmaCompletion<'_>> {
        self.0.poll_completion()
    }
}
