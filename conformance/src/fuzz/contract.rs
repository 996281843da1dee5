//! What an adapter may rely on, checked at every command, and the memory of one
//! host: queue pairs and buffers as the commands make them.

mod answers;
mod memory;

use std::collections::VecDeque;

use smc_proto::command::{BufferKind, QpAddress, RdmaCommand, Segment};
use smc_proto::id::{BufferId, LinkId, WrId};
use smc_proto::wire::types::{Qpn, RKey};

use memory::Memory;

/// Most SENDs an adapter must hold for one link.
const SENDS: usize = 16;

/// State of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Qp {
    Absent,
    Init,
    Rtr,
    Rts,
    Error,
    Gone,
}

/// A queue pair, kept when it is gone.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) qp: Qp,
    pub(super) qpn: Qpn,
    pub(super) peer: Option<QpAddress>,
    /// Reported as failed.
    pub(super) failed: bool,
    busy: bool,
    next_wr: u32,
    posted: VecDeque<WrId>,
}

/// A buffer, kept when it is gone.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) id: BufferId,
    pub(super) kind: BufferKind,
    pub(super) memory: Memory,
    pub(super) element: u32,
    pub(super) links: Vec<LinkId>,
    present: bool,
    busy: bool,
    gone: bool,
}

/// All of one host. A remote key is the position of a buffer plus one.
#[derive(Clone, Debug)]
pub(super) struct Contract {
    pub(super) links: Vec<Link>,
    pub(super) buffers: Vec<Buffer>,
    /// Whether the device keeps the contract; if not, neither must the engine.
    pub(super) trusted: bool,
    base_qpn: u32,
}

/// Address of the first byte of a buffer.
pub(super) const BASE: u64 = 0x7f00_0000_0000;

impl Buffer {
    pub(super) const fn is_gone(&self) -> bool {
        self.gone
    }
}

impl Contract {
    pub(super) const fn new(base_qpn: u32) -> Self {
        Self {
            links: Vec::new(),
            buffers: Vec::new(),
            trusted: true,
            base_qpn,
        }
    }

    pub(super) fn link(&mut self, id: LinkId) -> &mut Link {
        let link = self.links.iter_mut().rev().find(|link| link.id == id);
        link.expect("a link that was created")
    }

    pub(super) fn buffer(&mut self, id: BufferId) -> &mut Buffer {
        let buffer = self.buffers.iter_mut().rev().find(|buffer| buffer.id == id);
        buffer.expect("a buffer that was allocated")
    }

    /// Checks that a command is one the adapter can execute now.
    pub(super) fn issue(&mut self, command: &RdmaCommand) {
        if !self.trusted {
            return;
        }
        match *command {
            RdmaCommand::CreateQp { link, .. } => {
                assert!(self.links.iter().all(|l| l.id != link), "{link} twice");
                let qpn = Qpn::new(self.base_qpn + self.links.len() as u32 + 1);
                self.links.push(Link {
                    id: link,
                    qp: Qp::Absent,
                    qpn,
                    peer: None,
                    failed: false,
                    busy: true,
                    next_wr: 0,
                    posted: VecDeque::new(),
                });
            }
            RdmaCommand::ConnectQp { link, peer, .. } => {
                self.control(link, Qp::Init).peer = Some(peer);
            }
            RdmaCommand::ActivateQp { link, .. } => {
                self.control(link, Qp::Rtr);
            }
            RdmaCommand::QpToError { link } => {
                let state = self.link(link).qp;
                assert!((Qp::Init..=Qp::Rts).contains(&state), "{command:?}");
                self.control(link, state);
            }
            RdmaCommand::DestroyQp { link } => {
                self.control(link, Qp::Error);
                let left = self.buffers.iter().find(|b| b.links.contains(&link));
                assert!(left.is_none(), "{link} still has {left:?}");
            }
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                elements,
                element_size,
                ..
            } => {
                assert!(self.buffers.iter().all(|b| b.id != buffer));
                assert!(elements >= 1 && (kind == BufferKind::Rmb || elements == 1));
                self.buffers.push(Buffer {
                    id: buffer,
                    kind,
                    memory: Memory::new(usize::from(elements) * element_size as usize),
                    element: element_size,
                    links: Vec::new(),
                    present: false,
                    busy: true,
                    gone: false,
                });
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                assert!((Qp::Init..Qp::Error).contains(&self.link(link).qp));
                assert!(!self.memory_command(buffer).links.contains(&link));
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                assert!(self.memory_command(buffer).links.contains(&link));
                assert_ne!(self.link(link).qp, Qp::Gone);
            }
            RdmaCommand::FreeBuffer { buffer } => {
                assert!(self.memory_command(buffer).links.is_empty());
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                ..
            } => {
                let b = self.memory_command(buffer);
                assert!(length == b.element && offset.is_multiple_of(length));
                b.memory.clear(offset as usize..(offset + length) as usize);
            }
            RdmaCommand::Write {
                link,
                buffer,
                source,
                ..
            } => {
                assert_eq!(self.link(link).qp, Qp::Rts, "{command:?}");
                assert!(!self.is_ending(link), "{command:?}");
                assert!(source[0].length > 0, "{command:?}");
                let b = self.buffer(buffer);
                assert!(b.kind == BufferKind::Send && b.links.contains(&link) && !b.gone);
                for Segment { offset, length } in source {
                    assert!(offset as usize + length as usize <= b.memory.len());
                }
            }
            RdmaCommand::Send { link, wr_id, .. } | RdmaCommand::SendLarge { link, wr_id, .. } => {
                assert!(!self.is_ending(link), "{command:?}");
                let l = self.link(link);
                assert_eq!(l.qp, Qp::Rts, "{command:?}");
                assert_eq!(wr_id.0, l.next_wr);
                l.next_wr += 1;
                l.posted.push_back(wr_id);
                assert!(l.posted.len() <= SENDS);
            }
        }
    }

    /// Nothing of the device is left.
    pub(super) fn check_empty(&self) {
        let link = self.links.iter().find(|link| link.qp != Qp::Gone);
        assert!(link.is_none(), "{link:?} was forgotten");
        let buffer = self.buffers.iter().find(|buffer| !buffer.gone);
        assert!(buffer.is_none(), "{:?} was forgotten", buffer.map(|b| b.id));
    }

    /// A control command for a queue pair in this state, with none in progress.
    fn control(&mut self, link: LinkId, state: Qp) -> &mut Link {
        let l = self.link(link);
        assert!(!l.busy && l.qp == state, "{l:?}");
        l.busy = true;
        l
    }

    /// Whether the queue pair is on its way to the error state.
    fn is_ending(&mut self, link: LinkId) -> bool {
        self.link(link).busy
    }

    fn memory_command(&mut self, buffer: BufferId) -> &mut Buffer {
        let b = self.buffer(buffer);
        assert!(b.present && !b.busy && !b.gone, "{:?}", b.id);
        b.busy = true;
        b
    }

    fn rkey(&self, buffer: BufferId) -> RKey {
        let at = self.buffers.iter().rposition(|b| b.id == buffer);
        RKey(at.map_or(0, |at| at as u32 + 1))
    }

    /// A SEND and all before it on its link completed.
    pub(super) fn sent(&mut self, link: LinkId, wr_id: WrId) {
        if !self.trusted {
            return;
        }
        let l = self.link(link);
        if l.posted.contains(&wr_id) {
            while l.posted.pop_front().is_some_and(|wr| wr != wr_id) {}
        }
    }
}
