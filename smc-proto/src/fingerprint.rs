//! Hash of an endpoint's state, by which explorers of all states recognise a state they have
//! visited.
//!
//! Two endpoints that will behave alike from now on have the same hash. So it covers what decides
//! future behaviour; times relative to `now`; no statistics, no history. A field that it misses
//! makes an explorer skip states; one too many makes it visit states twice.
//!
//! Called by [`Endpoint::fingerprint`](crate::endpoint::Endpoint::fingerprint). Each table's rows
//! hash themselves, in their modules.

use core::hash::{Hash, Hasher};

use crate::connection_record::{ContactStep, Phase};
use crate::link_group::LinkGroup;
use crate::ports::Ports;
use crate::storage::Views;
use crate::time::Instant;

/// Feeds what decides an endpoint's future behaviour into a hasher.
pub(crate) fn endpoint<H: Hasher>(tables: &Views<'_>, ports: &Ports, now: Instant, hasher: &mut H) {
    ports.hash(hasher);
    for (index, record) in tables.connections.iter() {
        index.hash(hasher);
        record.fingerprint(now, hasher);
        // A Confirm is also accepted if it names a link that left the group since the Accept.
        if record.contact.step == ContactStep::AwaitingConfirm
            && let Some(smcr) = tables.groups.at(record.group).and_then(LinkGroup::smcr)
        {
            let left = smcr.former.since(record.contact.links_left);
            left.for_each(|link| link.hash(hasher));
        }
        // The deadline of any other connection follows from its protocol state.
        if record.phase == Phase::Watching {
            until(tables.connections.deadline(index), now).hash(hasher);
        }
    }
    for (index, handshake) in tables.handshakes.iter() {
        index.hash(hasher);
        handshake.fingerprint(now, hasher);
    }
    for (index, group) in tables.groups.iter() {
        index.hash(hasher);
        group.fingerprint(now, hasher);
    }
    for (index, link) in tables.links.iter() {
        index.hash(hasher);
        link.fingerprint(now, hasher);
    }
    for (index, buffer) in tables.buffers.iter() {
        index.hash(hasher);
        buffer.fingerprint(hasher);
        until(tables.buffers.deadline(index), now).hash(hasher);
    }
    for (index, rmb) in tables.remote_rmbs.iter() {
        index.hash(hasher);
        rmb.fingerprint(hasher);
    }
}

/// Time from `now` to a deadline in nanoseconds, 0 if it has passed.
pub(crate) fn until(deadline: Option<Instant>, now: Instant) -> Option<u64> {
    deadline.map(|deadline| deadline.as_nanos().saturating_sub(now.as_nanos()))
}
