//! A connection as conversations have them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use smc_lab::conversation::Conversation;
use smc_lab::netlink::smc::Carried;
use smc_proto::connection::Shutdown as Direction;
use smc_proto::id::ConnId;

use crate::data::broken;
use crate::shared::Shared;

pub(crate) struct Connection<'a> {
    shared: &'a Shared,
    conn: ConnId,
    tcp: Arc<TcpStream>,
    pub(crate) carried: Carried,
    patience: Duration,
}

impl<'a> Connection<'a> {
    /// Takes a TCP connection in, and waits until it is decided what carries it.
    pub(crate) fn open(
        shared: &'a Shared,
        tcp: TcpStream,
        is_client: bool,
        option: bool,
        buffers: Option<u32>,
        patience: Duration,
    ) -> io::Result<Self> {
        tcp.set_read_timeout(Some(patience))?;
        tcp.set_write_timeout(Some(patience))?;
        let tcp = Arc::new(tcp);
        let conn = shared.with(|host| host.enter(tcp.clone(), is_client, option, buffers))??;
        let carried = shared.until(patience, |host| match host.entries.get(&conn) {
            Some(entry) if entry.closed.is_some() => Err(broken(entry.closed)),
            // On TCP, a Decline of the peer may still stand before its octets.
            Some(entry) => {
                let smc = entry.carried == Some(Carried::SmcR);
                Ok(entry.carried.filter(|_| smc || entry.silent))
            }
            None => Err(broken(None)),
        })?;
        Ok(Self {
            shared,
            conn,
            tcp,
            carried,
            patience,
        })
    }

    fn is_smc(&self) -> bool {
        self.carried == Carried::SmcR
    }

    /// Closes, and waits for the end.
    pub(crate) fn close(self) -> io::Result<()> {
        let conn = self.conn;
        if self.is_smc() {
            self.shared
                .with(|host| host.shutdown(conn, Direction::Both))?;
            self.shared.until(self.patience, |host| {
                let open = host
                    .entries
                    .get(&conn)
                    .is_some_and(|entry| entry.closed.is_none());
                Ok((!open).then_some(()))
            })?;
        } else {
            self.shared.with(|host| host.abort(conn))?;
        }
        self.shared.with(|host| drop(host.entries.remove(&conn)))
    }
}

impl Conversation for Connection<'_> {
    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        if !self.is_smc() {
            return (&*self.tcp).write(octets);
        }
        self.shared
            .until(self.patience, |host| host.write(self.conn, octets))
    }

    fn receive(&self, octets: &mut [u8]) -> io::Result<usize> {
        if !self.is_smc() {
            return (&*self.tcp).read(octets);
        }
        self.shared
            .until(self.patience, |host| host.read(self.conn, octets))
    }

    fn send_urgent(&self, octet: u8) -> io::Result<()> {
        if !self.is_smc() {
            send(&*self.tcp, &[octet], SendFlags::OOB)?;
            return Ok(());
        }
        self.shared
            .until(self.patience, |host| host.write_urgent(self.conn, octet))
    }

    fn receive_urgent(&self, patience: Duration) -> io::Result<u8> {
        if self.is_smc() {
            return self
                .shared
                .until(patience, |host| host.read_urgent(self.conn));
        }
        let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
        poll(
            &mut [PollFd::new(&*self.tcp, PollFlags::PRI)],
            Some(&timeout),
        )?;
        let mut octet = [0];
        recv(&*self.tcp, &mut octet, RecvFlags::OOB)?;
        Ok(octet[0])
    }

    fn shutdown(&self) -> io::Result<()> {
        if !self.is_smc() {
            return self.tcp.shutdown(Shutdown::Write);
        }
        self.shared
            .with(|host| host.shutdown(self.conn, Direction::Write))
    }
}
