//! TCP connections, which carry CLC messages at once, and events.

use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::wire::clc::MAX_LENGTH;

use super::World;
use super::world::name;

impl World {
    /// Moves one CLC message.
    pub fn clc(&mut self, side: usize) -> bool {
        let mut buffer = [0; MAX_LENGTH];
        let host = &mut self.hosts[side];
        let Ok(Some((conn, len))) = host.endpoint.poll_clc(self.now, &mut buffer) else {
            return false;
        };
        self.steps += 1;
        let Some(app) = host.apps.iter().position(|app| app.conn == conn) else {
            self.error("a CLC message of no connection");
            return true;
        };
        self.note(|| format!("{} CLC {:02x?}", name(side), &buffer[4..8]));
        let other = &mut self.hosts[1 - side];
        let to = other.apps[app].conn;
        match other.endpoint.handle_clc(self.now, to, &buffer[..len]) {
            Ok(ClcProgress::Consumed { len: n, .. }) if n == len => {}
            Ok(ClcProgress::NotClc) => {}
            progress => self.error(format!("CLC message answered {progress:?}")),
        }
        true
    }

    /// Takes events and TCP commands of a side.
    pub fn collect(&mut self, side: usize) -> bool {
        let mut any = false;
        while let Some((conn, command)) = self.hosts[side].endpoint.poll_tcp() {
            any = true;
            self.note(|| format!("{} TCP {conn} {command:?}", name(side)));
            self.relay(side, conn, command);
            self.hosts[side].tcp.push((conn, command));
        }
        while let Some(event) = self.hosts[side].endpoint.poll_event() {
            any = true;
            self.note(|| format!("{} {event:?}", name(side)));
            let host = &mut self.hosts[side];
            if let Event::Proposed { conn } = event {
                let paths = host.paths.clone();
                host.endpoint
                    .accept(self.now, conn, &paths)
                    .expect("just proposed");
            }
            host.events.push(event);
            let errors: Vec<_> = host
                .apps
                .iter_mut()
                .filter_map(|app| app.on_event(&event))
                .collect();
            for error in errors {
                self.error(error);
            }
        }
        any
    }

    /// A FIN or RST reaches the other end.
    fn relay(&mut self, side: usize, conn: ConnId, command: TcpCommand) {
        let event = match command {
            TcpCommand::Close => TcpEvent::PeerFin,
            TcpCommand::Reset => TcpEvent::PeerReset,
            TcpCommand::HandOver { .. } => return,
        };
        let Some(app) = self.hosts[side].apps.iter().position(|a| a.conn == conn) else {
            return;
        };
        let other = &mut self.hosts[1 - side];
        other
            .endpoint
            .handle_tcp(self.now, other.apps[app].conn, event);
    }
}
