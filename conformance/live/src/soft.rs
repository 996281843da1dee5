//! RNICs in software below our own stack.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;

use conformance::scripts::{Act, Form, ParsedScript, RnicAct, Step};
use smc_proto::completion::LinkFailure;
use smc_proto::wire::types::{Gid, Mac, Mtu};
use smc_sockets::{Rnics, Stack};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::ports::{GidEntry, GidKind, Port};
use smc_transport_verbs::rnic::DeviceEvent;
use smc_transport_verbs::soft::{Fabric, SoftRnic};

use crate::sockets::Sockets;
use crate::stack::{Below, OurSockets};
use crate::wanted::Wanted;
use crate::wire::{Live, Nic};

/// The address of either end.
const ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Hosts of RNICs, as their GIDs show.
const ENGINE: u8 = 1;
const PEER: u8 = 2;
/// RNICs of the peer.
const PEERS: u8 = 3;

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
fn last_rnic(script: &ParsedScript) -> u8 {
    let up = |step: &Step| match step.act {
        Act::Rnic(RnicAct::Up(number)) => number,
        _ => 0,
    };
    script.steps.iter().map(up).max().unwrap_or(0)
}

/// The fabric, in which the engine's RNICs are the first.
struct Soft(Fabric);

impl Below for Soft {
    fn act(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), String> {
        let at = |number: u8| usize::from(number).saturating_sub(1);
        match act {
            RnicAct::Up(number) => self.0.set_carrier(at(*number), true),
            RnicAct::Down(number) => self.0.set_carrier(at(*number), false),
            RnicAct::Removed(number) => self.0.report(at(*number), DeviceEvent::Removed),
            RnicAct::Breaks(_, cause) => {
                let (cause, qpn) = failure(cause).zip(qpn).ok_or("no such link")?;
                self.0.break_queue_pair(qpn, cause);
            }
            _ => return Err(format!("RNICs in software do no {act:?}")),
        }
        Ok(())
    }

    fn left(&mut self) -> (usize, usize) {
        self.0.usage()
    }
}

impl OurSockets {
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
    pub fn live(script: &ParsedScript) -> io::Result<Live<SoftRnic, Self>> {
        Self::live_by(script, Ok)
    }

    /// Builds the bench, with sockets that are reached by something else.
    ///
    /// # Errors
    /// The operating system's.
    pub fn live_by<S: Sockets>(
        script: &ParsedScript,
        by: impl FnOnce(Self) -> io::Result<S>,
    ) -> io::Result<Live<SoftRnic, S>> {
        let setup = &script.setup;
        let fabric = Fabric::default();
        let wanted = Wanted::by(setup);
        let settings = Self::settings(&wanted)?;
        let active = wanted.rnics;
        let rnic = |host, number| {
            let mut port = port(host, number, setup.form)?;
            // Those behind get their carrier later.
            port.active = host == PEER || number <= active;
            io::Result::Ok((fabric.rnic_with(64, vec![port.clone()]), port))
        };
        let all = active.max(last_rnic(script));
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
        let below = Box::new(Soft(fabric.clone()));
        let sockets = Self::of(stack, ADDRESS, below);
        let gids = ports.iter().flat_map(|port| &port.gids);
        // Loopback, which they use, has no MAC.
        let ports: Vec<_> = gids.map(|of| (of.gid, Mac::default())).collect();
        Ok(Live::new(nics, (ADDRESS, 8), by(sockets)?).with_engine_ports(ports))
    }
}
