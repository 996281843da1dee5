//! What happens to the TCP connection itself.

use super::State;
use crate::command::TcpCommand;
use crate::connection_record::{End, Phase};
use crate::endpoint::TcpEvent;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::ConnIdx;
use crate::link_group::Role;
use crate::trace::TraceEvent;

impl Engine<'_> {
    /// FIN, RST or the failure of a connection's TCP connection.
    pub(crate) fn on_tcp(&mut self, index: ConnIdx, event: TcpEvent) {
        let Some(phase) = self.conn(index).map(|record| record.phase) else {
            return;
        };
        self.trace_conn(index, || match event {
            TcpEvent::PeerFin => TraceEvent::TcpFin,
            TcpEvent::PeerReset => TraceEvent::TcpReset,
            TcpEvent::Failed => TraceEvent::TcpFailed,
        });
        match (phase, event) {
            // A peer whose answer ended the first contact may have written, closed
            // and sent FIN before that answer arrives over RDMA; the timers of LLC
            // bound the wait.
            //= CLOSE-034
            (Phase::Rendezvous(handshake), TcpEvent::PeerFin) => {
                let forming = self
                    .handshakes
                    .at(handshake)
                    .is_some_and(|h| h.state == State::Forming);
                if !forming {
                    self.reset(index, CloseReason::TcpReset);
                }
            }
            (Phase::Rendezvous(_), _) => {
                self.leave_founded_group(index, CloseReason::RendezvousFailed);
                self.end(index, End::Closed(CloseReason::TcpReset));
            }
            // RDMA carries the connection now; FIN never ends it (decision 5).
            //= CLOSE-034
            (Phase::Active, TcpEvent::PeerFin) => {}
            //= ABORT-010
            //= ABORT-016
            (Phase::Active, TcpEvent::PeerReset | TcpEvent::Failed) => {
                if self.groups.data.core.config.tcp_reset_aborts || self.is_given_up(index) {
                    self.groups
                        .with_connection(index, |connection, now, config| {
                            connection.on_tcp_reset(now, &config.connection);
                        });
                }
            }
            // Of what begins like a Decline the rest will not come: it may well be one, and
            // an application loses nothing that TCP has not lost with the reset.
            //= CLC-064
            (Phase::Watching, TcpEvent::PeerReset | TcpEvent::Failed)
                if self.groups.data.connections.deadline(index).is_some() =>
            {
                self.groups.data.command_tcp(index, TcpCommand::Reset);
                self.stop_watching(index);
            }
            (Phase::Watching, _) => self.give_up_watching(index),
            (Phase::Ended, _) => {}
        }
    }

    /// Whether a reset means that the server did not take our Confirm: it gave the
    /// rendezvous up before that came, or could not bind the DMB of SMC-D that it names
    /// of, and has no other way to say so. For this side SMC has begun, but nothing was
    /// received from the peer over it.
    //= D-058
    fn is_given_up(&self, index: ConnIdx) -> bool {
        self.conn(index).is_some_and(|record| {
            let group = self.group(record.group);
            let confirmed = self.groups.ism_peer_of(record.group).is_some()
                || group.is_some_and(|group| group.role == Role::Client);
            confirmed
                && record
                    .connection
                    .as_ref()
                    .is_some_and(|c| !c.has_received())
        })
    }
}
