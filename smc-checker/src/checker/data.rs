//! CDC messages and RDMA WRITEs.

use smc_capture::follow::RdmaWrite;
use smc_proto::wire::cdc::{Cdc, ProducerFlags};
use smc_proto::wire::types::RToken;

use super::{Checker, Where, judge};
use crate::rules;
use crate::state::connection::End;
use crate::state::group::Group;
use crate::state::link::QpAddress;
use crate::state::rmb::Rmb;
use crate::state::side::Side;
use crate::view::{CdcView, WriteView};

impl Checker {
    pub(super) fn cdc(&mut self, here: Where, cdc: &Cdc, bytes: &[u8]) {
        self.report.seen.cdc += 1;
        let Where { place, from, at } = here;
        if cdc
            .producer_flags
            .contains(ProducerFlags::FAILOVER_VALIDATION)
        {
            self.give_up_waiting(here);
        }
        let peer_unclear = self.is_waiting(here, from.other());
        let Self { known, report, .. } = self;
        let Some(group) = known.groups.get_mut(&place.group) else {
            return;
        };
        let number = group.by_token(from.other(), cdc.alert_token);
        let connection = number.and_then(|number| group.connections.get(&number));
        let base = group.base();
        let ring = |writer| connection?.ring(writer, base?);
        let Some(link) = group.link(place.link) else {
            return;
        };
        let view = CdcView {
            group,
            index: place.link,
            link,
            from,
            cdc,
            bytes,
            connection,
            into: ring(from),
            own: ring(from.other()),
            peer_unclear,
            time: at.time,
        };
        let (into, own) = (view.into, view.own);
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::cdc::RULES,
            &view,
        );
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::window::RULES,
            &view,
        );
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::urgent::RULES,
            &view,
        );
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::close::RULES,
            &view,
        );
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::failover::RULES,
            &view,
        );
        let connection = number.and_then(|number| group.connections.get_mut(&number));
        let Some(connection) = connection else {
            return;
        };
        connection
            .flows
            .of_mut(from)
            .note(into, own, cdc, place.link, at.time);
    }

    pub(super) fn write(&mut self, here: Where, write: &RdmaWrite) {
        self.report.seen.writes += 1;
        let Where { place, from, at } = here;
        let peer_unclear = self.is_waiting(here, from.other());
        let Self { known, report, .. } = self;
        let Some(group) = known.groups.get_mut(&place.group) else {
            return;
        };
        let Some(link) = group.link(place.link) else {
            return;
        };
        let rmb = group.rmb(from.other(), place.link, write.rkey);
        let rtoken = rmb.and_then(|rmb| rmb.on(place.link));
        let found = rmb
            .zip(rtoken)
            .and_then(|(rmb, rtoken)| target(group, from.other(), rmb, rtoken, write));
        let connection = found.and_then(|(number, ..)| group.connections.get(&number));
        let base = group.base();
        let ring = connection.and_then(|connection| connection.ring(from, base?));
        let view = WriteView {
            group,
            index: place.link,
            link,
            from,
            write,
            rmb,
            target: connection.zip(found.map(|(_, end, _)| end)),
            offset: found.map(|(.., offset)| offset),
            ring,
            peer_unclear,
        };
        // A write that lacks packets may be reported when its last one is given up, long after it
        // was written: what was right then may be wrong by now.
        if write.complete {
            judge(
                report,
                at,
                Some((place.group, group.gaps)),
                rules::rkeys::WRITES,
                &view,
            );
        }
        // An element may belong to a connection whose beginning is missing.
        if write.complete && !group.gaps {
            let number = Some((place.group, false));
            judge(report, at, number, rules::window::WRITES, &view);
            judge(report, at, number, rules::urgent::WRITES, &view);
            judge(report, at, number, rules::close::WRITES, &view);
            judge(report, at, number, rules::failover::WRITES, &view);
        }
        let (Some((number, _, offset)), Some(ring)) = (found, ring) else {
            return;
        };
        let Some(connection) = group.connections.get_mut(&number) else {
            return;
        };
        let read = connection.flows.of(from.other()).consumed;
        let flow = connection.flows.of_mut(from);
        // What is written again behind a change of link lies behind what was read.
        let begin = match flow.moved {
            Some(_) => read.min(flow.produced),
            None => flow.produced,
        };
        let (length, usable) = (u64::from(write.length), u64::from(ring.usable()));
        let mut start = ring.at_offset(begin, offset);
        // The writer need not know yet how far the peer has read: what would lie
        // beyond the window begins before that.
        if flow.moved.is_some() && start + length > read + usable {
            start = start.saturating_sub(usable);
        }
        flow.written.add(start, start + length);
        flow.link.get_or_insert(place.link);
    }

    /// Whether messages of a side wait for an earlier one on any link of the group.
    fn is_waiting(&self, here: Where, from: Side) -> bool {
        let ends = self.receivers(here.place.group, from);
        ends.into_iter()
            .any(|address| self.order.is_waiting(address))
    }

    /// A side changed its link: what waits for its earlier messages waits in vain.
    fn give_up_waiting(&mut self, here: Where) {
        for address in self.receivers(here.place.group, here.from) {
            let mut placed = Vec::new();
            self.order.flush(address, &mut placed);
            for mut one in placed {
                // They are not missing in the capture, but were never taken.
                one.gap = None;
                self.placed(one);
            }
        }
    }

    /// Queue pairs that get what a side sends.
    fn receivers(&self, group: u64, from: Side) -> Vec<QpAddress> {
        let group = self.known.groups.get(&group);
        let links = group.into_iter().flat_map(|group| &group.links);
        let ends = links.filter(|link| !link.is_gone());
        ends.filter_map(|link| Some((*link.ends.of(from.other()))?.address))
            .collect()
    }
}

/// The connection that a write is for, the receiver's end, and the offset in its
/// element.
fn target(
    group: &Group,
    owner: Side,
    rmb: &Rmb,
    rtoken: RToken,
    write: &RdmaWrite,
) -> Option<(u64, End, u32)> {
    let offset = write.address.checked_sub(rtoken.address)?;
    // All elements of an RMB have the same size.
    let sized = group.users(owner, rmb.number).next_back()?;
    let size = u64::from((*sized.ends.of(owner))?.size);
    let index = u8::try_from(offset / size.max(1) + 1).ok()?;
    let number = group.by_element(owner, rmb.number, index)?;
    let end = (*group.connections.get(&number)?.ends.of(owner))?;
    let within = u32::try_from(offset % size.max(1)).ok()?;
    Some((number, end, within))
}
