//! Octets over a real RNIC, or one made by `rdma link add rxe0 type rxe netdev INTERFACE`:
//!
//! ```text
//! roce --devices                       what there is
//! roce --loopback ADDRESS              two ends in this process, joined by the RNIC
//! roce --listen ADDRESS:PORT           one end, which sends back what it gets
//! roce --connect ADDRESS:PORT          the other end
//!   --mib N       octets to send (4)          --times N   transfers one after another (1)
//!   --v1          SMC-R version 1, also on RoCEv2 GIDs as in a lab
//!   --rnic NAME   only this RNIC (may be given several times)
//!   --eid NAME    user EID (ROCE-EXAMPLE)     --no-inline   as RNICs that cannot do it
//!   --trace       each completion and message
//! ```
//!
//! CLC messages go over a TCP connection between the addresses given. Both ends take it
//! for granted that the other one speaks SMC: the TCP option is not looked at.

mod host;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use host::{FindPaths, Host};
use smc_proto::config::{Config, Offers};
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ConnOptions, Proposed};
use smc_proto::event::CloseReason;
use smc_proto::id::DeviceId;
use smc_proto::path::LocalPath;
use smc_proto::wire::types::{Eid, Mac, PeerId};
use smc_transport_verbs::binding::Binding;
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::{KernelRoutes, Surroundings};
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::rdma::{self, RoceDevice};

#[derive(Clone)]
struct Options {
    mode: Mode,
    mib: usize,
    times: usize,
    v1: bool,
    rnics: Vec<String>,
    eid: String,
    inline: bool,
    trace: bool,
}

#[derive(Clone, Copy)]
enum Mode {
    Devices,
    Loopback(IpAddr),
    Listen(SocketAddr),
    Connect(SocketAddr),
}

fn other(what: impl ToString) -> io::Error {
    io::Error::other(what.to_string())
}

fn main() {
    let done = options().and_then(|options| run(&options));
    if let Err(error) = done {
        eprintln!("roce: {error}");
        std::process::exit(1);
    }
}

fn options() -> io::Result<Options> {
    let mut options = Options {
        mode: Mode::Devices,
        mib: 4,
        times: 1,
        v1: false,
        rnics: Vec::new(),
        eid: "ROCE-EXAMPLE".to_owned(),
        inline: true,
        trace: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| other("a value is missing"));
        match argument.as_str() {
            "--devices" => options.mode = Mode::Devices,
            "--loopback" => options.mode = Mode::Loopback(value()?.parse().map_err(other)?),
            "--listen" => options.mode = Mode::Listen(value()?.parse().map_err(other)?),
            "--connect" => options.mode = Mode::Connect(value()?.parse().map_err(other)?),
            "--mib" => options.mib = value()?.parse().map_err(other)?,
            "--times" => options.times = value()?.parse().map_err(other)?,
            "--v1" => options.v1 = true,
            "--rnic" => options.rnics.push(value()?),
            "--eid" => options.eid = value()?,
            "--trace" => options.trace = true,
            "--no-inline" => options.inline = false,
            other_one => return Err(other(format!("what is {other_one}?"))),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> io::Result<()> {
    match options.mode {
        Mode::Devices => devices(),
        Mode::Loopback(address) => {
            let listener = TcpListener::bind((address, 0))?;
            let at = listener.local_addr()?;
            std::thread::scope(|scope| {
                let server = scope.spawn(|| serve(options, &listener));
                let client = client(options, at);
                client.and(server.join().map_err(|_| other("the server panicked"))?)
            })
        }
        Mode::Listen(at) => serve(options, &TcpListener::bind(at)?),
        Mode::Connect(at) => client(options, at),
    }
}

fn devices() -> io::Result<()> {
    let network = Network::read()?;
    for port in rdma::ports().map_err(other)? {
        let state = if port.active { "active" } else { "down" };
        let kind = if port.ethernet { "" } else { ", not Ethernet" };
        println!(
            "{} port {}: {state}, MTU {}{kind}",
            port.device, port.port, port.mtu
        );
        for gid in &port.gids {
            let interface = network.interface(gid.interface);
            let (name, mac) = interface.map_or(("?", Mac::default()), |of| (&of.name, of.mac));
            println!("  {:3} {} {} {name} {mac}", gid.index, gid.gid, gid.kind);
        }
    }
    Ok(())
}

fn serve(options: &Options, listener: &TcpListener) -> io::Result<()> {
    for time in 0..options.times {
        let (tcp, _) = listener.accept()?;
        let mut host = host(options, tcp, false, time)?;
        host.establish()?;
        let (octets, reason) = echo(&mut host)?;
        eprintln!("server: {octets} octets sent back; {reason}");
    }
    Ok(())
}

fn client(options: &Options, at: SocketAddr) -> io::Result<()> {
    for time in 0..options.times {
        let mut host = host(options, TcpStream::connect(at)?, true, time)?;
        host.establish()?;
        let begun = Instant::now();
        let octets = options.mib << 20;
        let reason = exchange(&mut host, octets)?;
        let rate = octets as f64 / begun.elapsed().as_secs_f64() / f64::from(1 << 20);
        println!("client: {octets} octets there and back as sent, {rate:.1} MiB/s; {reason}");
    }
    Ok(())
}

/// Where one end looks for paths.
struct Finder {
    surroundings: std::cell::RefCell<Surroundings>,
    local: IpAddr,
    peer: IpAddr,
}

impl FindPaths for Finder {
    fn paths(&self, proposed: Option<Proposed>) -> Vec<LocalPath> {
        let mut surroundings = self.surroundings.borrow_mut();
        match proposed {
            None => surroundings.client(self.local, self.peer, &KernelRoutes),
            Some(proposed) => surroundings.server(self.local, &proposed, &KernelRoutes),
        }
    }

    fn ports(&self) -> Vec<LocalPath> {
        let mut surroundings = self.surroundings.borrow_mut();
        let all = surroundings.ports().iter();
        let all: Vec<_> = all.map(|(device, port)| (*device, port.port)).collect();
        let paths = all
            .into_iter()
            .flat_map(|(device, port)| surroundings.port(device, port));
        paths.collect()
    }

    fn port(&self, device: DeviceId, port: u8) -> Vec<LocalPath> {
        let mut surroundings = self.surroundings.borrow_mut();
        if let Ok(network) = Network::read() {
            surroundings.set_network(network);
        }
        // It is listed anew: its GIDs and its state may be others now.
        let name = surroundings.ports().iter().find(|(of, _)| *of == device);
        let name = name.map(|(_, port)| port.device.clone());
        let listed = name.map(|name| RoceDevice::open(&name)?.ports());
        // One that cannot be listed is gone.
        let ports = listed.and_then(Result::ok).unwrap_or_default();
        surroundings.set_ports(device, ports);
        surroundings.port(device, port)
    }
}

fn host(
    options: &Options,
    tcp: TcpStream,
    is_client: bool,
    time: usize,
) -> io::Result<Host<Finder>> {
    let (local, peer) = (tcp.local_addr()?.ip(), tcp.peer_addr()?.ip());
    let surroundings = Surroundings::new(Network::read()?, PnetTable::default());
    let mut surroundings = surroundings.with_v1_on_rocev2(options.v1);
    let mut binding = Binding::new()?;
    if !options.inline {
        binding = binding.without_inline();
    }
    let mut names = rdma::device_names().map_err(other)?;
    names.retain(|name| options.rnics.is_empty() || options.rnics.contains(name));
    for (device, name) in (0..).map(DeviceId).zip(&names) {
        let rnic = RoceDevice::open(name).map_err(other)?;
        surroundings.set_ports(device, rnic.ports().map_err(other)?);
        binding.add(device, rnic)?;
    }
    let holder = surroundings.network().holder(local);
    let mac = holder.map_or(Mac::default(), |of| of.mac);
    let instance = (std::process::id() as u16).wrapping_mul(2) + u16::from(is_client);
    let mut config = Config::new(PeerId::new(instance.wrapping_add((time << 8) as u16), mac));
    config.offers = match options.v1 {
        true => Offers::SMCR_V1,
        false => Offers::SMCR_V2,
    };
    let eid = Eid::user(&options.eid).map_err(|error| other(format!("{error:?}")))?;
    // There is room for four.
    let _ = config.v2.ueids.push(eid);
    let subnets = surroundings.subnets(local).unwrap_or_default();
    let mut of = ConnOptions::new(subnets);
    of.vlan = surroundings.vlan(local);
    of.ipv4 = local.to_canonical().is_ipv4();
    let surroundings = std::cell::RefCell::new(surroundings);
    let finder = Finder {
        surroundings,
        local,
        peer,
    };
    let mut host = Host::new(config, binding, finder, tcp, of, is_client)?;
    host.traced = options.trace;
    Ok(host)
}

/// What stands at a place of the stream: never the same for long.
fn pattern(at: usize) -> u8 {
    let mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 37) as u8
}

/// Sends octets and compares what comes back with them.
fn exchange(host: &mut Host<Finder>, total: usize) -> io::Result<CloseReason> {
    let (mut written, mut read, mut ended) = (0, 0, false);
    let mut out = vec![0; 64 << 10];
    let mut back = vec![0; 64 << 10];
    host.until(|host| {
        loop {
            let mut any = false;
            let len = out.len().min(total - written);
            for (at, octet) in out[..len].iter_mut().enumerate() {
                *octet = pattern(written + at);
            }
            if len > 0 {
                let now = host.write(&out[..len])?;
                written += now;
                any |= now > 0;
            }
            if written == total && !std::mem::replace(&mut ended, true) {
                host.shutdown(Shutdown::Write);
            }
            match host.read(&mut back)? {
                Some(len) => {
                    let good = (read..)
                        .zip(&back[..len])
                        .all(|(at, octet)| pattern(at) == *octet);
                    if !good {
                        return Err(other(format!("other octets came back behind {read}")));
                    }
                    read += len;
                    any |= len > 0;
                }
                None if read == total => return Ok(Some(())),
                None => return Err(other(format!("{read} of {total} octets came back"))),
            }
            if !any {
                return Ok(None);
            }
        }
    })?;
    host.close()
}

/// Sends back what comes.
fn echo(host: &mut Host<Finder>) -> io::Result<(usize, CloseReason)> {
    let mut octets = vec![0; 64 << 10];
    let (mut from, mut to, mut total) = (0, 0, 0);
    host.until(|host| {
        loop {
            if from == to {
                (from, to) = (0, 0);
                match host.read(&mut octets)? {
                    Some(0) => return Ok(None),
                    Some(len) => to = len,
                    None => return Ok(Some(())),
                }
                total += to;
            }
            let now = host.write(&octets[from..to])?;
            if now == 0 {
                return Ok(None);
            }
            from += now;
        }
    })?;
    let reason = host.close()?;
    Ok((total, reason))
}
