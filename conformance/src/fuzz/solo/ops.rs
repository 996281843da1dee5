//! The steps of [`Solo`].

use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::TcpEvent;
use smc_proto::id::{ConnId, LinkId, WrId};
use smc_proto::path::PathEvent;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::CDC_TYPE;
use smc_proto::wire::types::{DiagnosisCode, Qpn, RToken};

use super::super::Reader;
use super::super::attack::bytes;
use super::super::reader::mutate;
use super::super::side::{DEVICE, LIMITS};
use super::Solo;

/// A step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Open,
    Answer,
    Clc,
    ClcRaw,
    Llc,
    LlcRaw,
    Cdc,
    Complete,
    Refuse,
    Report,
    Honest,
    Poll,
    Fail,
    Path,
    Tcp,
    Time,
    Write,
    Read,
    Close,
    DeleteGroup,
    EyeCatcher,
    Stale,
    Wrong,
}

impl Solo {
    fn any_link(&self, r: &mut Reader<'_>) -> Option<LinkId> {
        let links = &self.side.contract.links;
        let from_last = r.below(links.len());
        links.iter().rev().nth(from_last).copied()
    }

    fn any_conn(&self, r: &mut Reader<'_>) -> Option<ConnId> {
        let conns = &self.side.conns;
        let from_last = r.below(conns.len());
        conns.iter().rev().nth(from_last).map(|conn| conn.id)
    }

    pub(super) fn step(&mut self, op: Op, r: &mut Reader<'_>) {
        let now = self.side.now;
        super::super::trace(format_args!("{op:?}"));
        match op {
            Op::Open => {
                if self.side.conns.len() < 4 * LIMITS.connections {
                    self.open(r.flag());
                }
            }
            Op::Answer => {
                if let Some(conn) = self.side.proposed.pop() {
                    let mut path = self.side.path;
                    path.subnet_match = r.below(4) != 0;
                    let paths = [path; 2];
                    let endpoint = &mut self.side.endpoint;
                    let _ = match r.below(4) {
                        0 => endpoint.decline(now, conn, DiagnosisCode::CONFIGURATION),
                        count => endpoint.accept(now, conn, &paths[..count - 1]),
                    };
                }
            }
            Op::Clc => {
                if let Some(conn) = self.any_conn(r) {
                    let mut message = bytes(&self.peer.clc(r));
                    mutate(r, &mut message);
                    self.side.show(conn, &message);
                }
            }
            Op::ClcRaw => {
                if let Some(conn) = self.any_conn(r) {
                    let n = r.below(100);
                    self.side.show(conn, r.take(n));
                }
            }
            Op::Llc => {
                if let Some(link) = self.any_link(r) {
                    let message = self.peer.encode(&self.peer.llc(r));
                    self.side.receive(link, &message);
                }
            }
            Op::LlcRaw => {
                if let Some(link) = self.any_link(r) {
                    let mut message = self.peer.encode(&self.peer.llc(r));
                    mutate(r, &mut message);
                    self.side.receive(link, &message);
                }
            }
            Op::Cdc => {
                if let Some(link) = self.any_link(r) {
                    let mut message = self.peer.cdc(r).emit();
                    message[0] = CDC_TYPE;
                    self.side.receive(link, &message);
                }
            }
            Op::Complete => self.side.complete(r.below(self.side.pending.len()), true),
            Op::Refuse => self.side.complete(r.below(self.side.pending.len()), false),
            Op::Report => {
                if let Some(command) = self.side.wire.pop_front() {
                    self.execute(&command, r.flag());
                }
                let at = r.below(self.side.sent.len());
                self.side.report(at);
            }
            Op::Honest => self.honest(),
            Op::Poll => self.side.poll(r.below(8)),
            Op::Time => {
                let by = match r.below(4) {
                    0 => self.side.until_next().unwrap_or_default(),
                    1 => Duration::from_millis(u64::from(r.u8())),
                    2 => Duration::from_secs(u64::from(r.u8())),
                    _ => Duration::from_secs(3600),
                };
                self.side.advance(by);
            }
            _ => self.disturb(op, r),
        }
        self.side.check();
    }

    fn disturb(&mut self, op: Op, r: &mut Reader<'_>) {
        let now = self.side.now;
        match op {
            Op::Fail => {
                if let Some(link) = self.any_link(r) {
                    let causes = [
                        LinkFailure::RetriesExhausted,
                        LinkFailure::RemoteAccess,
                        LinkFailure::Other,
                    ];
                    let (cause, conn) = (causes[r.below(3)], self.any_conn(r));
                    self.side
                        .rdma(RdmaCompletion::LinkFailed { link, cause, conn });
                }
            }
            Op::Path => {
                let (device, port) = (DEVICE, 1);
                let event = match r.below(3) {
                    0 => PathEvent::PortDown { device, port },
                    1 => PathEvent::PortUp(self.side.path),
                    _ => PathEvent::DeviceRemoved { device },
                };
                self.side.endpoint.handle_path(now, event);
            }
            Op::Tcp => {
                if let Some(conn) = self.any_conn(r) {
                    let events = [TcpEvent::PeerFin, TcpEvent::PeerReset, TcpEvent::Failed];
                    self.side.tcp(conn, events[r.below(3)]);
                }
            }
            Op::DeleteGroup => {
                if let Some(group) = self.side.groups.last() {
                    self.side.endpoint.delete_group(now, *group);
                }
            }
            Op::EyeCatcher => {
                if let Some(conn) = self.any_conn(r) {
                    self.side.rdma(RdmaCompletion::EyeCatcherDamaged { conn });
                }
            }
            Op::Stale => self.stale(r),
            Op::Wrong => {
                self.side.contract.trusted = false;
                self.stale(r);
            }
            _ => {
                if let Some(conn) = self.any_conn(r) {
                    self.application(op, conn, r);
                }
            }
        }
    }

    fn application(&mut self, op: Op, id: ConnId, r: &mut Reader<'_>) {
        let now = self.side.now;
        let Some(mut conn) = self.side.endpoint.conn(id) else {
            return;
        };
        match op {
            Op::Write => {
                let len = u32::from(r.u16());
                let space = conn.send_space().map_or(0, |space| space.len());
                let result = match r.flag() {
                    true => conn.commit(now, len),
                    false => conn.commit_urgent(now, len),
                };
                assert!(len == 0 || result.is_ok() == (len <= space), "{result:?}");
            }
            Op::Read => {
                let len = u32::from(r.u16());
                let readable = conn.readable().map_or(0, |spans| spans.len());
                let result = conn.consume(now, len);
                assert!(result.is_err() || len <= readable, "{result:?}");
            }
            Op::Close => match r.below(4) {
                0 => conn.shutdown(now, Shutdown::Read),
                1 => conn.shutdown(now, Shutdown::Write),
                2 => conn.shutdown(now, Shutdown::Both),
                _ => conn.abort(now),
            },
            _ => {}
        }
    }

    /// A completion of something that is gone; of anything, once the device is
    /// not trusted.
    fn stale(&mut self, r: &mut Reader<'_>) {
        let contract = &self.side.contract;
        let (nic, trusted) = (&contract.nic, contract.trusted);
        let gone = contract.links.iter().copied();
        let mut gone = gone.filter(|link| !trusted || nic.qp(*link).is_none());
        let link = gone.nth(r.below(4));
        let gone = contract.buffers.iter().copied();
        let mut gone = gone.filter(|buffer| !trusted || nic.buffer(*buffer).is_none());
        let buffer = gone.nth(r.below(8));
        let rtoken = RToken::default();
        let wr_id = WrId(u32::from(r.u8()));
        let offset = r.u32();
        let kind = r.below(12);
        if let (Some(buffer), Some(link)) = (buffer, link)
            && kind < 2
        {
            self.side.rdma(match kind {
                0 => RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken,
                },
                _ => RdmaCompletion::BufferDeregistered { buffer, link },
            });
        } else if let Some(buffer) = buffer
            && (2..6).contains(&kind)
        {
            self.side.rdma(match kind {
                2 => RdmaCompletion::BufferAllocated { buffer },
                3 => RdmaCompletion::BufferFreed { buffer },
                4 => RdmaCompletion::ElementCleared { buffer, offset },
                _ => RdmaCompletion::BufferRefused { buffer },
            });
        } else if let Some(link) = link {
            self.side.rdma(match kind {
                6 => RdmaCompletion::QpCreated {
                    link,
                    qpn: Qpn::new(offset),
                },
                7 => RdmaCompletion::QpConnected { link },
                8 => RdmaCompletion::QpActive { link },
                9 => RdmaCompletion::QpDrained { link },
                10 => RdmaCompletion::QpDestroyed { link },
                11 => RdmaCompletion::LinkRefused { link },
                _ => RdmaCompletion::Sent { link, wr_id },
            });
        }
    }
}
