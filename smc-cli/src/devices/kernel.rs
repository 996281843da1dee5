//! Devices of the kernel's own SMC, by its family of generic netlink.

use std::io::{self, Write};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice};
use serde_json::{Value, json};

use super::table::{kind, yes};
use crate::links::kernel::FAMILY;
use crate::netlink::{Refusal, attributes, list, read_until_unchanged, text, u16_at, u32_at};

/// `SMC_NETLINK_GET_DEV_SMCD` and `SMC_NETLINK_GET_DEV_SMCR`.
const DEVICES: [u8; 2] = [5, 6];
/// What a message is about: `SMC_GEN_DEV_SMCD`, `SMC_GEN_DEV_SMCR`.
const SMCD: u16 = 5;
const SMCR: u16 = 6;

/// Most devices that are listed.
const MOST: usize = 1 << 12;

/// A device of the kernel's SMC.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// An RNIC, and no ISM device.
    pub is_rdma: bool,
    /// Link groups of an ISM device.
    pub groups: u32,
    /// A link group would end with the device.
    pub critical: bool,
    /// Number of the device in the machine.
    pub fid: u32,
    /// Channel of the device.
    pub channel: u16,
    /// Model of the device, as the bus has it.
    pub model: u16,
    /// Place of the device on the bus.
    pub address: String,
    /// Name of an RNIC.
    pub name: String,
    /// Ports of the device that there are, with their numbers.
    pub ports: Vec<(u8, Port)>,
}

/// A port of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Port {
    /// An administrator has set the PNET ID.
    pub is_by_user: bool,
    /// PNET ID; empty if it has none.
    pub pnet: String,
    /// Index of the network interface.
    pub interface: u32,
    /// Name of the network interface.
    pub interface_name: String,
    /// The port can be used.
    pub is_active: bool,
    /// Links over the port.
    pub links: u32,
}

/// The devices, and why they are not all: mostly that the kernel has no SMC.
pub(super) fn devices() -> (Vec<Device>, Result<(), Refusal>) {
    let (mut devices, outcome) = read_until_unchanged(|| {
        let mut devices = Vec::new();
        let mut lists = DEVICES
            .into_iter()
            .map(|command| list(FAMILY, command, |message| parse(message, &mut devices)));
        let outcome = lists.try_for_each(|listed| listed);
        (devices, outcome)
    });
    name_interfaces(&mut devices);
    (devices, outcome)
}

/// Sets the names of interfaces.
fn name_interfaces(devices: &mut [Device]) {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None);
    let Ok(socket) = socket else {
        return;
    };
    for (_, port) in devices.iter_mut().flat_map(|device| &mut device.ports) {
        let name = netdevice::index_to_name(&socket, port.interface);
        let name = name.unwrap_or_default();
        // The administrator of the network may choose any bytes but blanks.
        port.interface_name = smc_view::printable(name.as_bytes());
    }
}

/// Adds the device that a message is about.
pub fn parse(message: &[u8], devices: &mut Vec<Device>) {
    for (kind, value) in attributes(message) {
        if matches!(kind, SMCD | SMCR) && devices.len() < MOST {
            devices.push(device(value, kind == SMCR));
        }
    }
}

fn device(value: &[u8], is_rdma: bool) -> Device {
    let mut device = Device {
        is_rdma,
        ..Device::default()
    };
    for (kind, value) in attributes(value) {
        match kind {
            1 => device.groups = u32_at(value, 0).unwrap_or(0),
            2 => device.critical = value.first().is_some_and(|byte| *byte != 0),
            3 => device.fid = u32_at(value, 0).unwrap_or(0),
            4 => device.channel = u16_at(value, 0).unwrap_or(0),
            6 => device.model = u16_at(value, 0).unwrap_or(0),
            7 => device.address = text(value),
            8 | 9 => device
                .ports
                .extend(port(value).map(|port| ((kind - 7) as u8, port))),
            10 => device.name = text(value),
            _ => {}
        }
    }
    device.ports.truncate(2);
    device
}

/// A port; `None` if the kernel says that there is none.
fn port(value: &[u8]) -> Option<Port> {
    let mut port = Port::default();
    let mut is_there = true;
    for (kind, value) in attributes(value) {
        let byte = value.first().copied().unwrap_or(0);
        match kind {
            1 => port.is_by_user = byte != 0,
            2 => port.pnet = text(value).trim_end().to_owned(),
            3 => port.interface = u32_at(value, 0).unwrap_or(0),
            4 => port.is_active = byte == 1,
            5 => is_there = byte != 0,
            6 => port.links = u32_at(value, 0).unwrap_or(0),
            _ => {}
        }
    }
    is_there.then_some(port)
}

impl Port {
    fn pnet(&self) -> String {
        let mark = if self.is_by_user { "*" } else { "" };
        format!("{mark}{}", self.pnet)
    }

    const fn state(&self) -> &'static str {
        match self.is_active {
            true => "ACTIVE",
            false => "INACTIVE",
        }
    }
}

/// Writes both tables, in the columns of those of programs, without those that are empty.
///
/// # Errors
/// The output cannot be written.
pub fn write(devices: &[Device], out: &mut dyn Write) -> io::Result<()> {
    let of = |is_rdma| devices.iter().filter(move |at| at.is_rdma == is_rdma);
    if of(true).next().is_some() {
        writeln!(out, "\nSMC-R devices of the kernel's SMC")?;
        writeln!(out, "{}", super::table::SMCR)?;
    }
    for device in of(true) {
        for (number, port) in &device.ports {
            writeln!(
                out,
                "{:<15} {:<8} {number:>4}  {:>8}  {:<13}  {:>3}   {:04x}  {:<12}  {:04x}    {:>5}  {}",
                port.interface_name,
                device.name,
                port.state(),
                kind(device.model.into()),
                yes(device.critical),
                device.fid,
                device.address,
                device.channel,
                port.links,
                port.pnet(),
            )?;
        }
    }
    if of(false).next().is_some() {
        writeln!(out, "\nSMC-D devices of the kernel's SMC")?;
        writeln!(out, "{}", super::table::SMCD)?;
    }
    for device in of(false) {
        let pnet = device.ports.first().map(|(_, port)| port.pnet());
        writeln!(
            out,
            "{:04x} {:<4}  {:<12}  {:04x}   {:<4}  {:>5}  {}",
            device.fid,
            "ISM",
            device.address,
            device.channel,
            yes(device.groups > 0),
            device.groups,
            pnet.unwrap_or_default(),
        )?;
    }
    Ok(())
}

/// Both tables as one object.
#[must_use]
pub fn object(devices: &[Device]) -> Value {
    let of = |is_rdma| devices.iter().filter(move |at| at.is_rdma == is_rdma);
    let ports = of(true).flat_map(|device| {
        device.ports.iter().map(|(number, port)| {
            json!({
                "interface": port.interface_name,
                "device": device.name,
                "port": number,
                "state": port.state(),
                "type": kind(device.model.into()),
                "critical": device.critical,
                "fid": device.fid,
                "pci_id": device.address,
                "pchid": device.channel,
                "links": port.links,
                "pnet_id": port.pnet,
                "pnet_id_by_user": port.is_by_user,
            })
        })
    });
    let smcd = of(false).map(|device| {
        let port = device.ports.first().map(|(_, port)| port);
        json!({
            "type": "ISM",
            "critical": device.critical,
            "fid": device.fid,
            "pci_id": device.address,
            "pchid": device.channel,
            "groups": device.groups,
            "pnet_id": port.map(|port| &port.pnet),
        })
    });
    json!({"smcr": ports.collect::<Vec<_>>(), "smcd": smcd.collect::<Vec<_>>()})
}
