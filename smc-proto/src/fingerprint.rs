//! A canonical image of an endpoint's state, for exploring states exhaustively.

use core::hash::{Hash, Hasher};

use crate::connection_record::{ContactStep, Phase};
use crate::ports::Ports;
use crate::storage::Tables;
use crate::time::Instant;

/// Feeds the tables into a hasher: what decides the future, nothing that only
/// remembers the past.
pub(crate) fn endpoint<H: Hasher>(
    tables: &Tables<'_>,
    ports: &Ports,
    now: Instant,
    hasher: &mut H,
) {
    ports.hash(hasher);
    for (index, record) in tables.connections.iter() {
        index.hash(hasher);
        record.fingerprint(now, hasher);
        // Links that its Confirm may name.
        if record.contact.step == ContactStep::AwaitingConfirm
            && let Some(group) = tables.groups.at(record.group)
        {
            let former = group.former.since(record.contact.links_left);
            former.for_each(|link| link.hash(hasher));
        }
        // That of a connection which SMC carries follows from its state.
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

/// Time from `now` to a deadline, in a form that hashes.
pub(crate) fn until(deadline: Option<Instant>, now: Instant) -> Option<u64> {
    deadline.map(|deadline| deadline.as_nanos().saturating_sub(now.as_nanos()))
}
