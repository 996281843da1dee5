//! Two guests on one wire.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::machine::{Blueprint, DEVICE, Guest};
use super::super::{Trouble, console, failed};
use crate::orders::{Adjustment, Answer, Held, Order};

/// The client's address.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 1);
/// The server's address.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 2);
/// The UEID that both have.
pub(super) const UEID: &str = "SMC-LAB";
/// The soft-RoCE device, and the interface it is on.
pub(super) const RDMA: &str = "rxe0";
pub(super) const INTERFACE: &str = "eth0";
/// Octets of a buffer that a socket may ask for: more than any does.
const MOST_BUFFERED: &str = "4194304";
/// tshark takes port 7000 for something else, and so on: none that anybody knows.
const FIRST_PORT: u16 = 12_865;

/// A client's and a server's guest.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) client: Guest,
    pub(super) server: Guest,
    port: u16,
    sockets: PathBuf,
}

impl Pair {
    /// Starts both, and configures them.
    pub(super) fn start(
        blueprint: &Blueprint,
        results: &Path,
        boot: u32,
        v1: bool,
    ) -> Result<Self, Trouble> {
        static PAIRS: AtomicU32 = AtomicU32::new(0);
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        // Paths of sockets are short, and those of targets may be long.
        let sockets = std::env::temp_dir().join(format!("smc-lab-{}-{number}", std::process::id()));
        fs::create_dir_all(&sockets).map_err(failed(sockets.display()))?;
        let blueprint = Blueprint {
            sockets: sockets.clone(),
            ..blueprint.clone()
        };
        let log = |name: &str| results.join(format!("console-{name}-{boot}.log"));
        let client = Guest::start(&blueprint, "client", true, log("client"))?;
        let server = Guest::start(&blueprint, "server", false, log("server"))?;
        let mut pair = Self {
            client,
            server,
            port: FIRST_PORT,
            sockets,
        };
        for guest in [&mut pair.client, &mut pair.server] {
            guest.ready()?;
        }
        for (guest, address) in [(&mut pair.client, CLIENT), (&mut pair.server, SERVER)] {
            guest.adjust(Adjustment::Address(INTERFACE.into(), address, 24))?;
            for most in ["net/core/rmem_max", "net/core/wmem_max"] {
                guest.adjust(Adjustment::Sysctl(most.into(), MOST_BUFFERED.into()))?;
            }
            guest.adjust(Adjustment::AddRdma(RDMA.into(), INTERFACE.into()))?;
            // Without one a kernel has nothing of version 2 to offer.
            if !v1 {
                guest.adjust(Adjustment::AddUeid(UEID.into()))?;
            }
        }
        Ok(pair)
    }

    /// A port that no conversation of this pair had.
    pub(super) fn next_port(&mut self) -> u16 {
        self.port += 1;
        self.port
    }

    pub(super) fn start_captures(&mut self, client: &Path, server: &Path) -> Result<(), Trouble> {
        self.client.monitor.start_capture(DEVICE, client)?;
        self.server.monitor.start_capture(DEVICE, server)
    }

    pub(super) fn stop_captures(&mut self) -> Result<(), Trouble> {
        self.client.monitor.stop_capture(DEVICE)?;
        self.server.monitor.stop_capture(DEVICE)
    }

    /// Lets both hold their parts; the client begins when the server listens.
    pub(super) fn hold(
        &mut self,
        client: &Order,
        server: &Order,
        patience: Duration,
    ) -> Result<(Vec<Held>, Vec<Held>), Trouble> {
        // A guest bounds each wait, and ends within a few of them.
        let limit = patience * 10 + Duration::from_secs(240);
        self.server.order(server)?;
        match self.server.answer(patience)? {
            Answer::Listening => {}
            // It could not even listen.
            Answer::Held(held) => return Ok((Vec::new(), held)),
            other => return Err(self.server.surprise(&other)),
        }
        self.client.order(client)?;
        let mut results = Vec::new();
        for guest in [&self.client, &self.server] {
            match guest.answer(limit)? {
                Answer::Held(held) => results.push(held),
                other => return Err(guest.surprise(&other)),
            }
        }
        let server = results.pop().unwrap_or_default();
        Ok((results.pop().unwrap_or_default(), server))
    }

    /// The files with the kernels' logs.
    pub(super) fn consoles(&self) -> [PathBuf; 2] {
        [
            self.client.console().to_owned(),
            self.server.console().to_owned(),
        ]
    }

    /// What is wrong in the kernels' logs.
    pub(super) fn alarms(&self) -> Result<Vec<String>, Trouble> {
        let mut alarms = Vec::new();
        for path in self.consoles() {
            let log = fs::read(&path).map_err(failed(path.display()))?;
            let log = String::from_utf8_lossy(&log);
            alarms.extend(console::alarms(&log).into_iter().map(str::to_owned));
        }
        Ok(alarms)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.sockets);
    }
}
