//! The adapter: commands carried out one at a time.

use smc_proto::command::RdmaCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::LinkId;
use smc_proto::version::SmcVersion;

use super::World;
use super::app::byte;
use super::host::Item;
use super::world::name;
use crate::rig::Numbers;

impl World {
    /// Polls a side until it has posted one WRITE or SEND; whether it had any
    /// command at all.
    pub fn post(&mut self, side: usize) -> bool {
        let mut any = false;
        for port in 0..self.hosts[side].paths.len() {
            let device = self.hosts[side].paths[port].device;
            while let Some(command) = self.hosts[side].endpoint.poll_rdma(self.now, device) {
                any = true;
                self.steps += 1;
                if self.execute(side, command) {
                    return true;
                }
            }
        }
        any
    }

    /// Carries a command out; whether it was a WRITE or a SEND.
    fn execute(&mut self, side: usize, command: RdmaCommand) -> bool {
        if let Err(breach) = self.hosts[side].nic.issue(&command) {
            self.error(breach);
            return true;
        }
        match command {
            RdmaCommand::Write {
                link,
                conn,
                buffer,
                source,
                rkey,
                address,
            } => {
                self.note(|| {
                    let to = address.wrapping_sub(Numbers::BASE);
                    let len = source[0].length + source[1].length;
                    format!("{} posts {link} WRITE of {len} to {to}", name(side))
                });
                let item = Item::Write {
                    buffer,
                    source,
                    rkey,
                    address,
                    conn,
                };
                self.enqueue(side, link, item);
                true
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => {
                self.note(|| format!("{} posts {link} SEND {}", name(side), decode(&payload)));
                self.enqueue(side, link, Item::Send { wr_id, payload });
                true
            }
            RdmaCommand::QpToError { link } => {
                self.note(|| format!("{} {command:?}", name(side)));
                self.give_up(side, link);
                false
            }
            RdmaCommand::SendLarge { .. } => unreachable!("of version 2"),
            _ => {
                self.note(|| format!("{} {command:?}", name(side)));
                let host = &mut self.hosts[side];
                if let Some(completion) = host.nic.done(&command) {
                    host.endpoint.handle_rdma(self.now, completion);
                }
                false
            }
        }
    }

    fn enqueue(&mut self, side: usize, link: LinkId, item: Item) {
        if let Some(qp) = self.hosts[side].nic.qp_mut(link) {
            qp.work.posted.push_back(item);
        }
    }

    /// Lets the next WRITE or SEND of a side arrive at the peer.
    pub fn deliver(&mut self, side: usize) -> bool {
        let links = self.hosts[side].nic.qps().map(|qp| qp.link);
        let links: Vec<_> = links.collect();
        links.into_iter().any(|link| self.deliver_on(side, link))
    }

    /// Delivers the oldest message on one link.
    pub fn deliver_on(&mut self, side: usize, link: LinkId) -> bool {
        if self.cut.contains(&(side, link)) {
            return false;
        }
        let [a, b] = &mut self.hosts;
        let (host, peer) = if side == 0 { (a, b) } else { (b, a) };
        let Some(qp) = host.nic.qp_mut(link) else {
            return false;
        };
        if qp.work.broken || qp.work.arrived >= qp.work.posted.len() {
            return false;
        }
        let to = qp.bound.and_then(|to| peer.nic.numbered(to.peer.qpn));
        let Some(to) = to.filter(|to| !to.work.broken && to.bound.is_some()) else {
            return false;
        };
        let to = to.link;
        let item = qp.work.posted[qp.work.arrived].clone();
        qp.work.arrived += 1;
        self.steps += 1;
        match item {
            Item::Write { .. } => self.place(side, to, &item),
            Item::Send { payload, .. } => {
                self.note(|| format!("{} receives {}", name(1 - side), decode(&payload)));
                self.hosts[1 - side].endpoint.handle_rdma(
                    self.now,
                    RdmaCompletion::Received {
                        link: to,
                        payload: &payload,
                    },
                );
            }
        }
        true
    }

    /// Places a WRITE of `side` in the peer's memory, by its link `to`.
    fn place(&mut self, side: usize, to: LinkId, item: &Item) {
        let Item::Write {
            buffer,
            source,
            rkey,
            address,
            conn,
        } = *item
        else {
            return;
        };
        let bytes = self.hosts[side].octets(buffer, &source);
        let Some((target, base)) = self.hosts[1 - side].nic.registered(to, rkey) else {
            self.error(format!("a WRITE with a key that {to} does not know"));
            return;
        };
        let target = target.id.index() as usize;
        let at = usize::try_from(address.wrapping_sub(base)).unwrap_or(usize::MAX);
        self.note(|| {
            format!(
                "{} has {} octets placed at {at}",
                name(1 - side),
                bytes.len()
            )
        });
        let memory = &mut self.hosts[1 - side].nic.memory[target];
        let Some(place) = at
            .checked_add(bytes.len())
            .and_then(|end| memory.get_mut(at..end))
        else {
            self.error("a WRITE outside the buffer");
            return;
        };
        place.copy_from_slice(&bytes);
        let size = memory.len();
        let apps = &self.hosts[side].apps;
        let app = apps.iter().position(|a| a.conn == conn);
        if let Some(app) = app.filter(|_| self.checking) {
            self.check_window(side, app, at, &bytes, size);
        }
    }

    /// The bytes must be a piece of the stream that fits behind what the peer
    /// has read.
    fn check_window(&mut self, side: usize, app: usize, at: usize, bytes: &[u8], size: usize) {
        let config = self.hosts[side].endpoint.config();
        let reader = &self.hosts[1 - side].apps[app];
        // After close() the engine itself takes what arrives.
        if config.elements_per_rmb != 1 || reader.taken.is_some() || reader.closing.is_some() {
            return;
        }
        let base = if config.eye_catcher { 4 } else { 0 };
        let ring = (size - base) as u64;
        let read = self.hosts[1 - side].apps[app].read;
        let place = (at - base) as u64;
        // Candidates for the first byte's place in the stream: this lap and the last.
        let lap = read / ring * ring;
        let fits = [lap.checked_sub(ring), Some(lap), Some(lap + ring)]
            .into_iter()
            .flatten()
            .map(|lap| lap + place)
            .filter(|from| from + bytes.len() as u64 <= read + ring)
            .any(|from| (from..).zip(bytes).all(|(n, &o)| o == byte(side, app, n)));
        if !fits {
            self.error(format!(
                "a WRITE of {} to {place} outside the window (peer has read {read})",
                bytes.len()
            ));
        }
    }

    /// Reports the next completion of a side: of a SEND that arrived.
    pub fn complete(&mut self, side: usize) -> bool {
        let links = self.hosts[side].nic.qps().map(|qp| qp.link);
        let links: Vec<_> = links.collect();
        links.into_iter().any(|link| self.complete_on(side, link))
    }

    /// Completes the oldest work on one link.
    pub fn complete_on(&mut self, side: usize, link: LinkId) -> bool {
        let Some(qp) = self.hosts[side].nic.qp_mut(link) else {
            return false;
        };
        let work = &mut qp.work;
        let mut arrived = work.posted.iter().take(work.arrived);
        let next = arrived.position(|item| matches!(item, Item::Send { .. }));
        let Some(next) = next.filter(|_| !work.broken) else {
            return false;
        };
        work.arrived -= next + 1;
        let done = work.posted.drain(..=next).next_back();
        if let Some(Item::Send { wr_id, .. }) = done {
            self.steps += 1;
            self.hosts[side].nic.sent(link, wr_id);
            self.note(|| format!("{} completes {link} {wr_id:?}", name(side)));
            self.hosts[side]
                .endpoint
                .handle_rdma(self.now, RdmaCompletion::Sent { link, wr_id });
        }
        true
    }
}

/// A SEND in one line.
fn decode(payload: &[u8; 44]) -> String {
    if let Ok(cdc) = smc_proto::wire::cdc::Cdc::parse(payload) {
        return format!(
            "CDC {} producer {}/{} consumer {}/{} {:?} {:?}",
            cdc.sequence,
            cdc.producer.wrap,
            cdc.producer.count,
            cdc.consumer.wrap,
            cdc.consumer.count,
            cdc.producer_flags,
            cdc.connection_flags
        );
    }
    format!(
        "{:?}",
        smc_proto::wire::llc::LlcMessage::parse(payload, SmcVersion::V1)
    )
}
