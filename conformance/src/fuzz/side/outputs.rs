//! What an endpoint sends, and what must hold of it.

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::event::Event;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};

use super::super::trace;
use super::{DEVICE, End, Side};
use crate::rig::large;

/// Most outputs that one call of [`Side::poll`] can give.
const MAX_OUTPUTS: usize = 200;

impl Side {
    /// Drains every output, of commands at most `commands`.
    pub(in super::super) fn poll(&mut self, commands: usize) {
        let mut buffer = [0; MAX_LENGTH];
        let mut rounds = 0;
        let mut round = || {
            rounds += 1;
            assert!(rounds <= MAX_OUTPUTS, "outputs without end");
        };
        while let Some((conn, length)) =
            self.endpoint.poll_clc(self.now, &mut buffer).expect("room")
        {
            round();
            let parsed = ClcMessage::parse(&buffer[..length]).expect("own messages parse");
            assert_eq!(parsed.1, length);
            assert!(self.is_open(conn), "a CLC message of {conn}, which ended");
            trace(format_args!("  {conn}: {}", parsed.0));
            if let ClcMessage::Accept(half) | ClcMessage::Confirm(half) = parsed.0 {
                self.tokens.push((conn, half.alert_token));
            }
            self.clc.push_back((conn, buffer[..length].to_vec()));
        }
        for _ in 0..commands {
            let Some(command) = self.endpoint.poll_rdma(self.now, DEVICE) else {
                break;
            };
            round();
            trace(format_args!("  {command:?}"));
            self.contract.issue(&command);
            match command {
                RdmaCommand::Write { conn, .. } => {
                    assert!(self.is_open(conn), "a WRITE of {conn}, which ended");
                    self.wire.push_back(command);
                }
                RdmaCommand::Send { .. } => self.wire.push_back(command),
                RdmaCommand::SendLarge {
                    link,
                    wr_id,
                    length,
                } => {
                    let bytes = large(&mut self.endpoint, link, wr_id, length);
                    let bytes = bytes.unwrap_or_else(|breach| panic!("{breach}"));
                    self.large.push(((link, wr_id), bytes));
                    self.wire.push_back(command);
                }
                _ => self.pending.push(command),
            }
        }
        while let Some((id, command)) = self.endpoint.poll_tcp() {
            round();
            trace(format_args!("  {id}: {command:?}"));
            let conn = self.conn(id);
            // One command, but for the end of the watch for a Decline: a second hand-over,
            // or a reset if TCP went amid what began like one.
            let watched = conn.tcp
                == Some(TcpCommand::HandOver {
                    watch_for_decline: true,
                });
            let ends_watch = match command {
                TcpCommand::HandOver { watch_for_decline } => !watch_for_decline,
                TcpCommand::Reset => conn.tcp_is_lost,
                TcpCommand::Close => false,
            };
            assert!(
                conn.tcp.is_none() || watched && ends_watch,
                "{command:?} after {:?} for {id}",
                conn.tcp
            );
            conn.tcp = Some(command);
        }
        while let Some(event) = self.endpoint.poll_event() {
            round();
            trace(format_args!("  {event:?}"));
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        let (id, end) = match event {
            Event::FellBack { conn, why } => (conn, Some(End::FellBack(why))),
            Event::Closed { conn, reason } => (conn, Some(End::Closed(reason))),
            Event::Proposed { conn } => {
                self.proposed.push(conn);
                (conn, None)
            }
            Event::Established { conn, .. }
            | Event::Readable { conn }
            | Event::Writable { conn }
            | Event::Urgent { conn } => (conn, None),
            Event::GroupUp { group } => {
                assert!(!self.groups.contains(&group), "{group} is up twice");
                self.groups.push(group);
                return;
            }
            Event::GroupDown { group } => {
                assert!(self.groups.contains(&group), "{group} was never up");
                self.groups.retain(|g| *g != group);
                return;
            }
            _ => return,
        };
        let conn = self.conn(id);
        assert_eq!(conn.end, None, "{event:?} after the end");
        conn.end = end;
        match event {
            Event::Established { .. } => {
                assert!(!conn.established, "{event:?} twice");
                conn.established = true;
            }
            Event::FellBack { .. } => assert!(!conn.established, "{event:?}"),
            _ => {}
        }
    }
}
