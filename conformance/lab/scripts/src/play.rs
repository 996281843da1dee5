//! The peer of the scripts.

use std::cell::Cell;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use conformance::scripts::{self, AppAct, Outcome, ParsedScript};
use serde::Serialize;
use smc_lab::netlink::route;
use smc_lab::orders::SCRIPTS_FOLDER;
use smc_live::{Abilities, Live, Nic, OurSockets, Remote, Wanted, names_withdrawals, tried};
use smc_proto::wire::types::{Gid, Mac};
use smc_transport_verbs::ports::GidKind;
use smc_transport_verbs::rdma::RoceDevice;

use crate::kernel::KernelSockets;
use crate::order::{Order, SmcOption, Whose, io_error};

/// The RNIC, and the interface that it is on.
const DEVICE: &str = "rxe0";
const INTERFACE: &str = "eth0";
/// Length of the subnet's prefix.
const PREFIX: u8 = 24;
/// What addresses of the peer's further RNICs have more than that of the first: it is one
/// device, which is reached by as many GIDs.
const FURTHER: [u8; 2] = [100, 110];
/// How long a guest without time to spare may take for what is sent, the second time.
const PATIENT: Duration = Duration::from_millis(300);
/// Scripts that wait longer in all are left to the simulated clock.
const LONGEST: Duration = Duration::from_secs(5);

/// The peer, as the other end knows it.
struct Peer {
    calls: TcpStream,
    option: SmcOption,
    address: Ipv4Addr,
    addresses: [Ipv4Addr; 3],
    v2: bool,
    /// The peer answers withdrawals by itself: a kernel's.
    auto_reply: bool,
    /// Benches that were made.
    made: Cell<u64>,
}

/// A line before a script: which one it is, should it be the last.
#[derive(Serialize)]
struct Begun<'a> {
    begun: &'a str,
}

/// A line behind a script.
#[derive(Serialize)]
struct Line<'a> {
    script: &'a str,
    /// `passed`, `again`, `unfit` or `failed`.
    outcome: &'a str,
    why: String,
    millis: u128,
}

/// Plays scripts, one after the other, and reports each on a line.
pub(crate) fn play(order: &Order) -> io::Result<()> {
    let calls = TcpStream::connect(order.at)?;
    calls.set_nodelay(true)?;
    let std::net::IpAddr::V4(address) = calls.local_addr()?.ip() else {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    };
    let [a, b, c, d] = address.octets();
    let [second, third] = FURTHER.map(|more| Ipv4Addr::new(a, b, c, d.wrapping_add(more)));
    for further in [second, third] {
        match route::add_second_address(INTERFACE, further, PREFIX) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let peer = Peer {
        calls,
        option: SmcOption::attach()?,
        address,
        addresses: [address, second, third],
        v2: order.v2,
        auto_reply: order.whose == Whose::Kernel,
        made: Cell::new(0),
    };
    let ours = order.whose == Whose::Ours;
    let abilities = Abilities {
        rnic: |_| false,
        app: if ours {
            |_| true
        } else {
            |act| *act != AppAct::Abort
        },
        takes: if ours {
            OurSockets::takes
        } else {
            KernelSockets::takes
        },
        rnics: 2,
        longest: LONGEST,
    };
    let mut all = scripts::all(SCRIPTS_FOLDER.as_ref())?;
    all.retain(|(name, _)| {
        let mut names = order.names.iter();
        let named = order.names.is_empty() || names.any(|each| name.starts_with(each.as_str()));
        named && !order.without.contains(name)
    });
    // A second RNIC comes, and does not go again.
    let rnics = |script: &ParsedScript| script.setup.rnics;
    let scripts = all.iter().map(|(name, path)| {
        let script = scripts::script(name, path).map_err(io_error)?;
        Ok((rnics(&script), script.setup.form, name, path))
    });
    let mut scripts = scripts.collect::<io::Result<Vec<_>>>()?;
    scripts.retain(|(_, form, ..)| form.is_ism() || form.is_v2() == order.v2);
    scripts.sort_by_key(|(rnics, ..)| *rnics);
    for (_, _, name, path) in scripts {
        print_line(&Begun { begun: name })?;
        let replay = replay(order, name);
        let outcome = tried(name, path, &abilities, |script, patient| {
            let bench = peer.bench(script)?;
            Ok(match patient {
                true => bench.with_pause(PATIENT),
                false => bench,
            })
        });
        print_line(&Line::of(&outcome.replayed_by(replay)))?;
    }
    Ok(())
}

/// The command that plays it again.
fn replay(order: &Order, name: &str) -> String {
    let whose = match order.whose {
        Whose::Kernel => "kernel",
        Whose::Ours => "ours",
    };
    let version = if order.v2 { "" } else { " --v1" };
    format!("conformance/lab/lab --only scripts-{whose} --scripts {name}{version}")
}

impl<'a> Line<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let (word, why) = match (&outcome.problem, &outcome.skipped) {
            (Some(problem), _) => ("failed", problem.to_string()),
            (None, Some(why)) => ("unfit", why.clone()),
            (None, None) if outcome.again => ("again", String::new()),
            (None, None) => ("passed", String::new()),
        };
        Self {
            script: &outcome.name,
            outcome: word,
            why,
            millis: outcome.time.as_millis(),
        }
    }
}

fn print_line(line: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush()
}

impl Peer {
    fn bench(&self, script: &ParsedScript) -> io::Result<Live<RoceDevice, Remote>> {
        let mut calls = &self.calls;
        let wanted = serde_json::to_string(&Wanted::by(&script.setup))?;
        writeln!(calls, "{wanted}")?;
        let nics = self.addresses.map(nic);
        let nics = nics.into_iter().collect::<io::Result<Vec<_>>>()?;
        let marks = self.option.marks()?;
        self.made.set(self.made.get() + 1);
        let sockets = Remote::new(&self.calls)?;
        let live = Live::new(nics, (self.address, PREFIX), sockets)
            .with_mark(Box::new(move |socket| marks.opt_in(socket)))
            .with_farewell(self.v2)
            .with_auto_reply(self.auto_reply && !names_withdrawals(script))
            .with_identity(identity(self.made.get()));
        Ok(live)
    }
}

/// An identity that no script before had: an instance, and a MAC.
fn identity(number: u64) -> u64 {
    (0x0100 + number) << 48 | 0x0200_0000_0101
}

/// The RNIC, reached by this address.
fn nic(address: Ipv4Addr) -> io::Result<Nic<RoceDevice>> {
    let rnic = RoceDevice::open(DEVICE).map_err(io_error)?;
    let gid = Gid(address.to_ipv6_mapped().octets());
    let ports = rnic.ports().map_err(io_error)?;
    let port = ports.first().ok_or(io::ErrorKind::NotFound)?;
    let mut gids = port.gids.iter();
    let entry = gids.find(|entry| entry.kind == GidKind::RoceV2 && entry.gid == gid);
    let entry = entry.ok_or_else(|| io_error(format!("no GID for {address}")))?;
    let (port, gid_index) = (port.port, entry.index);
    Ok(Nic {
        rnic,
        port,
        gid_index,
        gid,
        mac: mac()?,
    })
}

fn mac() -> io::Result<Mac> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{INTERFACE}/address"))?;
    let mut mac = [0; 6];
    for (byte, digits) in mac.iter_mut().zip(text.trim().split(':')) {
        *byte = u8::from_str_radix(digits, 16).map_err(io_error)?;
    }
    Ok(Mac(mac))
}
