//! All that is known, by the names that messages use.

use std::collections::{BTreeMap, HashMap};

use smc_proto::wire::types::Qpn;

use crate::report::Omission;
use crate::state::connection::ConnectionNumber;
use crate::state::group::{Group, GroupNumber};
use crate::state::link::{LinkEnd, LinkIndex, QpAddress};
use crate::state::side::Side;
use crate::state::stream::Stream;

/// TCP connections that are remembered; the oldest are forgotten first.
const MAX_STREAMS: usize = 16_384;
/// Link groups that are remembered; the oldest are forgotten first.
const MAX_GROUPS: usize = 1024;

/// Where a queue pair belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) group: GroupNumber,
    pub(crate) link: LinkIndex,
    /// Whose queue pair it is.
    pub(crate) owner: Side,
}

/// All that is known.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) groups: BTreeMap<GroupNumber, Group>,
    queue_pairs: HashMap<QpAddress, Place>,
    next_group: GroupNumber,
    next_connection: ConnectionNumber,
}

impl Known {
    /// Whether a side sent anything on the link that it left out behind this frame.
    pub(crate) fn is_used_since(&self, omission: Omission, frame: u64) -> bool {
        let group = self.groups.get(&omission.group);
        let link = group.and_then(|group| group.link(omission.link));
        link.is_some_and(|link| *link.last.of(omission.by) > frame)
    }

    /// A TCP connection, new or known.
    pub(crate) fn stream(&mut self, number: u64) -> &mut Stream {
        if !self.streams.contains_key(&number) && self.streams.len() >= MAX_STREAMS {
            self.streams.pop_first();
        }
        self.streams.entry(number).or_default()
    }

    /// Where a queue pair belongs.
    pub(crate) fn place(&self, address: QpAddress) -> Option<Place> {
        let place = *self.queue_pairs.get(&address)?;
        self.groups.contains_key(&place.group).then_some(place)
    }

    /// The place of a queue pair on a link that is not gone.
    pub(crate) fn live(&self, address: QpAddress) -> Option<Place> {
        let place = self.in_live_group(address)?;
        let gone = self.groups.get(&place.group)?.link(place.link)?.is_gone();
        (!gone).then_some(place)
    }

    /// The place of a queue pair in a group that is not over.
    pub(crate) fn in_live_group(&self, address: QpAddress) -> Option<Place> {
        let place = self.place(address)?;
        let over = self.groups.get(&place.group)?.ended.is_some();
        (!over).then_some(place)
    }

    /// Begins a group.
    pub(crate) fn begin(&mut self, group: Group) -> GroupNumber {
        if self.groups.len() >= MAX_GROUPS {
            self.groups.pop_first();
            let groups = &self.groups;
            self.queue_pairs
                .retain(|_, place| groups.contains_key(&place.group));
        }
        let number = self.next_group;
        self.next_group += 1;
        self.groups.insert(number, group);
        number
    }

    /// Groups begun so far.
    pub(crate) const fn groups_begun(&self) -> u64 {
        self.next_group
    }

    /// A number for a new connection.
    pub(crate) fn connection(&mut self) -> ConnectionNumber {
        self.next_connection += 1;
        self.next_connection
    }

    /// Sets an end of a link.
    pub(crate) fn set_end(&mut self, place: Place, end: LinkEnd) {
        let Some(group) = self.groups.get_mut(&place.group) else {
            return;
        };
        let Some(link) = group.links.get_mut(place.link) else {
            return;
        };
        if end.address.1 != Qpn::default() {
            self.queue_pairs.insert(end.address, place);
        }
        *link.ends.of_mut(place.owner) = Some(end);
    }
}
