//! The peer of the scripts.

use std::cell::Cell;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use conformance::scripts::{self, AppAct, Outcome, Story};
use serde::Serialize;
use smc_lab::netlink::route;
use smc_lab::orders::SCRIPTS_FOLDER;
use smc_live::{Abilities, Live, Nic, OurSockets, Remote, Wanted, tells_of_withdrawals, tried};
use smc_proto::wire::types::{Gid, Mac};
use smc_transport_verbs::ports::GidKind;
use smc_transport_verbs::rdma::RoceDevice;

use crate::kernel::KernelSockets;
use crate::order::{Order, SmcOption, Whose, told};

/// The RNIC, and the interface that it is on.
const DEVICE: &str = "rxe0";
const INTERFACE: &str = "eth0";
/// Length of the subnet's prefix.
const PREFIX: u8 = 24;
/// What addresses of the peer's further RNICs have more than that of the first: it is one
/// device, which is reached by as many GIDs.
const FURTHER: [u8; 2] = [100, 110];
/// How long a guest without time to spare may take for what is said, the second time.
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
    /// It answers withdrawals by itself: a kernel's.
    courteous: bool,
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

/// Plays scripts, one after the other, and tells of each on a line.
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
        courteous: order.whose == Whose::Kernel,
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
    let rnics = |story: &Story| story.setup.rnics;
    let stories = all.iter().map(|(name, path)| {
        let story = scripts::script(name, path).map_err(told)?;
        Ok((rnics(&story), story.setup.form, name, path))
    });
    let mut stories = stories.collect::<io::Result<Vec<_>>>()?;
    stories.retain(|(_, form, ..)| form.is_ism() || form.is_v2() == order.v2);
    stories.sort_by_key(|(rnics, ..)| *rnics);
    for (_, _, name, path) in stories {
        tell(&Begun { begun: name })?;
        let replay = replay(order, name);
        let outcome = tried(name, path, &abilities, |story, patient| {
            let bench = peer.bench(story)?;
            Ok(match patient {
                true => bench.with_pause(PATIENT),
                false => bench,
            })
        });
        tell(&Line::of(&outcome.replayed_by(replay)))?;
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

fn tell(line: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush()
}

impl Peer {
    fn bench(&self, story: &Story) -> io::Result<Live<RoceDevice, Remote>> {
        let mut calls = &self.calls;
        let wanted = serde_json::to_string(&Wanted::by(&story.setup))?;
        writeln!(calls, "{wanted}")?;
        let nics = self.addresses.map(nic);
        let nics = nics.into_iter().collect::<io::Result<Vec<_>>>()?;
        let marks = self.option.marks()?;
        self.made.set(self.made.get() + 1);
        let sockets = Remote::new(&self.calls)?;
        let live = Live::new(nics, (self.address, PREFIX), sockets)
            .with_mark(Box::new(move |socket| marks.opt_in(socket)))
            .with_farewell(self.v2)
            .with_courtesy(self.courteous && !tells_of_withdrawals(story))
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
    let rnic = RoceDevice::open(DEVICE).map_err(told)?;
    let gid = Gid(address.to_ipv6_mapped().octets());
    let ports = rnic.ports().map_err(told)?;
    let port = ports.first().ok_or(io::ErrorKind::NotFound)?;
    let mut gids = port.gids.iter();
    let entry = gids.find(|entry| entry.kind == GidKind::RoceV2 && entry.gid == gid);
    let entry = entry.ok_or_else(|| told(format!("no GID for {address}")))?;
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
    for (octet, digits) in mac.iter_mut().zip(text.trim().split(':')) {
        *octet = u8::from_str_radix(digits, 16).map_err(told)?;
    }
    Ok(Mac(mac))
}
