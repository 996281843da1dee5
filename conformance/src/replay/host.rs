//! Our end: an endpoint, its memory and an RNIC that does at once what it is
//! asked, with everything the endpoint sends kept in order.

mod checks;
mod links;
mod memory;

use std::collections::VecDeque;

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::{Config, MAX_DEVICES};
use smc_proto::endpoint::Endpoint;
use smc_proto::event::Event;
use smc_proto::id::{ConnId, LinkId, WrId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::cdc::{CDC_TYPE, Cdc};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::{LinkNumber, RKey, RToken};

use super::message::Llc;
use super::script::Links;
use crate::rig::{self, Nic, Numbers, Outputs, large};
use links::Captured;
pub(super) use links::QueuePair;

/// Most outputs of the endpoint at one time.
const MOST_OUTPUTS: usize = 10_000;

/// Output of the endpoint.
#[derive(Clone, Debug)]
pub(super) enum Output {
    Clc(ConnId, Box<ClcMessage>),
    Llc(LinkNumber, Llc),
    Cdc(LinkNumber, Cdc),
    Write {
        link: LinkNumber,
        conn: ConnId,
        rkey: RKey,
        address: u64,
        bytes: Vec<u8>,
    },
    Event(Event),
    Tcp(ConnId, TcpCommand),
}

pub(super) struct Host {
    pub(super) endpoint: Endpoint<Owned>,
    pub(super) now: Instant,
    /// Our ports; the first one is in the subnet of the TCP connections.
    pub(super) paths: Vec<LocalPath>,
    links: Links,
    nic: Nic<Vec<u8>, Captured>,
    /// Queue pairs that were destroyed.
    gone: Vec<QueuePair>,
    polled: Outputs,
    pub(super) outputs: Vec<Output>,
    /// Whether SENDs complete only when asked to.
    late: bool,
    posted: VecDeque<(LinkId, WrId)>,
}

impl Host {
    pub(super) fn new(config: Config, paths: Vec<LocalPath>, links: Links, late: bool) -> Self {
        let mut endpoint = Endpoint::new(config, 0x5eed, Owned::new(Limits::for_connections(32)));
        for path in &paths {
            endpoint.handle_path(Instant::ZERO, PathEvent::PortUp(*path));
        }
        Self {
            endpoint,
            now: Instant::ZERO,
            paths,
            links,
            nic: Nic::new(Numbers {
                first: 0x00a5_0000,
                qpn: |first, made, _| first + made,
                rtoken: |made, _, _, _| RToken {
                    rkey: RKey(0xa500_0000 + made),
                    address: 0x00a5_0000_0000_0000 + (u64::from(made) << 32),
                },
            }),
            gone: Vec::new(),
            polled: Outputs::new(MAX_DEVICES as u8),
            outputs: Vec::new(),
            late,
            posted: VecDeque::new(),
        }
    }

    /// Lets the time pass up to `now`, with every timer at its time.
    pub(super) fn advance_to(&mut self, now: Instant) -> Result<(), String> {
        while let Some(deadline) = self.endpoint.poll_timeout().filter(|d| *d <= now) {
            self.now = self.now.max(deadline);
            self.pump()?;
        }
        self.now = self.now.max(now);
        self.pump()
    }

    /// Does what the endpoint wants until it wants nothing more.
    pub(super) fn pump(&mut self) -> Result<(), String> {
        for _ in 0..MOST_OUTPUTS {
            let due = self.endpoint.poll_timeout();
            if due.is_some_and(|deadline| deadline <= self.now) {
                self.endpoint.handle_timeout(self.now);
            }
            let Some(output) = self.polled.next(&mut self.endpoint, self.now) else {
                return Ok(());
            };
            let output = match output {
                rig::Output::Clc(conn, bytes) => {
                    let (message, _) = ClcMessage::parse(bytes).map_err(|e| e.to_string())?;
                    Output::Clc(conn, Box::new(message))
                }
                rig::Output::Tcp(conn, command) => Output::Tcp(conn, command),
                rig::Output::Rdma(command) => {
                    self.execute(&command)?;
                    continue;
                }
                rig::Output::Ism(_, command) => return Err(format!("{command:?}")),
                rig::Output::Event(event) => {
                    if let Event::Proposed { conn } = event {
                        self.endpoint
                            .accept(self.now, conn, &self.paths)
                            .map_err(|e| e.to_string())?;
                    }
                    Output::Event(event)
                }
            };
            self.outputs.push(output);
        }
        Err("the endpoint never becomes idle".into())
    }

    /// The posted SEND completes, now or later.
    fn complete_or_keep(&mut self, link: LinkId, wr_id: WrId) {
        if self.late {
            self.posted.push_back((link, wr_id));
        } else {
            let completion = RdmaCompletion::Sent { link, wr_id };
            self.nic.sent(link, wr_id);
            self.endpoint.handle_rdma(self.now, completion);
        }
    }

    fn execute(&mut self, command: &RdmaCommand) -> Result<(), String> {
        self.nic.issue(command)?;
        match *command {
            RdmaCommand::ConnectQp { link, peer, .. } => {
                self.pair(link)?.work.number = self.links.number((peer.gid, peer.qpn));
            }
            RdmaCommand::QpToError { link } => {
                self.pair(link)?.work.down = true;
                self.posted.retain(|(posted, _)| *posted != link);
            }
            RdmaCommand::DestroyQp { link } => {
                let gone = self.nic.qp(link).cloned();
                self.gone.extend(gone);
            }
            RdmaCommand::Write {
                link,
                conn,
                buffer,
                source,
                rkey,
                address,
            } => {
                let bytes = self.octets(buffer, &source)?;
                let link = self.sender(link)?;
                self.outputs.push(Output::Write {
                    link,
                    conn,
                    rkey,
                    address,
                    bytes,
                });
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => {
                let number = self.sender(link)?;
                let output = if payload.first() == Some(&CDC_TYPE) {
                    Output::Cdc(number, Cdc::parse(&payload).map_err(|e| e.to_string())?)
                } else {
                    Output::Llc(number, Llc::parse(&payload)?)
                };
                self.outputs.push(output);
                self.complete_or_keep(link, wr_id);
                return Ok(());
            }
            RdmaCommand::SendLarge {
                link,
                wr_id,
                length,
            } => {
                let number = self.sender(link)?;
                let bytes = large(&mut self.endpoint, link, wr_id, length)?;
                self.outputs.push(Output::Llc(number, Llc::parse(&bytes)?));
                self.complete_or_keep(link, wr_id);
                return Ok(());
            }
            _ => {}
        }
        if let Some(completion) = self.nic.done(command) {
            self.endpoint.handle_rdma(self.now, completion);
        }
        Ok(())
    }

    // ---- links -------------------------------------------------------------

    /// The link of the capture that a queue pair of ours sends on.
    fn sender(&mut self, link: LinkId) -> Result<LinkNumber, String> {
        let pair = self.pair(link)?;
        if pair.work.down || pair.psn.is_none() {
            return Err(format!("{link:?} is not ready to send"));
        }
        let number = pair.work.number;
        number.ok_or_else(|| format!("the capture has no link to {:?}", pair.bound))
    }

    /// SENDs that are posted and not completed.
    pub(super) fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Completes the oldest `count` SENDs.
    pub(super) fn complete(&mut self, count: usize) -> Result<(), String> {
        for (link, wr_id) in self.posted.drain(..count) {
            self.nic.sent(link, wr_id);
            self.endpoint
                .handle_rdma(self.now, RdmaCompletion::Sent { link, wr_id });
        }
        self.pump()
    }

    /// Gives a SEND of the peer to the endpoint; `false` if our end of the link is
    /// gone.
    pub(super) fn receive(&mut self, number: LinkNumber, payload: &[u8]) -> Result<bool, String> {
        let Some(link) = self.carrier(number) else {
            return Ok(false);
        };
        self.endpoint
            .handle_rdma(self.now, RdmaCompletion::Received { link, payload });
        self.pump()?;
        Ok(true)
    }
}
