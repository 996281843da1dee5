//! Devices as `smcr device` and `smcd device` of smc-tools 1.8.5 show them with -d.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use smc_view::{Name, Technology};

use super::facts::{Devices, IsmFunction, PortFacts, Rnic};
use crate::links::group::Group;

/// The columns of both tables.
pub(super) const SMCR: &str = "Net-Dev         IB-Dev   IB-P  IB-State  Type          Crit   FID   \
                               PCI-ID        PCHID  #Links  PNET-ID";
pub(super) const SMCD: &str = "FID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID";

/// A port of an RNIC.
#[derive(Debug)]
struct Port<'a> {
    device: &'a str,
    port: &'a PortFacts,
    bus: Bus,
    links: usize,
    critical: bool,
}

/// A device on the bus; zeros and empty where it is not on one.
#[derive(Clone, Debug, Default)]
struct Bus {
    address: String,
    device: u32,
    function: u32,
    channel: u32,
}

/// Writes both tables: RNICs by ports, and what carries SMC-D.
pub(super) fn write(
    devices: &Devices,
    root: &Path,
    groups: &[Group],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "SMC-R devices")?;
    writeln!(out, "{SMCR}")?;
    for at in ports(devices, root, groups) {
        writeln!(
            out,
            "{:<15} {:<8} {:>4}  {:>8}  {:<13}  {:>3}   {:04x}  {:<12}  {:04x}    {:>5}  {}",
            at.port.interface.as_deref().unwrap_or_default(),
            at.device,
            at.port.port,
            state(at.port),
            kind(at.bus.device),
            yes(at.critical),
            at.bus.function,
            at.bus.address,
            at.bus.channel,
            at.links,
            pnet(at.port),
        )?;
    }
    writeln!(out, "\nSMC-D devices")?;
    writeln!(out, "{SMCD}")?;
    let shared = groups.iter();
    let shared = shared.filter(|at| at.record.technology == Technology::SmcD);
    let shared = shared.count();
    writeln!(
        out,
        "{:04x} {:<4}  {:<12}  {:04x}   {:<4}  {shared:>5}  ",
        0,
        "shm",
        "",
        u16::MAX,
        yes(shared > 0)
    )?;
    for at in &devices.ism {
        let bus = function(at, root);
        writeln!(
            out,
            "{:04x} {:<4}  {:<12}  {:04x}   {:<4}  {:>5}  {}",
            bus.function,
            "ISM",
            bus.address,
            bus.channel,
            "No",
            0,
            at.pnet_id.as_deref().unwrap_or_default()
        )?;
    }
    Ok(())
}

/// Both tables as one object.
pub(super) fn object(devices: &Devices, root: &Path, groups: &[Group]) -> Value {
    let smcr = ports(devices, root, groups).into_iter().map(|at| {
        json!({
            "interface": at.port.interface,
            "device": at.device,
            "port": at.port.port,
            "state": state(at.port),
            "type": kind(at.bus.device),
            "critical": at.critical,
            "fid": at.bus.function,
            "pci_id": at.bus.address,
            "pchid": at.bus.channel,
            "links": at.links,
            "pnet_id": at.port.pnet_id,
            "pnet_id_by": at.port.pnet_id_by,
        })
    });
    let shared = groups.iter();
    let shared = shared.filter(|at| at.record.technology == Technology::SmcD);
    let mut smcd = vec![json!({"type": "shm", "pchid": u16::MAX, "groups": shared.count()})];
    smcd.extend(devices.ism.iter().map(|at| {
        let bus = function(at, root);
        json!({
            "type": "ISM",
            "fid": bus.function,
            "pci_id": bus.address,
            "pchid": bus.channel,
            "groups": 0,
            "pnet_id": at.pnet_id,
        })
    }));
    json!({"smcr": smcr.collect::<Vec<_>>(), "smcd": smcd})
}

fn ports<'a>(devices: &'a Devices, root: &Path, groups: &[Group]) -> Vec<Port<'a>> {
    let of = |rnic: &'a Rnic, (name, bus): (Name, Bus), port: &'a PortFacts| {
        let is_here = |at: &crate::links::group::Link| {
            at.record.device == name && at.record.port == port.port
        };
        let links = groups.iter().flat_map(|group| &group.links);
        // A group whose only usable link is here ends with the port.
        let ends = |group: &Group| {
            let mut active = group.links.iter().filter(|at| at.record.active);
            active.next().is_some_and(is_here) && active.next().is_none()
        };
        Port {
            device: &rnic.name,
            port,
            bus,
            links: links.filter(|at| is_here(at)).count(),
            critical: groups.iter().any(ends),
        }
    };
    let mut all = Vec::new();
    for rnic in &devices.rnics {
        let path = root.join("class/infiniband").join(&rnic.name);
        let bus = Bus::of(&path.join("device"));
        let here = (Name::of(&rnic.name), bus);
        let ports = rnic.ports.iter();
        all.extend(ports.map(|port| of(rnic, here.clone(), port)));
    }
    all
}

fn function(of: &IsmFunction, root: &Path) -> Bus {
    let bus = Bus::of(&root.join("bus/pci/devices").join(&of.address));
    Bus {
        address: of.address.clone(),
        ..bus
    }
}

impl Bus {
    fn of(device: &Path) -> Self {
        let target = fs::read_link(device).ok();
        let name = target.as_deref().and_then(Path::file_name);
        let number = |name: &str| attribute(&device.join(name)).unwrap_or(0);
        // A device in software has no place on the bus.
        let device = number("device");
        Self {
            address: match device {
                0 => String::new(),
                _ => name.map_or_else(String::new, |name| {
                    smc_view::printable(name.as_encoded_bytes())
                }),
            },
            device,
            function: number("function_id"),
            channel: number("pchid"),
        }
    }
}

/// A number of the kernel, with or without 0x.
fn attribute(path: &Path) -> Option<u32> {
    let text = crate::info::setting(path)?;
    let text = text.trim();
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

pub(super) fn kind(device: u32) -> String {
    match device {
        0x1004 => "RoCE_Express".to_owned(),
        0x1016 => "RoCE_Express2".to_owned(),
        0x101e => "RoCE_Express3".to_owned(),
        0 => "0".to_owned(),
        other => format!("{other:#x}"),
    }
}

fn state(port: &PortFacts) -> &'static str {
    match port.state.as_str() {
        "ACTIVE" => "ACTIVE",
        _ => "INACTIVE",
    }
}

/// A PNET ID that a policy has set, and not the hardware, has an asterisk.
fn pnet(port: &PortFacts) -> String {
    let id = port.pnet_id.as_deref().unwrap_or_default();
    match port.pnet_id_by {
        Some(by) if by.contains("policy") => format!("*{id}"),
        _ => id.to_owned(),
    }
}

pub(super) const fn yes(is: bool) -> &'static str {
    if is { "Yes" } else { "No" }
}
