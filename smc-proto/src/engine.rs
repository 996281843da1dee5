//! The engine for the duration of one call: all tables, in three contexts.
//!
//! ```text
//!  Engine     handshakes                                  rendezvous/, endpoint/
//!    └─ Groups    buffers, remote RMBs                    link_group/
//!         └─ DataPath   core, connections, links, groups  data_path/
//! ```
//!
//! A method has the tables of its context and of those below: one of `link_group/` cannot call
//! one of `rendezvous/`. What the upper one has to know is stored where the lower one writes
//! ([`Core::wakes`], [`Contact`]), or returned.

use crate::connection_record::ConnectionRecord;
#[cfg(doc)]
use crate::connection_record::Contact;
use crate::core::Core;
use crate::data_path::DataPath;
use crate::id::{ConnId, ConnIdx, GroupIdx, LinkIdx};
use crate::link_group::{Groups, Link, LinkGroup};
use crate::rendezvous::Handshake;
use crate::slots::Pool;
use crate::storage::Tables;
use crate::time::Instant;
use crate::trace::Tap;

/// Core and tables, borrowed for one call.
pub(crate) struct Engine<'a> {
    pub(crate) groups: Groups<'a>,
    pub(crate) handshakes: Pool<'a, Handshake>,
}

impl<'a> Engine<'a> {
    #[inline]
    pub(crate) fn new(core: &'a mut Core, call: (Tables<'a>, Tap<'a>)) -> Self {
        core.change();
        Self::for_data(core, call)
    }

    /// An engine for a call that changes nothing but bytes of a connection.
    #[inline(always)]
    pub(crate) fn for_data(core: &'a mut Core, (tables, tap): (Tables<'a>, Tap<'a>)) -> Self {
        let Tables {
            connections,
            handshakes,
            groups,
            links,
            buffers,
            remote_rmbs,
        } = tables;
        Self {
            groups: Groups {
                data: DataPath {
                    core,
                    connections,
                    links,
                    groups,
                    tap,
                },
                buffers,
                remote_rmbs,
            },
            handshakes,
        }
    }

    /// Notes that this call may change more than bytes.
    #[inline]
    pub(crate) fn mark_changed(&mut self) -> &mut Self {
        self.groups.data.core.change();
        self
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.groups.data.core.now
    }

    /// A connection.
    #[inline]
    pub(crate) fn conn(&self, conn: ConnIdx) -> Option<&ConnectionRecord> {
        self.groups.data.connections.at(conn)
    }

    /// A link.
    #[inline]
    pub(crate) fn link(&self, link: LinkIdx) -> Option<&Link> {
        self.groups.data.links.at(link)
    }

    /// A link group.
    #[inline]
    pub(crate) fn group(&self, group: GroupIdx) -> Option<&LinkGroup> {
        self.groups.data.groups.at(group)
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        self.groups.data.core.step();
    }

    /// The live connection of a handle.
    #[inline]
    pub(crate) fn live_conn(&self, id: ConnId) -> Option<ConnIdx> {
        self.groups.data.live_conn(id)
    }
}
