//! Bytes from the client to the server and back.

use sha2::Digest;

use super::{PIECE, Place, Run, TIMEOUT, problem};
use crate::demo::Hooks;
use crate::output::Failure;

impl Run<'_> {
    pub(super) fn transfer(&mut self, hooks: &mut Hooks<'_>) -> Result<(), Failure> {
        let mut progress = self.simulation.now();
        loop {
            self.send()?;
            let echoed = self.echo(hooks);
            let received = self.receive(hooks);
            if (received || self.sent_all) && self.act()? {
                continue;
            }
            self.end_sending();
            if echoed || received {
                progress = self.simulation.now();
            }
            if self.is_at_end(1) && self.queued(1) == 0 && self.is_at_end(0) {
                break;
            }
            for socket in self.sockets {
                self.carrier_is_smc(socket)?;
            }
            if self.simulation.now() > progress.after(TIMEOUT) {
                let (back, bytes) = (self.back, self.bytes);
                let text = format!("the transfer stalled with {back} bytes back of {bytes} sent");
                return Err(problem(&text));
            }
            self.step()?;
        }
        (hooks.progress)(self.back);
        Ok(())
    }

    fn queued(&self, end: usize) -> u64 {
        let app = self.sockets.get(end).and_then(|s| self.simulation.app(*s));
        app.map_or(0, |app| app.queued())
    }

    fn is_at_end(&self, end: usize) -> bool {
        let app = self.sockets.get(end).and_then(|s| self.simulation.app(*s));
        app.is_some_and(|app| app.is_at_end())
    }

    /// The client sends what the source has.
    fn send(&mut self) -> Result<(), Failure> {
        let [client, _] = self.sockets;
        while !self.sent_all && self.queued(0) < PIECE {
            let piece = self.source.piece(PIECE)?;
            self.bytes += piece.len() as u64;
            let [sent, ..] = &mut self.digests;
            sent.update(&piece);
            self.sent_all = piece.is_empty();
            self.first_byte.get_or_insert(self.simulation.now());
            if !self.sent_all
                && let Some(app) = self.simulation.app_mut(client)
            {
                app.write_owned(piece);
            }
        }
        Ok(())
    }

    /// The client ends its stream, after everything that was to happen.
    fn end_sending(&mut self) {
        let [client, _] = self.sockets;
        if self.sent_all
            && !self.ended
            && self.script.is_empty()
            && let Some(app) = self.simulation.app_mut(client)
        {
            self.ended = true;
            app.finish();
        }
    }

    /// The server writes what it read, and reads no more while it has too much.
    fn echo(&mut self, hooks: &mut Hooks<'_>) -> bool {
        let [_, server] = self.sockets;
        let Some(app) = self.simulation.app(server) else {
            return false;
        };
        let (full, paused) = (app.queued() >= self.relay, !app.wants_to_read());
        let has_received = !app.received().is_empty();
        if !has_received && full == paused && !app.is_at_end() {
            return false;
        }
        let Some(app) = self.simulation.app_mut(server) else {
            return false;
        };
        if has_received {
            let mut bytes = app.take_received();
            (hooks.on_read)(Place::Server, &mut bytes);
            let [_, there, _] = &mut self.digests;
            there.update(&bytes);
            app.write_owned(bytes);
        }
        app.pause(full);
        if app.is_at_end() {
            app.finish();
        }
        has_received
    }

    /// The client reads what comes back.
    fn receive(&mut self, hooks: &mut Hooks<'_>) -> bool {
        let [client, _] = self.sockets;
        let has_received = self
            .simulation
            .app(client)
            .is_some_and(|app| !app.received().is_empty());
        if !has_received {
            return false;
        }
        let mut bytes = self.simulation.read(client);
        (hooks.on_read)(Place::Client, &mut bytes);
        let [_, _, back] = &mut self.digests;
        back.update(&bytes);
        self.back += bytes.len() as u64;
        self.last_byte = self.simulation.now();
        (hooks.progress)(self.back);
        true
    }
}
