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
use super::remote_rmb::ElementSet;
use crate::command::{BufferKind, RdmaCommand};
use crate::config::LINKS_PER_GROUP;
use crate::fingerprint::until;
use crate::id::{BufferId, DeviceId, LinkId, NONE};
use crate::slots::{Linked, Links};
use crate::time::Instant;
use crate::wire::types::{BufferSize, RToken};

/// A buffer as the tables hold it. Opaque.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub(crate) group: u32,
    /// The RNIC that is asked for everything about this buffer.
    pub(crate) device: DeviceId,
    pub(crate) kind: BufferKind,
    pub(crate) size: BufferSize,
    pub(crate) elements: u8,
    pub(crate) memory: Memory,
    registrations: [Registration; LINKS_PER_GROUP],
    rtokens: [RToken; LINKS_PER_GROUP],
    /// The control command under way.
    under_way: Option<Control>,
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
    pub(crate) waiter: u32,
    pub(crate) idle_deadline: Option<Instant>,
    links: [Links; 4],
}

/// The memory behind a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Memory {
    Absent,
    Present,
    /// Could not be had, or is given back.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Registration {
    None,
    Done,
}

/// Whether the peer knows an RMB's RTokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Agreement {
    /// Nothing to agree on: a send buffer, or an RMB not yet announced.
    None,
    /// CONFIRM RKEY wanted or under way.
    Confirming,
    /// Known to the peer.
    Confirmed,
    /// DELETE RKEY wanted or under way.
    Deleting,
}

impl Buffer {
    pub(crate) fn new(
        group: u32,
        device: DeviceId,
        kind: BufferKind,
        size: BufferSize,
        elements: u8,
    ) -> Self {
        Self {
            group,
            device,
            kind,
            size,
            elements,
            memory: Memory::Absent,
            registrations: [Registration::None; LINKS_PER_GROUP],
            rtokens: [RToken::default(); LINKS_PER_GROUP],
            under_way: None,
            retired: false,
            agreement: Agreement::None,
            clean: ElementSet::up_to(elements),
            dirty: ElementSet::EMPTY,
            users: 0,
            waiter: NONE,
            idle_deadline: None,
            links: [Links::UNLINKED; 4],
        }
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.rtokens, self.links).hash(hasher);
        (self.group, self.kind, self.size, self.elements, self.memory).hash(hasher);
        (
            self.registrations,
            self.under_way,
            self.retired,
            self.agreement,
        )
            .hash(hasher);
        (self.clean, self.dirty, self.users, self.waiter).hash(hasher);
        until(self.idle_deadline, now).hash(hasher);
    }

    /// First octet of an element (RMB-012).
    //= RMB-012
    pub(crate) fn element_offset(&self, index: u8) -> u32 {
        u32::from(index)
            .saturating_sub(1)
            .saturating_mul(self.size.octets())
    }

    /// Element index of a first octet.
    fn element_at(&self, offset: u32) -> Option<u8> {
        let index = offset.checked_div(self.size.octets())?.checked_add(1)?;
        u8::try_from(index)
            .ok()
            .filter(|index| *index <= self.elements)
    }

    pub(crate) fn is_registered(&self, position: u8) -> bool {
        self.registrations.get(usize::from(position)) == Some(&Registration::Done)
    }

    pub(crate) fn rtoken(&self, position: u8) -> Option<RToken> {
        self.is_registered(position).then_some(())?;
        self.rtokens.get(usize::from(position)).copied()
    }

    fn first_registered(&self) -> Option<u8> {
        (0u8..)
            .zip(self.registrations)
            .find(|(_, r)| *r == Registration::Done)
            .map(|(p, _)| p)
    }

    /// The next control command for a buffer whose group has its link at
    /// `position`; `usable` tells whether that link takes registrations.
    pub(crate) fn next_control(
        &mut self,
        buffer: BufferId,
        link: LinkId,
        position: u8,
        usable: bool,
        eye_catcher: bool,
    ) -> Option<RdmaCommand> {
        let wanted = self.wanted(position, usable)?;
        self.under_way = Some(wanted);
        Some(match wanted {
            Control::Alloc => RdmaCommand::AllocBuffer {
                buffer,
                kind: self.kind,
                elements: self.elements,
                element_size: self.size.octets(),
                //= RMB-014
                //= RMB-015
                eye_catcher: eye_catcher && self.kind == BufferKind::Rmb,
            },
            Control::Register(_) => RdmaCommand::RegisterBuffer { buffer, link },
            Control::Clear(index) => RdmaCommand::ClearElement {
                buffer,
                offset: self.element_offset(index),
                length: self.size.octets(),
                eye_catcher,
            },
            Control::Deregister(_) => RdmaCommand::DeregisterBuffer { buffer, link },
            Control::Free => RdmaCommand::FreeBuffer { buffer },
        })
    }

    /// Whether a control command is under way.
    pub(crate) const fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// The control command that was under way and failed.
    pub(crate) const fn take_refused(&mut self) -> Option<Control> {
        self.under_way.take()
    }

    /// Whether [`Buffer::next_control`] would give a command.
    pub(crate) fn wants_control(&self, position: u8, usable: bool) -> bool {
        self.wanted(position, usable).is_some()
    }

    fn wanted(&self, position: u8, usable: bool) -> Option<Control> {
        if self.is_busy() {
            return None;
        }
        match self.memory {
            Memory::Absent => (!self.retired).then_some(Control::Alloc),
            Memory::Gone => None,
            // Whoever has an element gives it back first: the slot, and with it
            // the memory, must not become somebody else's before.
            Memory::Present if self.retired && self.users > 0 => None,
            Memory::Present if self.retired => Some(match self.first_registered() {
                Some(position) => Control::Deregister(position),
                None => Control::Free,
            }),
            Memory::Present => {
                if let Some(index) = self.dirty.first() {
                    Some(Control::Clear(index))
                } else {
                    (usable && !self.is_registered(position)).then_some(Control::Register(position))
                }
            }
        }
    }

    pub(crate) fn on_allocated(&mut self) {
        if self.under_way == Some(Control::Alloc) {
            self.under_way = None;
            self.memory = Memory::Present;
        }
    }

    /// Notes a registration; whether it was expected.
    pub(crate) fn on_registered(&mut self, position: u8, rtoken: RToken) -> bool {
        if self.under_way != Some(Control::Register(position)) {
            return false;
        }
        self.under_way = None;
        if let (Some(registration), Some(entry)) = (
            self.registrations.get_mut(usize::from(position)),
            self.rtokens.get_mut(usize::from(position)),
        ) {
            *registration = Registration::Done;
            *entry = rtoken;
        }
        true
    }

    /// Notes the end of a registration; whether it was expected.
    pub(crate) fn on_deregistered(&mut self, position: u8) -> bool {
        if self.under_way != Some(Control::Deregister(position)) {
            return false;
        }
        self.under_way = None;
        self.forget_registration(position);
        true
    }

    /// Counts a registration as undone.
    pub(crate) fn forget_registration(&mut self, position: u8) {
        if let Some(registration) = self.registrations.get_mut(usize::from(position)) {
            *registration = Registration::None;
        }
    }

    /// Whether the memory is being given back.
    pub(crate) fn is_being_freed(&self) -> bool {
        self.under_way == Some(Control::Free)
    }

    /// Notes that an element is zero.
    pub(crate) fn on_cleared(&mut self, offset: u32) {
        if let Some(index) = self.element_at(offset)
            && self.under_way == Some(Control::Clear(index))
        {
            self.under_way = None;
            self.dirty.remove(index);
            self.clean.insert(index);
        }
    }

    /// Takes a clean element for a connection.
    pub(crate) fn take_element(&mut self) -> Option<u8> {
        let index = self.clean.first()?;
        self.clean.remove(index);
        self.users = self.users.saturating_add(1);
        Some(index)
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

/// A control command of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Control {
    Alloc,
    /// On the link at this position.
    Register(u8),
    /// This element.
    Clear(u8),
    /// On the link at this position.
    Deregister(u8),
    Free,
}

macro_rules! linked {
    ($($kind:expr),*) => {$(
        impl Linked<{ $kind }> for Buffer {
            fn links(&mut self) -> &mut Links {
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
