//! Everything that can be done now.

use std::io;
use std::net::Shutdown;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use smc_lab::netlink::smc::Carried;
use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ClcProgress, Next, TcpEvent};
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::clc::MAX_LENGTH;
use smc_transport_verbs::paths::KernelRoutes;

use crate::host::Host;

impl Host {
    /// Works until there is nothing to do; whether there was anything.
    pub(crate) fn turn(&mut self) -> io::Result<bool> {
        let mut ever = self.look_at_tcp();
        loop {
            let now = self.now();
            if self.engine.poll_timeout().is_some_and(|at| at <= now) {
                self.engine.handle_timeout(now);
            }
            let mut any = self.binding.carry_out(&mut self.engine, now);
            while let Some(completion) = self.binding.poll() {
                self.engine.handle_rdma(now, completion);
                any = true;
            }
            any |= self.hear_of_paths(now);
            any |= self.send_clc(now)?;
            while let Some((conn, command)) = self.engine.poll_tcp() {
                self.obey(conn, command);
                any = true;
            }
            while let Some(event) = self.engine.poll_event() {
                self.hear(event, now);
                any = true;
            }
            if !any {
                return Ok(ever);
            }
            ever = true;
        }
    }

    fn hear_of_paths(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(news) = self.binding.poll_path() {
            any = true;
            for event in news.events(|device, port| self.surroundings.port(device, port)) {
                self.engine.handle_path(now, event);
            }
        }
        any
    }

    /// Shows the engine what has come over TCP, and takes no more of it than is CLC.
    fn look_at_tcp(&mut self) -> bool {
        let listening = self.entries.iter().filter(|(_, entry)| !entry.silent);
        let conns: Vec<_> = listening.map(|(conn, _)| *conn).collect();
        let mut any = false;
        for conn in conns {
            while self.show(conn) {
                any = true;
            }
        }
        any
    }

    /// Shows what one TCP connection has; whether that was of use.
    fn show(&mut self, conn: ConnId) -> bool {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(&conn).filter(|entry| !entry.silent) else {
            return false;
        };
        let mut octets = [0; MAX_LENGTH];
        let seen = recv(
            &*entry.tcp,
            &mut octets,
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        match seen {
            Err(Errno::AGAIN) => false,
            Err(_) => {
                entry.silent = true;
                self.engine.handle_tcp(now, conn, TcpEvent::PeerReset);
                true
            }
            Ok((0, _)) => {
                entry.silent = true;
                self.engine.handle_tcp(now, conn, TcpEvent::PeerFin);
                true
            }
            Ok((len, _)) => match self.engine.handle_clc(now, conn, &octets[..len]) {
                Ok(ClcProgress::Consumed { len, next }) => {
                    // Exactly what was shown, so it is there.
                    let _ = recv(&*entry.tcp, &mut octets[..len], RecvFlags::DONTWAIT);
                    entry.silent = next == Next::Stop;
                    true
                }
                Ok(ClcProgress::NeedMore { .. }) => false,
                Ok(ClcProgress::NotClc) | Err(_) => {
                    entry.silent = true;
                    true
                }
            },
        }
    }

    fn send_clc(&mut self, now: Instant) -> io::Result<bool> {
        let mut octets = [0; MAX_LENGTH];
        let Ok(Some((conn, len))) = self.engine.poll_clc(now, &mut octets) else {
            return Ok(false);
        };
        if let Some(entry) = self.entries.get(&conn) {
            // A TCP connection that broke is told by its next read.
            let _ = send(&*entry.tcp, &octets[..len], SendFlags::NOSIGNAL);
        }
        Ok(true)
    }

    fn obey(&mut self, conn: ConnId, command: TcpCommand) {
        let Some(entry) = self.entries.get_mut(&conn) else {
            return;
        };
        match command {
            TcpCommand::HandOver { watch_for_decline } => entry.silent = !watch_for_decline,
            TcpCommand::Close => {
                entry.silent = true;
                let _ = entry.tcp.shutdown(Shutdown::Write);
            }
            TcpCommand::Reset => {
                entry.silent = true;
                let _ = entry.tcp.shutdown(Shutdown::Both);
            }
        }
    }

    fn hear(&mut self, event: Event, now: Instant) {
        match event {
            Event::Proposed { conn } => {
                let local = self.entries.get(&conn).map(|entry| entry.local);
                let (Some(local), Some(proposed)) = (local, self.engine.proposal(conn)) else {
                    return;
                };
                let paths = self.surroundings.server(local, &proposed, &KernelRoutes);
                // One that ended meanwhile is told of by its own event.
                let _ = self.engine.accept(now, conn, &paths[..]);
            }
            Event::Established { conn, .. } => self.decided(conn, Carried::SmcR),
            Event::FellBack { conn, why } => {
                if let Some(refusal) = self.binding.last_refusal() {
                    eprintln!("smc-lab-peer: {why}: {refusal}");
                }
                let peer = why.peer_diagnosis.map_or(0, |code| code.0);
                self.decided(conn, Carried::Tcp(why.code.0, peer));
            }
            Event::Closed { conn, reason } => {
                if let Some(entry) = self.entries.get_mut(&conn) {
                    entry.closed = Some(reason);
                }
            }
            Event::GroupUp { group } => {
                eprintln!("smc-lab-peer: {now:?}: {event:?}");
                self.groups.push(group);
            }
            Event::GroupDown { group } => {
                eprintln!("smc-lab-peer: {now:?}: {event:?}");
                self.groups.retain(|up| *up != group);
            }
            Event::LinkUp { .. } | Event::LinkDown { .. } => {
                eprintln!("smc-lab-peer: {now:?}: {event:?}");
            }
            _ => {}
        }
    }

    fn decided(&mut self, conn: ConnId, carried: Carried) {
        if let Some(entry) = self.entries.get_mut(&conn) {
            entry.carried = Some(carried);
        }
    }
}
