//! The peer's end of the wire.

use core::time::Duration;

use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::endpoint::TcpEvent;
use smc_proto::time::Instant;

use super::Direct;
use crate::scripts::parsed::Kind;
use crate::scripts::wire::{Failed, Received, Target, Wire};

impl Wire for Direct {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now.as_nanos())
    }

    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn pass(&mut self, until: Duration) {
        let end = Instant::ZERO.after(until);
        while self.received.is_empty() && self.seen.is_empty() {
            if !self.run_timers(end) {
                self.now = self.now.max(end);
                return;
            }
        }
    }

    fn receive(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    fn tcp(&mut self, conn: u8, bytes: &[u8]) {
        let stream = self.streams.entry(conn).or_default();
        stream.pending.extend_from_slice(bytes);
        self.show(conn);
    }

    fn fin(&mut self, conn: u8) {
        self.report_tcp(conn, TcpEvent::PeerFin);
    }

    fn reset(&mut self, conn: u8) {
        self.report_tcp(conn, TcpEvent::PeerReset);
    }

    fn join(&mut self, _: u8, _: Kind, _: &[u8]) -> Result<(), Failed> {
        Ok(())
    }

    fn send(&mut self, over: Target, bytes: &[u8]) -> Result<(), Failed> {
        match over {
            Target::Qp(qpn) => {
                let link = self.link_of(qpn)?;
                let payload = bytes;
                let received = RdmaCompletion::Received { link, payload };
                self.endpoint.handle_rdma(self.now, received);
            }
            Target::Dmb(token) => self.signal(token, bytes)?,
        }
        self.pump();
        Ok(())
    }

    fn write(&mut self, over: Target, key: u64, address: u64, bytes: &[u8]) -> Result<(), Failed> {
        match over {
            Target::Qp(qpn) => self.written(self.link_of(qpn)?, key, address, bytes),
            Target::Dmb(token) => self.ism.write(token, address, bytes),
        }
    }

    fn breaks(&mut self, over: Target) -> Result<(), Failed> {
        match over {
            Target::Qp(qpn) => {
                let link = self.link_of(qpn)?;
                let failed = RdmaCompletion::LinkFailed {
                    link,
                    cause: LinkFailure::RetriesExhausted,
                    conn: None,
                };
                self.endpoint.handle_rdma(self.now, failed);
            }
            Target::Dmb(_) => self.vanish(),
        }
        self.pump();
        Ok(())
    }
}
