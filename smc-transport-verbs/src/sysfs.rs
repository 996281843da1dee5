//! RNICs as the kernel lists them in its file system: without libibverbs, and without any
//! right.

mod attributes;
mod usable;

use std::io;
use std::path::Path;

use smc_proto::wire::types::{Gid, Mtu};

use crate::network::{Interface, Network};
use crate::pnet::PnetId;
use crate::ports::{GidEntry, GidKind, Port};
use attributes::{numbers, text};
pub use usable::{Obstacle, Versions};

/// Where the kernel has its file system.
pub const ROOT: &str = "/sys";

/// An RNIC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Name of the RNIC.
    pub name: String,
    /// What it is to the fabric: `CA` for those that serve.
    pub node: String,
    /// Driver of the RNIC, if the kernel reports one.
    pub driver: Option<String>,
    /// Firmware of the RNIC, if the kernel reports one.
    pub firmware: Option<String>,
    /// The device through which processes use it, below `/dev/infiniband`.
    pub verbs: Option<String>,
    /// Ports of the RNIC, by their numbers.
    pub ports: Vec<ListedPort>,
}

/// A port of an RNIC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedPort {
    /// What connections have to know of it. The MTU is that of its interface, in the
    /// steps that packets of RoCE have.
    pub port: Port,
    /// State of the port in the kernel's words: `ACTIVE`, `DOWN`.
    pub state: String,
    /// Speed of the port in the kernel's words.
    pub rate: Option<String>,
    /// Interface of the port, if it has one.
    pub interface: Option<String>,
}

/// The RNICs below a root, by their names; none if the kernel has no RDMA.
///
/// # Errors
/// The system's, other than that there are none. What cannot be read of a device is left
/// out.
pub fn list(root: &Path, network: &Network) -> io::Result<Vec<Listed>> {
    let class = root.join("class/infiniband");
    let entries = match std::fs::read_dir(&class) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        all.push(device(root, &class.join(&name), name, network));
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

fn device(root: &Path, at: &Path, name: String, network: &Network) -> Listed {
    let ports = numbers(&at.join("ports")).into_iter();
    let ports = ports.filter_map(|number| u8::try_from(number).ok());
    let ports = ports.map(|number| port(at, &name, number, network));
    let driver = std::fs::read_link(at.join("device/driver")).ok();
    let driver = driver.and_then(|to| Some(to.file_name()?.to_string_lossy().into_owned()));
    Listed {
        ports: ports.collect(),
        node: behind_colon(text(at, "node_type").unwrap_or_default()),
        driver,
        firmware: text(at, "fw_ver"),
        verbs: verbs(root, &name),
        name,
    }
}

/// The device of a name for processes.
fn verbs(root: &Path, name: &str) -> Option<String> {
    let entries = std::fs::read_dir(root.join("class/infiniband_verbs")).ok()?;
    let mut entries = entries.flatten();
    let found = entries.find(|at| text(&at.path(), "ibdev").as_deref() == Some(name))?;
    Some(found.file_name().to_string_lossy().into_owned())
}

fn port(device: &Path, name: &str, number: u8, network: &Network) -> ListedPort {
    let at = device.join("ports").join(number.to_string());
    let state = behind_colon(text(&at, "state").unwrap_or_default());
    let gids: Vec<_> = gids(&at, network);
    let named = gids.iter().find_map(|(_, interface)| interface.clone());
    let interface = named.as_ref().and_then(|name| by_name(network, name));
    ListedPort {
        port: Port {
            device: name.to_owned(),
            port: number,
            active: state == "ACTIVE",
            ethernet: text(&at, "link_layer").as_deref() == Some("Ethernet"),
            mtu: interface.map_or(Mtu::M256, |of| mtu(of.mtu)),
            pnet: PnetId::of_hardware(device, usize::from(number.saturating_sub(1))),
            gids: gids.into_iter().map(|(entry, _)| entry).collect(),
        },
        state,
        rate: text(&at, "rate"),
        interface: named,
    }
}

/// GIDs of a port, with the names of their interfaces.
fn gids(port: &Path, network: &Network) -> Vec<(GidEntry, Option<String>)> {
    let mut all = Vec::new();
    for index in numbers(&port.join("gids")) {
        let of = |what: &str| text(&port.join(what), &index.to_string());
        // Places that hold none are zero, or cannot be read.
        let gid = of("gids").and_then(|text| text.parse::<std::net::Ipv6Addr>().ok());
        let Some(gid) = gid.filter(|gid| !gid.is_unspecified()) else {
            continue;
        };
        let kind = match of("gid_attrs/types").as_deref() {
            Some("IB/RoCE v1") => GidKind::RoceV1,
            Some("RoCE v2") => GidKind::RoceV2,
            _ => continue,
        };
        let interface = of("gid_attrs/ndevs");
        let known = interface.as_ref().and_then(|name| by_name(network, name));
        let entry = GidEntry {
            index,
            gid: Gid(gid.octets()),
            kind,
            interface: known.map_or(0, |of| of.index),
        };
        all.push((entry, interface));
    }
    all
}

fn by_name<'a>(network: &'a Network, name: &str) -> Option<&'a Interface> {
    network.interfaces.iter().find(|of| of.name == name)
}

/// `4: ACTIVE` without its number.
fn behind_colon(text: String) -> String {
    match text.split_once(": ") {
        Some((_, words)) => words.to_owned(),
        None => text,
    }
}

/// What is left of packets of an interface: headers and checksums take up to 96 bytes.
fn mtu(of_interface: u32) -> Mtu {
    match of_interface.saturating_sub(96) {
        4096.. => Mtu::M4096,
        2048.. => Mtu::M2048,
        1024.. => Mtu::M1024,
        512.. => Mtu::M512,
        _ => Mtu::M256,
    }
}

#[cfg(test)]
mod tests;
