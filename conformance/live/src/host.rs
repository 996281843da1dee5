//! The applications at the other end.

use conformance::scripts::{AppAct, AppSees, Failed, Host, RnicAct, Seen, bytes};
use smc_transport_verbs::rnic::Rnic;

use crate::sockets::{Ending, Sockets};
use crate::tcp::{Tcp, connected};
use crate::wire::{Live, Over};

fn describe(error: std::io::Error) -> Failed {
    error.to_string()
}

impl<R: Rnic, S: Sockets> Live<R, S> {
    fn begin(&mut self, conn: u8, act: &AppAct) -> std::io::Result<()> {
        let stream = if let AppAct::Connect(_) = act {
            let address = self.server()?.local_addr()?;
            self.sockets.connect(conn, address)?;
            self.server()?.accept()?.0
        } else {
            let stream = connected(self.sockets.listens()?, self.mark.as_ref())?;
            self.sockets.comes(conn, stream.local_addr()?);
            stream
        };
        self.tcp.insert(conn, Tcp::new(stream)?);
        Ok(())
    }
}

impl<R: Rnic, S: Sockets> Host for Live<R, S> {
    fn app(&mut self, conn: u8, act: &AppAct, _: Option<u32>) -> Result<(), Failed> {
        self.settle();
        let sockets = &mut self.sockets;
        match act {
            AppAct::Connect(_) | AppAct::Listen(_) => self.begin(conn, act),
            AppAct::Write(data) => sockets.write(conn, &bytes(data), false),
            AppAct::Urgent(data) => sockets.write(conn, &bytes(data), true),
            AppAct::Shutdown => sockets.end(conn, Ending::Write),
            AppAct::ShutdownRead => sockets.end(conn, Ending::Read),
            AppAct::Close => sockets.end(conn, Ending::Close),
            AppAct::Abort => sockets.end(conn, Ending::Abort),
            AppAct::Accept | AppAct::Decline(_) | AppAct::DeleteGroup | AppAct::DeleteLink(_) => {
                return Err("sockets do no such thing".to_owned());
            }
        }
        .map_err(describe)
    }

    fn seen(&mut self) -> Option<(u8, Seen)> {
        self.seen.pop_front()
    }

    fn shows(&self, what: &AppSees) -> bool {
        !matches!(
            what,
            AppSees::LinkUp(_) | AppSees::LinkDown(_) | AppSees::GroupDown | AppSees::Room(_)
        )
    }

    fn has_ended(&mut self, conn: u8, reason: &str) -> Option<bool> {
        self.take_in();
        Some(self.sockets.has_ended(conn, reason == "Normal"))
    }

    fn readable(&mut self, conn: u8) -> u32 {
        self.settle();
        self.sockets.readable(conn) as u32
    }

    fn room(&mut self, _: u8) -> u32 {
        0
    }

    fn read(&mut self, conn: u8, count: u32) -> Result<Vec<u8>, Failed> {
        self.settle();
        self.sockets.read(conn, count as usize).map_err(describe)
    }

    fn ended(&mut self, conn: u8) -> bool {
        self.settle();
        self.sockets.ended(conn)
    }

    fn urgent(&mut self, conn: u8) -> Option<(u32, u8)> {
        self.settle();
        let before = self.sockets.readable(conn) as u32;
        Some((before, self.sockets.urgent(conn)?))
    }

    fn plain(&mut self, conn: u8) -> Vec<u8> {
        self.settle();
        self.sockets.plain(conn)
    }

    fn rnic(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), Failed> {
        self.before_sending(Over::Rnic);
        self.sockets.rnic(act, qpn)
    }

    fn run_out(&mut self) -> Result<(), Failed> {
        self.take_in();
        self.farewell().map_err(describe)?;
        let left = if self.parts {
            // An answered call has an end.
            self.sockets.run_out()
        } else {
            Ok(())
        };
        let odd = self.vanish();
        if !self.parts {
            self.sockets.run_out()?;
        }
        odd.map_or(left, Err)
    }

    fn fault(&self) -> Option<&str> {
        None
    }
}
