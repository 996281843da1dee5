//! Buffers: RMBs, whose elements peers write into, and send buffers, which the
//! RNIC reads from. Both are memory, registered per link, and reused.
//!
//! ```text
//!   Absent ──Alloc──► Present ──Register(link)──► registered ─┐ RMB: CONFIRM RKEY
//!                        ▲                                    ▼
//!                        └──Deregister(link)── retired ◄── spare ◄──► in use
//!                     Free ▼                                 ▲  Clear  │
//!                       (slot freed)                         └─────────┘
//! ```

use core::hash::{Hash, Hasher};

use super::buffer_list;
use super::ism::IsmBuffer;
use super::remote_rmb::ElementSet;
use super::rtokens::{LinkSet, RTokens};
use crate::command::{BufferKind, RdmaCommand};
use crate::devices::BufferDevice;
use crate::id::{BufferId, ConnIdx, GroupIdx, Idx, LinkId};
use crate::slots::{Linked, Links};
use crate::wire::types::{BufferSize, RToken};

/// A buffer as the tables hold it. Opaque.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub(crate) group: GroupIdx,
    /// The device that executes its commands, but for those about another link's RNIC.
    pub(crate) device: BufferDevice,
    /// The device on whose list it is.
    pub(crate) listed_at: BufferDevice,
    pub(crate) kind: BufferKind,
    pub(crate) size: BufferSize,
    pub(crate) elements: u8,
    pub(crate) memory: Memory,
    rtokens: RTokens,
    /// Links whose RToken the peer knows.
    pub(crate) announced: LinkSet,
    /// The control command in flight.
    pending: Option<Control>,
    /// To be deregistered and freed.
    pub(crate) retired: bool,
    pub(crate) agreement: Agreement,
    /// Elements that a connection can have at once.
    pub(crate) clean: ElementSet,
    /// Elements that must be zeroed first (RMB-016).
    pub(crate) dirty: ElementSet,
    /// Elements of connections.
    pub(crate) users: u8,
    /// The connection that waits for this buffer to become usable.
    pub(crate) waiter: ConnIdx,
    /// What it has besides, if it is SMC-D's.
    pub(crate) ism: Option<IsmBuffer>,
    links: [Links<Self>; 4],
}

/// The memory behind a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Memory {
    Absent,
    Present,
    /// Could not be had, or is given back.
    Gone,
}

/// Whether the peer knows an RMB's RTokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Agreement {
    /// Nothing to agree on: a send buffer, or an RMB not yet announced.
    None,
    /// CONFIRM RKEY wanted or in flight.
    Confirming,
    /// Known to the peer.
    Confirmed,
    /// DELETE RKEY wanted or in flight.
    Deleting,
}

impl Buffer {
    pub(crate) fn new(
        group: GroupIdx,
        device: BufferDevice,
        kind: BufferKind,
        size: BufferSize,
        elements: u8,
    ) -> Self {
        Self {
            group,
            device,
            listed_at: device,
            kind,
            size,
            elements,
            memory: Memory::Absent,
            rtokens: RTokens::NONE,
            announced: LinkSet::EMPTY,
            pending: None,
            retired: false,
            agreement: Agreement::None,
            clean: ElementSet::up_to(elements),
            dirty: ElementSet::EMPTY,
            users: 0,
            waiter: Idx::NONE,
            ism: None,
            links: [Links::UNLINKED; 4],
        }
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.rtokens, self.links).hash(hasher);
        (self.group, self.kind, self.size, self.elements, self.memory).hash(hasher);
        (self.announced, self.pending, self.retired, self.agreement).hash(hasher);
        (self.clean, self.dirty, self.users, self.waiter).hash(hasher);
        if let Some(ism) = self.ism {
            ism.fingerprint(hasher);
        }
    }

    /// First byte of an element (RMB-012).
    //= RMB-012
    //= RMB-003
    pub(crate) fn element_offset(&self, index: u8) -> u32 {
        u32::from(index)
            .saturating_sub(1)
            .saturating_mul(self.size.octets())
    }

    /// Element index of a first byte.
    fn element_at(&self, offset: u32) -> Option<u8> {
        let index = offset.checked_div(self.size.octets())?.checked_add(1)?;
        u8::try_from(index)
            .ok()
            .filter(|index| *index <= self.elements)
    }

    /// Links it is registered on.
    pub(crate) const fn registered(&self) -> LinkSet {
        self.rtokens.links()
    }

    /// Whether it can be used on each of these links.
    pub(crate) const fn is_registered_on(&self, links: LinkSet) -> bool {
        links.without(self.registered()).is_empty()
    }

    pub(crate) fn rtoken(&self, position: u8) -> Option<RToken> {
        self.rtokens.get(position)
    }

    /// Whether the peer knows it on each of these links.
    pub(crate) const fn is_announced_on(&self, links: LinkSet) -> bool {
        links.without(self.announced).is_empty()
    }

    /// Whether the RMB was announced to the peer.
    pub(crate) const fn is_announced(&self) -> bool {
        !self.announced.is_empty()
    }

    /// Whether the peer may write to it, or its withdrawal is being announced.
    //= RMB-030
    fn is_agreed_on(&self) -> bool {
        self.agreement != Agreement::None
    }

    /// Notes a control command for an RNIC as in flight; `link` is the one it names, if any.
    pub(crate) fn start_control(
        &mut self,
        wanted: Control,
        buffer: BufferId,
        link: LinkId,
        eye_catcher: bool,
    ) -> Option<RdmaCommand> {
        let command = match wanted {
            Control::Alloc => RdmaCommand::AllocBuffer {
                buffer,
                kind: self.kind,
                elements: self.elements,
                //= RMB-004
                element_size: self.size.octets(),
                //= RMB-014
                //= RMB-015
                eye_catcher: eye_catcher && self.kind == BufferKind::Rmb,
            },
            //= RMB-007
            //= SEC-006
            Control::Register(_) => RdmaCommand::RegisterBuffer { buffer, link },
            Control::Clear(index) => RdmaCommand::ClearElement {
                buffer,
                offset: self.element_offset(index),
                length: self.size.octets(),
                eye_catcher,
            },
            Control::Deregister(_) => RdmaCommand::DeregisterBuffer { buffer, link },
            Control::Free => RdmaCommand::FreeBuffer { buffer },
            // Commands for an ISM device.
            Control::Attach | Control::Detach => return None,
        };
        self.pending = Some(wanted);
        Some(command)
    }

    /// Notes a control command of SMC-D as in flight.
    #[cfg(feature = "smc-d")]
    pub(super) const fn note_in_flight(&mut self, wanted: Control) {
        self.pending = Some(wanted);
    }

    /// Whether this control command is in flight.
    #[cfg(feature = "smc-d")]
    pub(super) fn is_pending(&self, control: Control) -> bool {
        self.pending == Some(control)
    }

    /// Whether a control command is in flight.
    pub(crate) const fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// The control command that was in flight and failed.
    pub(crate) const fn take_refused(&mut self) -> Option<Control> {
        self.pending.take()
    }

    /// The next control command of a buffer of SMC-R, whose group has these links. They are looked
    /// up only if it depends on them.
    pub(crate) fn wanted(&self, links: impl FnOnce() -> Registrable) -> Option<Control> {
        if self.is_busy() {
            return None;
        }
        let links = links();
        // A link that was drained gives its registrations back first of all.
        let leaving = self.registered().and(links.drained).first();
        if let (Some(position), Memory::Present) = (leaving, self.memory) {
            return Some(Control::Deregister(position));
        }
        match self.memory {
            Memory::Absent => (!self.retired).then_some(Control::Alloc),
            Memory::Gone => None,
            // The users of an element give it back first, and the peer forgets it: the
            // slot, and with it the memory, must not be reused before.
            Memory::Present if self.retired && (self.users > 0 || self.is_agreed_on()) => None,
            Memory::Present if self.retired => Some(match self.registered().first() {
                Some(position) => Control::Deregister(position),
                None => Control::Free,
            }),
            //= RMB-017
            Memory::Present => match self.dirty.first() {
                Some(index) => Some(Control::Clear(index)),
                None => links
                    .open
                    .without(self.registered())
                    .first()
                    .map(Control::Register),
            },
        }
    }

    pub(crate) fn on_allocated(&mut self) {
        if self.pending == Some(Control::Alloc) {
            self.pending = None;
            self.memory = Memory::Present;
        }
    }

    /// Notes a registration; whether it was expected.
    pub(crate) fn on_registered(&mut self, position: u8, rtoken: RToken) -> bool {
        if self.pending != Some(Control::Register(position)) {
            return false;
        }
        self.pending = None;
        self.rtokens.set(position, rtoken);
        true
    }

    /// Notes the end of a registration; whether it was expected.
    pub(crate) fn on_deregistered(&mut self, position: u8) -> bool {
        if self.pending != Some(Control::Deregister(position)) {
            return false;
        }
        self.pending = None;
        self.forget_registration(position);
        true
    }

    /// Counts a registration as undone.
    pub(crate) fn forget_registration(&mut self, position: u8) {
        self.rtokens.remove(position);
        self.announced.remove(position);
    }

    /// Whether the memory is being given back.
    pub(crate) fn is_being_freed(&self) -> bool {
        self.pending == Some(Control::Free)
    }

    /// Notes that an element is zero. Returns whether it was being cleared.
    pub(crate) fn on_cleared(&mut self, offset: u32) -> bool {
        let Some(index) = self.element_at(offset) else {
            return false;
        };
        let was_pending = self.pending == Some(Control::Clear(index));
        if was_pending {
            self.pending = None;
            self.dirty.remove(index);
            self.clean.insert(index);
        }
        was_pending
    }

    /// Takes a clean element for a connection.
    pub(crate) fn take_element(&mut self) -> Option<u8> {
        let index = self.clean.first()?;
        self.clean.remove(index);
        self.users = self.users.saturating_add(1);
        Some(index)
    }

    /// Retires an element for good: it was announced to the peer, and no message will
    /// show when the peer is done with it.
    pub(crate) fn lose_element(&mut self) {
        self.users = self.users.saturating_sub(1);
    }

    /// Takes an element back. What an RMB's element holds is never shown to
    /// another connection: it is zeroed first (RMB-016, SEC-008).
    //= RMB-016
    //= SEC-008
    pub(crate) fn return_element(&mut self, index: u8) {
        self.users = self.users.saturating_sub(1);
        match self.kind {
            BufferKind::Rmb => self.dirty.insert(index),
            BufferKind::Send => self.clean.insert(index),
        };
    }
}

/// Links of a group as buffers see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registrable {
    /// With a protection domain that takes registrations.
    pub(crate) open: LinkSet,
    /// Whose queue pair touches no memory any more.
    pub(crate) drained: LinkSet,
}

/// A control command of a buffer.
#[cfg_attr(
    not(feature = "smc-d"),
    expect(dead_code, reason = "only buffers of SMC-D are attached")
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Control {
    Alloc,
    /// On the link at this position.
    Register(u8),
    /// The element to clear.
    Clear(u8),
    /// On the link at this position.
    Deregister(u8),
    /// Binds a send buffer to a DMB of the peer.
    Attach,
    /// Undoes that.
    Detach,
    Free,
}

impl Control {
    /// The link it concerns.
    pub(crate) const fn link_position(self) -> Option<u8> {
        match self {
            Self::Register(position) | Self::Deregister(position) => Some(position),
            _ => None,
        }
    }
}

macro_rules! linked {
    ($($kind:expr),*) => {$(
        impl Linked<{ $kind }> for Buffer {
            fn links(&mut self) -> &mut Links<Self> {
                let [ready, spare, owned, agreement] = &mut self.links;
                match $kind {
                    buffer_list::READY => ready,
                    buffer_list::SPARE => spare,
                    buffer_list::OWNED => owned,
                    _ => agreement,
                }
            }
        }
    )*};
}
linked!(
    buffer_list::READY,
    buffer_list::SPARE,
    buffer_list::OWNED,
    buffer_list::AGREEMENT
);

#[cfg(test)]
mod tests;
