//! WRITEs and SENDs, and their outcome.

use smc_proto::command::{BufferKind, RdmaCommand};
use smc_proto::id::{ConnId, LinkId, WrId};
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::llc::{LlcMessage, version_of};
use smc_proto::wire::types::{RKey, RToken};

use super::connection::{ConnLedger, Element};
use super::host::{BufferLedger, LinkLedger};
use super::{Invariants, Rule};
use crate::completion::{Completion, OwnedCompletion};
use crate::fabric::{BufferKey, HostId};
use crate::tcp::{Side, TcpId};

/// What a WRITE hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Whose memory.
    pub host: HostId,
    /// Which buffer.
    pub buffer: BufferKey,
    /// First byte in it.
    pub offset: u64,
}

impl Invariants {
    pub(super) fn check_work(
        &mut self,
        host: HostId,
        command: &RdmaCommand,
        target: Option<Target>,
    ) {
        match *command {
            RdmaCommand::Write {
                link, conn, source, ..
            } => {
                self.check_open(host, link);
                let [first, second] = source;
                let length = first.length.saturating_add(second.length);
                if let Some(target) = target.filter(|_| !self.eye_catchers) {
                    self.check_write(host, (link, conn), target, length);
                } else if let Some(c) = self.host(host).conns.get_mut(&conn) {
                    c.blind = true;
                }
            }
            RdmaCommand::SendLarge { link, wr_id, .. } => self.check_posted(host, link, wr_id),
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => {
                self.check_posted(host, link, wr_id);
                if let (Ok(cdc), false) = (Cdc::parse(&payload), self.eye_catchers) {
                    self.check_cdc(host, &cdc);
                }
            }
            _ => {}
        }
    }

    /// A SEND is posted once, on a queue pair that works.
    fn check_posted(&mut self, host: HostId, link: LinkId, wr_id: WrId) {
        self.check_open(host, link);
        let outstanding = &mut self.link(host, link).outstanding;
        let twice = outstanding.contains(&wr_id);
        outstanding.push_back(wr_id);
        if twice {
            self.breach(host, Rule::Posted, format!("{link} posts {wr_id:?} twice"));
        }
    }

    /// Nothing is posted on a queue pair that broke or was stopped.
    fn check_open(&mut self, host: HostId, link: LinkId) {
        if self.link(host, link).over {
            self.breach(
                host,
                Rule::Posted,
                format!("work for {link}, which is over"),
            );
        }
    }

    fn check_write(
        &mut self,
        host: HostId,
        (link, conn): (LinkId, ConnId),
        target: Target,
        length: u32,
    ) {
        let Some(c) = self.host(host).conns.get(&conn) else {
            return;
        };
        let (tcp, side) = (c.tcp, c.side);
        let own = self.element_at(target.host, tcp, side);
        let Some(Element {
            buffer,
            offset,
            size,
        }) = own
        else {
            if let Some(c) = self.host(host).conns.get_mut(&conn) {
                c.blind = true;
            }
            return;
        };
        let place = target.offset.checked_sub(u64::from(offset));
        let fits = |place: &u64| place + u64::from(length) <= u64::from(size);
        let Some(place) = place
            .filter(fits)
            .filter(|_| BufferKey::from(buffer) == target.buffer)
        else {
            let what = format!("{conn} writes outside of its peer's element: {target:?}");
            return self.breach(host, Rule::Granted, what);
        };
        let written = self
            .host(host)
            .conns
            .get_mut(&conn)
            .map(|c| c.write(link, place as u32, length, size));
        if let Some(Err(what)) = written {
            self.breach(host, Rule::Granted, format!("{conn}: {what}"));
        }
    }

    fn check_cdc(&mut self, host: HostId, cdc: &Cdc) {
        let ledger = self.host(host);
        let Some(&conn) = ledger.by_peer_token.get(&cdc.alert_token.0) else {
            return;
        };
        let ring = self.peer_ring(host, conn);
        let now = self.now;
        let posted = ring.and_then(|ring| {
            let c = self.host(host).conns.get_mut(&conn)?;
            Some(c.post(now, cdc, ring))
        });
        if let Some(Err(what)) = posted {
            self.breach(host, Rule::Window, format!("{conn}: {what}"));
        }
    }

    /// Element of the other end of a connection, if it is at that host.
    fn element_at(&self, peer: HostId, tcp: TcpId, side: Side) -> Option<Element> {
        let other = |c: &&ConnLedger| c.tcp == tcp && c.side != side;
        self.hosts.get(&peer)?.conns.values().find(other)?.own
    }

    /// Element of the other end of a connection, and the host that has it.
    pub(super) fn element_of_peer(&self, tcp: TcpId, side: Side) -> Option<(HostId, Element)> {
        let mut hosts = self.hosts.keys();
        hosts.find_map(|peer| Some((*peer, self.element_at(*peer, tcp, side)?)))
    }

    pub(super) fn link(&mut self, host: HostId, link: LinkId) -> &mut LinkLedger {
        self.host(host).links.entry(link).or_default()
    }

    pub(super) fn complete(&mut self, host: HostId, completion: &OwnedCompletion) {
        match *completion {
            Completion::QpCreated { link, .. }
            | Completion::QpConnected { link }
            | Completion::QpActive { link } => self.link(host, link).busy = false,
            Completion::LinkRefused { link } => {
                let ledger = self.link(host, link);
                ledger.busy = false;
                // Refused to be stopped: it counts as stopped.
                if ledger.over {
                    ledger.reading.clear();
                }
            }
            Completion::QpDrained { link } => {
                let ledger = self.link(host, link);
                (ledger.busy, ledger.drained) = (false, true);
                ledger.outstanding.clear();
                ledger.reading.clear();
            }
            Completion::QpDestroyed { link } => {
                self.host(host).links.remove(&link);
            }
            Completion::LinkFailed { link, .. } => self.link(host, link).over = true,
            Completion::Sent { link, wr_id } => {
                if self.link(host, link).outstanding.pop_front() != Some(wr_id) {
                    let what = format!("{link} completes {wr_id:?} out of turn");
                    self.breach(host, Rule::Posted, what);
                }
                self.read_until(host, link, wr_id);
            }
            Completion::Received { ref payload, .. } => {
                if let Ok(cdc) = Cdc::parse(payload) {
                    self.receive(host, &cdc);
                } else if let Ok(LlcMessage::DeleteRkey(message)) =
                    LlcMessage::parse(payload, version_of(payload))
                {
                    let rkeys: Vec<RKey> = message.rkeys.iter().collect();
                    match message.reply {
                        true => self.host(host).withdrawn(&rkeys),
                        false => self.peer_withdraws(host, &rkeys),
                    }
                }
            }
            Completion::BufferAllocated { buffer } | Completion::ElementCleared { buffer, .. } => {
                self.buffer_answered(host, buffer, |_| {});
            }
            Completion::BufferRegistered {
                buffer,
                link,
                rtoken,
            } => self.buffer_answered(host, buffer, |b| {
                b.registered.insert(link, rtoken);
            }),
            Completion::BufferDeregistered { buffer, link } => {
                self.buffer_answered(host, buffer, |b| {
                    b.registered.remove(&link);
                });
            }
            Completion::BufferRefused { buffer } => {
                self.buffer_answered(host, buffer, |b| {
                    for link in std::mem::take(&mut b.leaving) {
                        b.registered.remove(&link);
                    }
                });
            }
            Completion::BufferFreed { buffer } => {
                self.host(host).buffers.remove(&buffer);
            }
            Completion::EyeCatcherDamaged { .. } => {}
        }
    }

    /// A peer whose end of a connection is over and that withdraws the RMB it had
    /// there is done with it: it may have been reset before it was established, and
    /// then sends no other last message.
    fn peer_withdraws(&mut self, host: HostId, rkeys: &[RKey]) {
        let over = |c: &ConnLedger| {
            let (peer, own) = c.peer_own?;
            let ledger = self.hosts.get(&peer)?;
            let buffer = ledger.buffers.get(&own.buffer)?;
            let named = |known: &RToken| rkeys.contains(&known.rkey);
            let mut ends = ledger.conns.values();
            let ended = ends.any(|end| end.tcp == c.tcp && end.side != c.side && end.terminal);
            (ended && buffer.registered.values().any(named)).then_some(())
        };
        let Some(ledger) = self.hosts.get(&host) else {
            return;
        };
        let conns = ledger.conns.iter();
        let done: Vec<ConnId> = conns
            .filter(|(_, c)| over(c).is_some())
            .map(|(conn, _)| *conn)
            .collect();
        for conn in done {
            if let Some(c) = self.host(host).conns.get_mut(&conn) {
                c.peer_done = true;
            }
        }
    }

    fn buffer_answered(
        &mut self,
        host: HostId,
        buffer: smc_proto::id::BufferId,
        change: impl FnOnce(&mut BufferLedger),
    ) {
        if let Some(buffer) = self.host(host).buffers.get_mut(&buffer) {
            buffer.busy = false;
            change(buffer);
        }
    }

    /// Bytes of the ring that a connection writes into, once its peer has one.
    fn peer_ring(&mut self, host: HostId, conn: ConnId) -> Option<u32> {
        let (tcp, side) = self.host(host).conns.get(&conn).map(|c| (c.tcp, c.side))?;
        Some(self.element_of_peer(tcp, side)?.1.size)
    }

    fn receive(&mut self, host: HostId, cdc: &Cdc) {
        let ledger = self.host(host);
        let Some(&conn) = ledger.by_token.get(&cdc.alert_token.0) else {
            return;
        };
        let ring = self.peer_ring(host, conn);
        if let Some(c) = self.host(host).conns.get_mut(&conn) {
            c.receive(cdc, ring);
        }
    }
}

impl BufferLedger {
    pub(super) const fn is_rmb(&self) -> bool {
        matches!(self.kind, BufferKind::Rmb)
    }
}
