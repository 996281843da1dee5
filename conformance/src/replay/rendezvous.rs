//! The rendezvous of a replay, and its TCP connections.

use smc_proto::endpoint::{ClcProgress, ConnOptions, TcpEvent};
use smc_proto::wire::clc::{ClcMessage, Subnets};

use super::connection::Connection;
use super::script::{End, Step, What};
use super::session::Session;

impl Session<'_> {
    /// SYN-ACK: the TCP connection is taken as established.
    pub(super) fn open(&mut self, stream: u64, by: End) -> Result<(), String> {
        if by == End::Client {
            return Ok(());
        }
        let half = |end| self.script.halves.get(&(stream, end)).copied();
        let (Some(own), Some(peer)) = (half(self.setup.ours), half(self.setup.ours.other())) else {
            return Err("the capture has no Accept and Confirm for this connection".into());
        };
        let options = ConnOptions::new(self.subnets(stream));
        let now = self.host.now;
        let endpoint = &mut self.host.endpoint;
        let id = match self.setup.ours {
            End::Client => endpoint.connect(now, options, &self.host.paths),
            End::Server => endpoint.listen(now, options),
        }
        .map_err(|e| e.to_string())?;
        self.streams.insert(id, stream);
        let links = &self.script.links;
        let link = links.number((own.gid, own.qpn));
        if link != links.number((peer.gid, peer.qpn)) {
            return Err("Accept and Confirm name two links".into());
        }
        let link = link.ok_or("a connection on no link")?;
        self.connections
            .insert(stream, Connection::new(id, link, own, peer));
        Ok(())
    }

    /// The subnets that the captured client proposed.
    fn subnets(&self, stream: u64) -> Subnets {
        let proposed = self.script.steps.iter().find_map(|step| match &step.what {
            What::Clc { stream: s, message } if *s == stream => match &**message {
                ClcMessage::Proposal(proposal) => Some(proposal.subnets.clone()),
                _ => None,
            },
            _ => None,
        });
        proposed.unwrap_or_default()
    }

    pub(super) fn own_clc(
        &mut self,
        stream: u64,
        message: &ClcMessage,
        step: &Step,
    ) -> Result<(), String> {
        let ours = self
            .connection(stream)?
            .clc
            .pop_front()
            .ok_or("our end sends no CLC message here")?;
        self.host.check_clc(&ours)?;
        let link = match message {
            ClcMessage::Accept(half) | ClcMessage::Confirm(half) => {
                self.script.links.number((half.gid, half.qpn))
            }
            _ => None,
        };
        let bytes = self.identities.pair_clc(link, message, &ours)?;
        if bytes != step.bytes {
            return Err(format!("ours is {ours}"));
        }
        self.counts.clc_equal += 1;
        Ok(())
    }

    pub(super) fn feed_clc(&mut self, stream: u64, step: &Step) -> Result<(), String> {
        let id = self.connection(stream)?.id;
        let now = self.host.now;
        match self.host.endpoint.handle_clc(now, id, &step.bytes) {
            Ok(ClcProgress::Consumed { len, .. }) if len == step.bytes.len() => {
                self.counts.clc_fed += 1;
                Ok(())
            }
            other => Err(format!("the endpoint sends {other:?}")),
        }
    }

    pub(super) fn feed_tcp(&mut self, stream: u64, event: TcpEvent) -> Result<(), String> {
        let id = self.connection(stream)?.id;
        self.host.endpoint.handle_tcp(self.host.now, id, event);
        Ok(())
    }
}
