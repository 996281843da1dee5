//! Two guests on one wire.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::console::Alarm;
use super::super::machine::{Blueprint, DEVICES, Guest};
use super::super::{Trouble, failed};
use crate::orders::{Adjustment, Answer, Held, Order, Role};
use crate::scenarios::Disturbance;

/// The client's address.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 1);
/// The server's address.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 2);
/// The UEID that both have.
pub(crate) const UEID: &str = "SMC-LAB";
/// Addresses of the second interfaces, in the same subnet.
const SECOND: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 84, 0, 11), Ipv4Addr::new(10, 84, 0, 12)];
/// Soft-RoCE devices, and the interfaces they are on. Usually there is only the first.
pub(super) const RDMA: [&str; 2] = ["rxe0", "rxe1"];
pub(super) const INTERFACES: [&str; 2] = ["eth0", "eth1"];
/// Bytes of a buffer that a socket may ask for: more than any does.
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
    blueprint: Blueprint,
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
            blueprint,
        };
        configure(&mut pair.client, Role::Client, v1)?;
        configure(&mut pair.server, Role::Server, v1)?;
        Ok(pair)
    }

    /// The server's guest is switched off as by a power failure, and is there again.
    pub(super) fn replace_server(&mut self, v1: bool) -> Result<(), Trouble> {
        let log = self.server.console().with_extension("again.log");
        self.server.kill();
        self.server = Guest::start(&self.blueprint, "server", false, log)?;
        configure(&mut self.server, Role::Server, v1)?;
        let capture = self.server.console().with_extension("pcap");
        self.server.monitor.start_capture(DEVICES[0], &capture)
    }

    /// A port that no conversation of this pair had.
    pub(super) fn next_port(&mut self) -> u16 {
        self.port += 1;
        self.port
    }

    pub(super) fn start_captures(&mut self, client: &Path, server: &Path) -> Result<(), Trouble> {
        self.client.monitor.start_capture(DEVICES[0], client)?;
        self.server.monitor.start_capture(DEVICES[0], server)
    }

    pub(super) fn stop_captures(&mut self) -> Result<(), Trouble> {
        self.client.monitor.stop_capture(DEVICES[0])?;
        self.server.monitor.stop_capture(DEVICES[0])
    }

    /// Lets both begin their parts; the client when the server listens. What the server
    /// held if it does not.
    pub(super) fn begin(
        &mut self,
        client: &Order,
        server: &Order,
        timeout: Duration,
    ) -> Result<Option<Vec<Held>>, Trouble> {
        self.server.order(server)?;
        match self.server.answer(timeout)? {
            Answer::Listening => {}
            Answer::Held(held) => return Ok(Some(held)),
            other => return Err(self.server.surprise(&other)),
        }
        self.client.order(client)?;
        Ok(None)
    }

    /// Changes something while both hold their parts, as far as they have come by this
    /// capture.
    pub(super) fn disturb(
        &mut self,
        capture: &Path,
        disturbances: &[Disturbance],
        timeout: Duration,
    ) -> Result<(), Trouble> {
        for disturbance in disturbances {
            let end = Instant::now() + timeout;
            let captured = || fs::metadata(capture).map_or(0, |file| file.len());
            while captured() < disturbance.after && Instant::now() < end {
                thread::sleep(Duration::from_millis(20));
            }
            let interface = INTERFACES.get(usize::from(disturbance.interface));
            let interface = interface.copied().unwrap_or_default().to_owned();
            let adjustment = Adjustment::Link(interface, disturbance.up);
            self.guest(disturbance.role)
                .order(&Order::Adjust(adjustment))?;
        }
        Ok(())
    }

    /// What an end held. Before it come answers to so many disturbances; the difference if
    /// its part was over before.
    pub(super) fn held(
        &mut self,
        role: Role,
        disturbances: usize,
        timeout: Duration,
    ) -> Result<(Vec<Held>, Option<String>), Trouble> {
        // A guest bounds each wait, and ends within a few of them.
        let limit = timeout * 10 + Duration::from_secs(240);
        let guest = self.guest(role);
        let (mut held, mut adjusted, mut early) = (None, 0, None);
        while held.is_none() || adjusted < disturbances {
            match guest.answer(limit)? {
                Answer::Held(all) => {
                    if adjusted < disturbances {
                        early = Some("the conversation was over before all happened".to_owned());
                    }
                    held = Some(all);
                }
                Answer::Adjusted(result) => {
                    result.map_err(Trouble::Failed)?;
                    adjusted += 1;
                }
                other => return Err(guest.surprise(&other)),
            }
        }
        Ok((held.unwrap_or_default(), early))
    }

    pub(super) fn guest(&mut self, role: Role) -> &mut Guest {
        match role {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        }
    }

    /// The files with the kernels' logs.
    pub(super) fn consoles(&self) -> [PathBuf; 2] {
        [
            self.client.console().to_owned(),
            self.server.console().to_owned(),
        ]
    }

    /// What is wrong in the kernels' logs, if anything is.
    pub(super) fn alarm(&self) -> Result<Option<Alarm>, Trouble> {
        for path in self.consoles() {
            let log = fs::read(&path).map_err(failed(path.display()))?;
            if let Some(alarm) = Alarm::of(&String::from_utf8_lossy(&log)) {
                return Ok(Some(alarm));
            }
        }
        Ok(None)
    }
}

/// Addresses, the soft-RoCE device, and what SMC needs to know.
fn configure(guest: &mut Guest, role: Role, v1: bool) -> Result<(), Trouble> {
    guest.ready()?;
    let (address, second) = match role {
        Role::Client => (CLIENT, SECOND[0]),
        Role::Server => (SERVER, SECOND[1]),
    };
    for most in ["net/core/rmem_max", "net/core/wmem_max"] {
        guest.adjust(Adjustment::Sysctl(most.into(), MOST_BUFFERED.into()))?;
    }
    // Each interface answers for its own address, and speaks with it.
    for (rule, value) in [("arp_ignore", "1"), ("arp_announce", "2")] {
        let path = format!("net/ipv4/conf/all/{rule}");
        guest.adjust(Adjustment::Sysctl(path, value.into()))?;
    }
    let [first, other] = INTERFACES;
    guest.adjust(Adjustment::Address(first.into(), address, 24))?;
    guest.adjust(Adjustment::SecondAddress(other.into(), second, 24))?;
    guest.adjust(Adjustment::AddRdma(RDMA[0].into(), first.into()))?;
    // Without one a kernel has nothing of version 2 to offer.
    match v1 {
        true => Ok(()),
        false => guest.adjust(Adjustment::AddUeid(UEID.into())),
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.sockets);
    }
}
