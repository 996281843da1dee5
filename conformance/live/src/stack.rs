//! Our own stack, as it is, over RNICs in software.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::time::Duration;

use conformance::scripts::{Act, Form, RnicAct, Seen, Setting, Step, Story, Value};
use smc_proto::completion::LinkFailure;
use smc_proto::wire::types::{Eid, Gid, Mac, Mtu};
use smc_sockets::{Carrier, Connecting, Rnics, Settings, SmcListener, SmcStream, Stack};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::ports::{GidEntry, GidKind, Port};
use smc_transport_verbs::rnic::DeviceEvent;
use smc_transport_verbs::soft::{Fabric, SoftRnic};

use crate::sockets::{Ending, Sockets};
use crate::wire::{Live, Nic};

/// The address of either end.
const ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// How long the end of everything may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Hosts of RNICs, as their GIDs tell.
const ENGINE: u8 = 1;
const PEER: u8 = 2;
/// RNICs of the peer.
const PEERS: u8 = 3;

/// Sockets of a stack of our own.
pub struct OurSockets {
    stack: Option<Stack>,
    listener: Option<SmcListener>,
    coming: BTreeMap<SocketAddr, u8>,
    apps: BTreeMap<u8, App>,
    /// Urgent octets that were taken, and how many others stand before them.
    taken: BTreeMap<u8, (usize, u8)>,
    fabric: Fabric,
}

/// An application's connection.
enum App {
    Coming,
    Connecting(Box<Connecting>),
    Open(SmcStream),
    /// It was not to be.
    Failed,
    Closed,
}

fn port(host: u8, number: u8, form: Form) -> io::Result<Port> {
    let network = Network::read()?;
    let loopback = network.holder(ADDRESS.into());
    let loopback = loopback.ok_or(ErrorKind::AddrNotAvailable)?;
    let address = Ipv4Addr::new(127, 0, host, number);
    let kind = if form.is_v2() {
        GidKind::RoceV2
    } else {
        GidKind::RoceV1
    };
    Ok(Port {
        device: format!("soft{number}"),
        port: 1,
        active: true,
        ethernet: true,
        mtu: Mtu::M1024,
        pnet: None,
        gids: vec![GidEntry {
            index: 0,
            gid: Gid(address.to_ipv6_mapped().octets()),
            kind,
            interface: loopback.index,
        }],
    })
}

/// Why a link breaks.
fn failure(cause: &str) -> Option<LinkFailure> {
    Some(match cause {
        "retries" => LinkFailure::RetriesExhausted,
        "rnr" => LinkFailure::ReceiverNotReady,
        "other" => LinkFailure::Other,
        _ => return None,
    })
}

/// The last RNIC that gets its carrier in a script.
fn last_rnic(story: &Story) -> u8 {
    let up = |step: &Step| match step.act {
        Act::Rnic(RnicAct::Up(number)) => number,
        _ => 0,
    };
    story.steps.iter().map(up).max().unwrap_or(0)
}

impl OurSockets {
    /// Whether a stack can be set up like this.
    #[must_use]
    pub fn takes(setting: &Setting) -> bool {
        matches!(setting.name.as_str(), "receive_buffer" | "ports" | "eid")
    }

    /// Whether RNICs in software can be made to do this.
    #[must_use]
    pub fn can(act: &RnicAct) -> bool {
        match act {
            RnicAct::Up(_) | RnicAct::Down(_) | RnicAct::Removed(_) => true,
            RnicAct::Breaks(_, cause) => failure(cause).is_some(),
            RnicAct::Refuse(..)
            | RnicAct::Hold(_)
            | RnicAct::Release
            | RnicAct::RefuseHeld
            | RnicAct::EyeCatcher(_) => false,
        }
    }

    /// The peer, and a stack as a script wants it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn live(story: &Story) -> io::Result<Live<SoftRnic, Self>> {
        let setup = &story.setup;
        let fabric = Fabric::default();
        let mut settings = Settings::default();
        settings.buffer = 64 << 10;
        let (mut rnics, mut eids) = (setup.rnics, vec!["COMMON"]);
        for Setting { name, value, .. } in &setup.settings {
            match (name.as_str(), value) {
                ("receive_buffer", Value::Number(octets, _)) => settings.buffer = *octets as u32,
                ("ports", Value::Number(count, _)) => rnics = rnics.min(*count as u8),
                ("eid", Value::Text(eid)) => eids.push(eid),
                _ => {}
            }
        }
        for eid in eids {
            let eid = Eid::user(eid).map_err(io::Error::other)?;
            settings.policy.ueids.push(eid);
        }
        let active = rnics;
        let rnic = |host, number| {
            let mut port = port(host, number, setup.form)?;
            // Those behind get their carrier later.
            port.active = host == PEER || number <= active;
            io::Result::Ok((fabric.rnic_with(64, vec![port.clone()]), port))
        };
        let all = rnics.max(last_rnic(story));
        let engines = (1..=all).map(|number| rnic(ENGINE, number));
        let (engines, ports): (Vec<_>, Vec<_>) =
            engines.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let surroundings = Surroundings::new(Network::read()?, PnetTable::default());
        let rnics = Rnics::new(engines, surroundings)?.assuming_smc().alone();
        let rnics = if setup.form.is_v2() {
            rnics
        } else {
            rnics.in_version_1()
        };
        let stack = Stack::with_rnics(settings, rnics)?;
        let nic = |number| {
            let (rnic, port) = rnic(PEER, number)?;
            Ok(Nic {
                rnic,
                port: 1,
                gid_index: 0,
                gid: port.gids.first().map_or(Gid::default(), |of| of.gid),
                mac: Mac([2, 0, 0, 0, PEER, number]),
            })
        };
        let nics = (1..=PEERS).map(nic).collect::<io::Result<Vec<_>>>()?;
        let sockets = Self {
            stack: Some(stack),
            listener: None,
            coming: BTreeMap::new(),
            apps: BTreeMap::new(),
            taken: BTreeMap::new(),
            fabric: fabric.clone(),
        };
        let gids = ports.iter().flat_map(|port| &port.gids);
        // Loopback, which they stand on, has no MAC.
        let ports: Vec<_> = gids.map(|of| (of.gid, Mac::default())).collect();
        Ok(Live::new(nics, (ADDRESS, 8), sockets)?.with_engine_ports(ports))
    }

    fn stack(&self) -> io::Result<&Stack> {
        self.stack.as_ref().ok_or(ErrorKind::NotConnected.into())
    }

    fn open(&mut self, conn: u8) -> io::Result<&mut SmcStream> {
        match self.apps.get_mut(&conn) {
            Some(App::Open(stream)) => Ok(stream),
            _ => Err(io::Error::other("the application has no stream")),
        }
    }

    fn opened(&mut self, conn: u8, stream: SmcStream) -> Option<(u8, Seen)> {
        let seen = match stream.carrier() {
            Carrier::Smc(_) => Seen::Established,
            Carrier::Tcp(why) => {
                let reason = why.reason();
                Seen::FellBack(reason.code.0, reason.peer_diagnosis.map(|code| code.0))
            }
            _ => Seen::Closed("carried by something else".to_owned()),
        };
        let known = stream.set_nonblocking(true);
        self.apps.insert(conn, App::Open(stream));
        known.ok().map(|()| (conn, seen))
    }

    fn accepted(&mut self) -> Option<(u8, Seen)> {
        let (stream, from) = self.listener.as_ref()?.accept().ok()?;
        let conn = self.coming.remove(&from)?;
        self.opened(conn, stream)
    }
}

impl Sockets for OurSockets {
    fn listens(&mut self) -> io::Result<SocketAddr> {
        if self.listener.is_none() {
            let listener = SmcListener::on(self.stack()?, TcpListener::bind((ADDRESS, 0))?)?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener);
        }
        let listener = self.listener.as_ref();
        listener.ok_or(ErrorKind::NotConnected)?.local_addr()
    }

    fn comes(&mut self, conn: u8, from: SocketAddr) {
        self.coming.insert(from, conn);
        self.apps.insert(conn, App::Coming);
    }

    fn connect(&mut self, conn: u8, to: SocketAddr) -> io::Result<()> {
        let connecting = SmcStream::begin_connect(self.stack()?, to)?;
        self.apps
            .insert(conn, App::Connecting(Box::new(connecting)));
        Ok(())
    }

    fn step(&mut self) -> Option<(u8, Seen)> {
        let mut finished = None;
        for (conn, app) in &mut self.apps {
            let App::Connecting(connecting) = app else {
                continue;
            };
            match connecting.finish() {
                Ok(stream) => {
                    finished = Some((*conn, stream));
                    break;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => *app = App::Failed,
            }
        }
        match finished {
            Some((conn, stream)) => self.opened(conn, stream),
            None => self.accepted(),
        }
    }

    fn write(&mut self, conn: u8, octets: &[u8], urgent: bool) -> io::Result<()> {
        let stream = self.open(conn)?;
        let written = if urgent {
            stream.send_urgent(octets)?
        } else {
            stream.write(octets)?
        };
        if written == octets.len() {
            return Ok(());
        }
        let what = format!("{written} of {} octets were taken", octets.len());
        Err(io::Error::other(what))
    }

    fn read(&mut self, conn: u8, count: usize) -> io::Result<Vec<u8>> {
        let readable = self.readable(conn);
        // Sockets do not read an urgent octet twice.
        let taken = self.taken.get(&conn).copied();
        let taken = taken.filter(|(before, _)| *before < count);
        let asked = count - usize::from(taken.is_some());
        if readable < asked {
            let what = format!("{readable} octets can be read");
            return Err(io::Error::other(what));
        }
        let mut octets = vec![0; asked];
        let stream = self.open(conn)?;
        // They stop before its place.
        let before = taken.map_or(asked, |(before, _)| before);
        let (front, behind) = octets.split_at_mut(before);
        stream.read_exact(front)?;
        stream.read_exact(behind)?;
        if let Some((before, octet)) = taken {
            octets.insert(before, octet);
            self.taken.remove(&conn);
        }
        Ok(octets)
    }

    fn readable(&mut self, conn: u8) -> usize {
        let mut octets = vec![0; 1 << 20];
        let stream = self.open(conn);
        stream
            .and_then(|stream| stream.peek(&mut octets))
            .unwrap_or(0)
    }

    fn ended(&mut self, conn: u8) -> bool {
        let stream = self.open(conn);
        matches!(stream.map(|stream| stream.peek(&mut [0])), Ok(Ok(0)))
    }

    fn urgent(&mut self, conn: u8) -> Option<u8> {
        let before = self.readable(conn);
        let octet = self.open(conn).ok()?.receive_urgent().ok()?;
        self.taken.insert(conn, (before, octet));
        Some(octet)
    }

    fn plain(&mut self, conn: u8) -> Vec<u8> {
        let mut octets = vec![0; 65_536];
        let stream = self.open(conn);
        let length = stream.and_then(|stream| stream.read(&mut octets));
        octets.truncate(length.unwrap_or(0));
        octets
    }

    fn end(&mut self, conn: u8, how: Ending) -> io::Result<()> {
        match how {
            Ending::Write => self.open(conn)?.shutdown(Shutdown::Write)?,
            Ending::Read => self.open(conn)?.shutdown(Shutdown::Read)?,
            Ending::Abort => {
                if let Ok(stream) = self.open(conn) {
                    stream.set_linger(Some(Duration::ZERO))?;
                }
            }
            Ending::Close => {}
        }
        if matches!(how, Ending::Close | Ending::Abort) {
            self.apps.insert(conn, App::Closed);
        }
        Ok(())
    }

    fn has_ended(&mut self, conn: u8, in_order: bool) -> bool {
        match self.apps.get_mut(&conn) {
            // A server's application has never heard of it.
            None | Some(App::Coming | App::Closed | App::Failed) => true,
            Some(App::Connecting(_)) => false,
            Some(App::Open(stream)) => match stream.peek(&mut [0]) {
                Ok(0) => true,
                Ok(_) => false,
                Err(error) => !in_order && error.kind() != ErrorKind::WouldBlock,
            },
        }
    }

    fn rnic(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), String> {
        // The engine's RNICs are the first of the fabric.
        let at = |number: u8| usize::from(number).saturating_sub(1);
        match act {
            RnicAct::Up(number) => self.fabric.set_carrier(at(*number), true),
            RnicAct::Down(number) => self.fabric.set_carrier(at(*number), false),
            RnicAct::Removed(number) => self.fabric.tell(at(*number), DeviceEvent::Removed),
            RnicAct::Breaks(_, cause) => {
                let (cause, qpn) = failure(cause).zip(qpn).ok_or("no such link")?;
                self.fabric.break_queue_pair(qpn, cause);
            }
            _ => return Err(format!("RNICs in software do no {act:?}")),
        }
        Ok(())
    }

    fn run_out(&mut self) -> Result<(), String> {
        self.apps.clear();
        self.listener = None;
        let ended = self.stack.take().is_none_or(|stack| stack.end(PATIENCE));
        let left = self.fabric.usage();
        match (ended, left) {
            (true, (0, 0)) => Ok(()),
            (ended, (regions, pairs)) => Err(format!(
                "{regions} regions and {pairs} queue pairs are left; whether the stack ended: {ended}"
            )),
        }
    }
}
