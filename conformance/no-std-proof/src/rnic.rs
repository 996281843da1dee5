//! An RNIC that does, defers or refuses what it is asked for, as the input says.

use smc_proto::adapter::{Answer, Refused, Rnic};
use smc_proto::command::{BufferKind, QpAddress, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, DeviceId, LinkId, WrId};
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

    fn poll_completion(&mut self) -> Option<RdmaCompletion<'_>> {
        let (link, left) = self.completions;
        self.completions = (link, left.checked_sub(1)?);
        Some(RdmaCompletion::QpActive { link })
    }
}
