//! Octets of connections that SMC-R carries. `None` is: not now.

use std::io;

use smc_proto::connection::Shutdown;
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;

use crate::host::Host;

impl Host {
    pub(crate) fn write(&mut self, id: ConnId, octets: &[u8]) -> io::Result<Option<usize>> {
        let now = self.now();
        let reason = self.reason(id);
        let Some(mut conn) = self.engine.conn(id) else {
            return Err(broken(reason));
        };
        let fill = |space: &_| self.binding.fill(space, octets).unwrap_or(0);
        match conn.write(now, fill) {
            Ok(0) => Ok(None),
            Ok(count) => Ok(Some(count as usize)),
            Err(_) => Err(broken(reason)),
        }
    }

    pub(crate) fn write_urgent(&mut self, id: ConnId, octet: u8) -> io::Result<Option<()>> {
        let now = self.now();
        let reason = self.reason(id);
        let Some(mut conn) = self.engine.conn(id) else {
            return Err(broken(reason));
        };
        let Some(space) = conn.send_space() else {
            return Err(broken(reason));
        };
        match self.binding.fill(&space, &[octet]) {
            Ok(1) => match conn.commit_urgent(now, 1) {
                Ok(()) => Ok(Some(())),
                Err(_) => Err(broken(reason)),
            },
            _ => Ok(None),
        }
    }

    /// How many octets came, 0 at the end of the stream.
    pub(crate) fn read(&mut self, id: ConnId, into: &mut [u8]) -> io::Result<Option<usize>> {
        let now = self.now();
        let reason = self.reason(id);
        let Some(mut conn) = self.engine.conn(id) else {
            return match reason {
                Some(CloseReason::Normal) => Ok(Some(0)),
                _ => Err(io::ErrorKind::ConnectionReset.into()),
            };
        };
        let take = |readable: &_| self.binding.take(id, readable, into).unwrap_or(0);
        match conn.read(now, take) {
            Ok(0) if conn.is_end_of_stream() => Ok(Some(0)),
            Ok(0) => Ok(None),
            Ok(count) => Ok(Some(count as usize)),
            Err(_) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    pub(crate) fn read_urgent(&mut self, id: ConnId) -> io::Result<Option<u8>> {
        let now = self.now();
        let reason = self.reason(id);
        let Some(mut conn) = self.engine.conn(id) else {
            return Err(broken(reason));
        };
        let Some((_, place)) = conn.urgent() else {
            return Ok(None);
        };
        let mut octet = [0];
        match self.binding.take(id, &place, &mut octet) {
            Ok(1) => {
                conn.take_urgent(now)
                    .map_err(|error| io::Error::other(error.to_string()))?;
                Ok(Some(octet[0]))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn shutdown(&mut self, id: ConnId, how: Shutdown) {
        let now = self.now();
        if let Some(mut conn) = self.engine.conn(id) {
            conn.shutdown(now, how);
        }
    }

    pub(crate) fn abort(&mut self, id: ConnId) {
        let now = self.now();
        if let Some(mut conn) = self.engine.conn(id) {
            conn.abort(now);
        }
    }

    /// Ends all groups in order.
    pub(crate) fn end_groups(&mut self) {
        let now = self.now();
        for group in self.groups.clone() {
            self.engine.delete_group(now, group);
        }
    }

    pub(crate) fn reason(&self, id: ConnId) -> Option<CloseReason> {
        self.entries.get(&id)?.closed
    }
}

/// The error of sending on a connection that ended like this.
pub(crate) fn broken(reason: Option<CloseReason>) -> io::Error {
    let kind = match reason {
        None | Some(CloseReason::Normal | CloseReason::LocalAbort) => io::ErrorKind::BrokenPipe,
        Some(_) => io::ErrorKind::ConnectionReset,
    };
    let told = reason.map_or("the sending direction is closed".to_owned(), |why| {
        why.to_string()
    });
    io::Error::new(kind, told)
}
