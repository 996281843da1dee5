//! The data of a replay: RDMA WRITEs, CDC messages, and the application.

use smc_capture::follow::RdmaWrite;
use smc_proto::connection::Shutdown;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::types::LinkNumber;

use super::connection::{Acts, Connection, payload};
use super::session::Session;
use super::{Deviation, Reader};

impl Session<'_> {
    pub(super) fn feed_write(
        &mut self,
        link: LinkNumber,
        stream: u64,
        write: &RdmaWrite,
    ) -> Result<(), String> {
        let (captured, ours) = self
            .identities
            .rmb(link, write.rkey)
            .ok_or_else(|| format!("no RMB of ours stands for {}", write.rkey))?;
        let offset = write.address.wrapping_sub(captured.address);
        let bytes = payload(write);
        let carrier = self
            .host
            .carrier(link)
            .ok_or("our end of the link is gone")?;
        self.host.write(carrier, ours, offset, &bytes)?;
        self.connection(stream)?.received.extend(bytes);
        self.counts.writes_fed += 1;
        Ok(())
    }

    pub(super) fn feed_cdc(
        &mut self,
        link: LinkNumber,
        stream: u64,
        mut cdc: Cdc,
    ) -> Result<(), String> {
        let connection = self.connection(stream)?;
        connection.peer_aborted |= cdc
            .connection_flags
            .contains(ConnectionFlags::ABNORMAL_CLOSE);
        cdc.alert_token = self
            .identities
            .token(cdc.alert_token)
            .ok_or("no token of ours stands for this one")?;
        if !self.host.receive(link, &cdc.emit())? {
            self.deviate(Deviation::AfterEnd);
            return Ok(());
        }
        self.counts.cdc_fed += 1;
        Ok(())
    }

    /// A prompt reader takes what is there.
    pub(super) fn read_promptly(&mut self) -> Result<(), String> {
        if self.setup.reader != Reader::Prompt {
            return Ok(());
        }
        let open: Vec<u64> = self.connections.keys().copied().collect();
        for stream in open {
            let id = self.connection(stream)?.id;
            let count = self.host.readable(id);
            self.read(stream, count)?;
        }
        self.host.pump()?;
        self.collect()
    }

    fn read(&mut self, stream: u64, count: usize) -> Result<(), String> {
        if count == 0 {
            return Ok(());
        }
        let id = self.connection(stream)?.id;
        let bytes = self.host.consume(id, count)?;
        let connection = self.connection(stream)?;
        let end = connection.consumed + count;
        if connection.received.get(connection.consumed..end) != Some(&bytes[..]) {
            return Err("our application reads other octets than were written".into());
        }
        connection.consumed = end;
        Ok(())
    }

    /// The captured end sent a CDC message: our application does what it shows,
    /// and then our endpoint has to have sent the same.
    pub(super) fn own_cdc(
        &mut self,
        link: LinkNumber,
        stream: u64,
        cdc: &Cdc,
    ) -> Result<(), String> {
        let prompt = self.setup.reader == Reader::Prompt;
        let connection = self.connection(stream)?;
        connection.check_link(link)?;
        let acts = connection.acts(cdc, prompt)?;
        // An abort after the close: the kernel is about to end the link group.
        let killed = acts.flags == ConnectionFlags::ABNORMAL_CLOSE
            && connection.captured.is_some_and(|last| {
                last.connection_flags
                    .contains(ConnectionFlags::PEER_CONNECTION_CLOSED)
            });
        connection.captured = Some(*cdc);
        connection.killed = killed;
        let more = core::mem::take(&mut connection.emitted).len();
        self.counts.cdc_more += more as u32;
        if killed {
            self.deviate(Deviation::AbortAfterClose);
            return self.delete_group();
        }
        self.act(stream, &acts)?;

        let emitted = core::mem::take(&mut self.connection(stream)?.emitted);
        let Some(last) = emitted.last() else {
            if !acts.write.is_empty() || !acts.flags.is_empty() {
                return Err("our end sends no CDC message here".into());
            }
            // It announced these bytes already, or will.
            self.counts.cdc_without += 1;
            return Ok(());
        };
        self.connection(stream)?.compare(last, cdc, prompt)?;
        let blocked = |cdc: &Cdc| cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED);
        match (blocked(last), blocked(cdc)) {
            (true, false) => return Err(format!("our writer is blocked: {last}")),
            (false, true) => self.deviate(Deviation::BlockedWithRoom),
            _ => {}
        }
        self.counts.cdc_equal += 1;
        self.counts.cdc_more += emitted.len() as u32 - 1;
        Ok(())
    }

    /// Our application does what the captured one did.
    fn act(&mut self, stream: u64, acts: &Acts) -> Result<(), String> {
        self.read(stream, acts.read)?;
        let id = self.connection(stream)?.id;
        if !acts.write.is_empty() {
            self.host.commit(id, &acts.write, acts.urgent)?;
            self.connection(stream)?.committed += acts.write.len();
        }
        let now = self.host.now;
        if let Some(mut conn) = self.host.endpoint.conn(id) {
            if acts.flags.contains(ConnectionFlags::SENDING_DONE) {
                conn.shutdown(now, Shutdown::Write);
            }
            if acts.flags.contains(ConnectionFlags::PEER_CONNECTION_CLOSED) {
                conn.shutdown(now, Shutdown::Both);
            }
            if acts.flags.contains(ConnectionFlags::ABNORMAL_CLOSE) {
                conn.abort(now);
            }
        }
        self.host.pump()?;
        self.collect()
    }

    /// A CDC message of our end.
    pub(super) fn on_own_cdc(&mut self, link: LinkNumber, cdc: Cdc) -> Result<(), String> {
        let connection: &mut Connection = self
            .connections
            .values_mut()
            .find(|connection| connection.peer.alert_token == cdc.alert_token)
            .ok_or_else(|| format!("no connection has the token of our {cdc}"))?;
        connection.check_link(link)?;
        connection.last = Some(cdc);
        let answers = connection.peer_aborted
            && cdc
                .connection_flags
                .contains(ConnectionFlags::ABNORMAL_CLOSE);
        if answers {
            self.deviate(Deviation::AbortAnswered);
        } else {
            connection.emitted.push(cdc);
        }
        Ok(())
    }
}
