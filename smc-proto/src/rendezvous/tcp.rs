//! What happens to the TCP connection itself.

use crate::connection_record::{End, Phase};
use crate::endpoint::TcpEvent;
use crate::engine::Engine;
use crate::event::CloseReason;

impl Engine<'_> {
    /// FIN, RST or the failure of a connection's TCP connection.
    pub(crate) fn on_tcp(&mut self, index: u32, event: TcpEvent) {
        let Some(phase) = self.connections.at(index).map(|record| record.phase) else {
            return;
        };
        match (phase, event) {
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
                if self.core.config.tcp_reset_aborts {
                    self.with_connection(index, |connection, now, config| {
                        connection.on_tcp_reset(now, &config.connection);
                    });
                }
            }
            (Phase::Watching, _) => self.stop_watching(index),
            (Phase::Ended, _) => {}
        }
    }
}
