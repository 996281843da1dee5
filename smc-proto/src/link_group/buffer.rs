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

use super::remote_rmb::ElementSet;
use super::{LINKS_PER_GROUP, buffer_list};
use crate::command::{BufferKind, RdmaCommand};
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
    /// Link position of the registration command under way.
    pending_position: u8,
    /// A control command is under way.
    pub(crate) busy: bool,
    /// Which.
    doing: Option<Want>,
    /// To be deregistered and freed.
    pub(crate) retired: bool,
    pub(crate) agreement: Agreement,
    /// Elements that a connection can have at once.
    pub(crate) clean: ElementSet,
    /// Elements that must be zeroed first (RMB-016).
    pub(crate) dirty: ElementSet,
    /// Elements that never got their eye catcher (RMB-015).
    unmarked: ElementSet,
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
        eye_catcher: bool,
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
            pending_position: 0,
            busy: false,
            doing: None,
            retired: false,
            agreement: Agreement::None,
            clean: ElementSet::up_to(elements),
            dirty: ElementSet::EMPTY,
            unmarked: if eye_catcher && matches!(kind, BufferKind::Rmb) {
                ElementSet::up_to(elements)
            } else {
                ElementSet::EMPTY
            },
            users: 0,
            waiter: NONE,
            idle_deadline: None,
            links: [Links::UNLINKED; 4],
        }
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.group, self.kind, self.size, self.elements, self.memory).hash(hasher);
        (self.registrations, self.busy, self.retired, self.agreement).hash(hasher);
        (
            self.clean,
            self.dirty,
            self.unmarked,
            self.users,
            self.waiter,
        )
            .hash(hasher);
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
        let want = self.wanted(position, usable)?;
        self.busy = true;
        self.doing = Some(want);
        Some(match want {
            Want::Alloc => RdmaCommand::AllocBuffer {
                buffer,
                kind: self.kind,
                elements: self.elements,
                element_size: self.size.octets(),
            },
            Want::Register => {
                self.pending_position = position;
                RdmaCommand::RegisterBuffer { buffer, link }
            }
            Want::Clear(index) => RdmaCommand::ClearElement {
                buffer,
                offset: self.element_offset(index),
                length: self.size.octets(),
                eye_catcher,
            },
            Want::Deregister(position) => {
                self.pending_position = position;
                RdmaCommand::DeregisterBuffer { buffer, link }
            }
            Want::Free => RdmaCommand::FreeBuffer { buffer },
        })
    }

    /// Whether [`Buffer::next_control`] would give a command.
    pub(crate) fn wants_control(&self, position: u8, usable: bool) -> bool {
        self.wanted(position, usable).is_some()
    }

    fn wanted(&self, position: u8, usable: bool) -> Option<Want> {
        if self.busy {
            return None;
        }
        match self.memory {
            Memory::Absent => (!self.retired).then_some(Want::Alloc),
            Memory::Gone => None,
            Memory::Present if self.retired => Some(match self.first_registered() {
                Some(position) => Want::Deregister(position),
                None => Want::Free,
            }),
            Memory::Present => {
                //= RMB-015
                if let Some(index) = self.unmarked.first().or(self.dirty.first()) {
                    Some(Want::Clear(index))
                } else {
                    (usable && !self.is_registered(position)).then_some(Want::Register)
                }
            }
        }
    }

    pub(crate) fn on_allocated(&mut self) {
        if self.memory == Memory::Absent {
            self.busy = false;
            self.memory = Memory::Present;
        }
    }

    /// Notes a registration; whether it was expected.
    pub(crate) fn on_registered(&mut self, position: u8, rtoken: RToken) -> bool {
        if !self.busy || self.pending_position != position || self.is_registered(position) {
            return false;
        }
        self.busy = false;
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
        if !self.busy || !self.is_registered(position) {
            return false;
        }
        self.busy = false;
        if let Some(registration) = self.registrations.get_mut(usize::from(position)) {
            *registration = Registration::None;
        }
        true
    }

    /// Notes that an element is zero.
    pub(crate) fn on_cleared(&mut self, offset: u32) {
        let Some(index) = self.element_at(offset).filter(|_| self.busy) else {
            return;
        };
        if self.unmarked.contains(index) {
            // It may belong to a connection already, which has not told anyone.
            self.busy = false;
            self.unmarked.remove(index);
        } else if self.dirty.contains(index) {
            self.busy = false;
            self.dirty.remove(index);
            self.clean.insert(index);
        }
    }

    /// Notes that the command under way failed, as far as the buffer itself goes.
    pub(crate) fn on_refused(&mut self) -> Option<Refused> {
        if !core::mem::take(&mut self.busy) {
            return None;
        }
        Some(match self.doing? {
            Want::Alloc => {
                self.memory = Memory::Gone;
                Refused::Unusable { registering: false }
            }
            Want::Register => Refused::Unusable { registering: true },
            // The element is lost. Its RMB is not, unless the element was about to
            // be used for the first time: then somebody waits for it.
            Want::Clear(index) if !self.unmarked.contains(index) => {
                self.dirty.remove(index);
                Refused::Element
            }
            Want::Clear(_) => Refused::Unusable { registering: false },
            // It cannot be taken back: count it as gone.
            Want::Deregister(position) => {
                if let Some(registration) = self.registrations.get_mut(usize::from(position)) {
                    *registration = Registration::None;
                }
                Refused::Deregister
            }
            Want::Free => Refused::Free,
        })
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

/// What a failed command means for the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The buffer cannot be used.
    Unusable { registering: bool },
    /// One of its elements cannot be used again.
    Element,
    /// The registration counts as undone.
    Deregister,
    /// The memory counts as given back.
    Free,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Want {
    Alloc,
    Register,
    Clear(u8),
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
