//! Whether a replay ended as the capture did.

use smc_proto::command::TcpCommand;
use smc_proto::endpoint::Usage;
use smc_proto::event::CloseReason;

use super::connection::Connection;
use super::host::{Host, QueuePair};
use super::script::End;
use super::session::Session;
use super::{Reader, Replayed};

impl Session<'_> {
    pub(super) fn finish(&mut self) -> Result<Vec<Replayed>, String> {
        while self.host.posted() > 0 {
            self.complete(1)?;
        }
        if let Some((link, message)) = self.llc.front() {
            return Err(format!(
                "nothing captured is like our {message} on link {link}"
            ));
        }
        if !self.group_down {
            return Err("our link group did not end".into());
        }
        let usage = self.host.endpoint.usage();
        if usage != Usage::default() {
            return Err(format!("left over: {usage:?}"));
        }
        self.host.check_psns()?;
        let statistics = self.host.endpoint.statistics();
        let bad = [
            ("violations", statistics.violations),
            ("unknown tokens", statistics.cdc_unknown),
            ("stale CDC messages", statistics.cdc_stale),
            ("backward cursors", statistics.backward_cursors),
            ("fallbacks", statistics.fallbacks),
        ];
        if let Some((what, count)) = bad.iter().find(|(_, count)| *count != 0) {
            return Err(format!("{count} {what}"));
        }
        let as_client = self.setup.ours == End::Client;
        let prompt = self.setup.reader == Reader::Prompt;
        self.connections
            .iter()
            .map(|(stream, connection)| {
                check_binding(connection, &self.host)
                    .and_then(|()| finish(connection, as_client, prompt))
                    .map_err(|what| format!("connection {stream}: {what}"))
            })
            .collect()
    }
}

/// Whether a queue pair of ours leads to the one that the peer named for a
/// connection.
fn check_binding(connection: &Connection, host: &Host) -> Result<(), String> {
    let peer = &connection.peer;
    let bound =
        |pair: &QueuePair| pair.leads_to((peer.qpn, peer.psn), (peer.gid, peer.mac), peer.mtu);
    if host.pairs().any(bound) {
        Ok(())
    } else {
        Err(format!("no queue pair of ours is bound to {}", peer.qpn))
    }
}

fn finish(connection: &Connection, as_client: bool, prompt: bool) -> Result<Replayed, String> {
    let first_contact = connection.first_contact.ok_or("never established")?;
    if first_contact != connection.own.first_contact {
        return Err("first contact for one end only".into());
    }
    let reason = connection.closed.ok_or("never closed")?;
    if reason != connection.expected_reason() {
        return Err(format!("closed as {reason:?}"));
    }
    let tcp = match reason {
        CloseReason::Normal => TcpCommand::Close,
        _ => TcpCommand::Reset,
    };
    if connection.tcp != [tcp] {
        return Err(format!("TCP commands {:?}", connection.tcp));
    }
    if let Some(message) = connection.clc.front() {
        return Err(format!("nothing captured is like our {message}"));
    }
    if let Some(cdc) = connection.emitted.first() {
        return Err(format!("nothing captured is like our {cdc}"));
    }
    let (Some(ours), Some(captured)) = (connection.last, connection.captured) else {
        return Err("no CDC message".into());
    };
    // An abort of the other end cuts off what was in flight.
    let whole = reason != CloseReason::PeerAbort;
    if whole {
        let same = ours.consumer == captured.consumer
            || prompt && connection.announced(&ours) > connection.announced(&captured);
        if ours.producer != captured.producer || !same {
            return Err(format!("the last message is {ours}, captured {captured}"));
        }
    }
    if connection.committed != connection.sent.len()
        || (whole && connection.consumed != connection.received.len())
    {
        return Err("not all octets were transferred".into());
    }
    Ok(Replayed {
        application: connection.application(as_client),
        first_contact,
        reason,
        sent: connection.committed as u64,
        received: connection.consumed as u64,
    })
}
