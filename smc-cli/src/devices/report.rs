//! The list of devices, for people.

use std::io::{self, Write};

use super::facts::{Devices, IsmFunction, PortFacts, Rnic, Usable};
use crate::output::size;

const NO_RNIC: &str = "none\n  SMC-R needs one; `rdma link add rxe0 type rxe netdev INTERFACE` \
                       makes one in software";

pub(super) fn text(devices: &Devices, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Shared memory with processes of this host (SMC-D)")?;
    verdict(
        &devices.shared_memory,
        "for every process, without any right",
        out,
    )?;
    write!(out, "\nRoCE devices (SMC-R): ")?;
    if devices.rnics.is_empty() {
        writeln!(out, "{NO_RNIC}")?;
    } else {
        writeln!(out, "{}", devices.rnics.len())?;
        devices.rnics.iter().try_for_each(|of| rnic(of, out))?;
        match devices.lockable_bytes {
            Some(octets) => writeln!(
                out,
                "  a process like this one may lock {} for their buffers (RLIMIT_MEMLOCK)",
                size(octets)
            )?,
            None => writeln!(
                out,
                "  a process like this one may lock memory without limit"
            )?,
        }
    }
    write!(
        out,
        "\nISM functions (SMC-D between systems of one machine): "
    )?;
    if devices.ism.is_empty() {
        return writeln!(out, "none");
    }
    writeln!(out, "{}", devices.ism.len())?;
    devices.ism.iter().try_for_each(|of| function(of, out))
}

fn rnic(of: &Rnic, out: &mut dyn Write) -> io::Result<()> {
    let mut facts = vec![of.node.clone()];
    facts.extend(of.driver.as_ref().map(|name| format!("driver {name}")));
    facts.extend(of.firmware.as_ref().map(|name| format!("firmware {name}")));
    facts.extend(of.verbs.clone());
    writeln!(out, "  {} ({})", of.name, facts.join(", "))?;
    of.ports.iter().try_for_each(|at| port(at, out))
}

fn port(of: &PortFacts, out: &mut dyn Write) -> io::Result<()> {
    let mut facts = vec![of.state.clone()];
    facts.extend(of.rate.clone());
    facts.extend(of.interface.clone());
    if let (Some(mtu), Some(interface)) = (of.mtu, of.interface_mtu) {
        facts.push(format!("MTU {mtu} (of the interface {interface})"));
    }
    match (&of.pnet_id, of.pnet_id_by) {
        (Some(id), Some(by)) => facts.push(format!("PNET ID {id} by {by}")),
        _ => facts.push("no PNET ID".to_owned()),
    }
    let on = |is| if is { "on" } else { "off" };
    facts.push(match &of.pause {
        Some(pause) => format!(
            "pause frames: receive {}, transmit {}{}",
            on(pause.receive),
            on(pause.transmit),
            match pause.autonegotiated {
                true => ", autonegotiated",
                false => "",
            }
        ),
        None => "pause frames unknown".to_owned(),
    });
    writeln!(out, "    port {}: {}", of.port, facts.join(", "))?;
    for gid in &of.gids {
        writeln!(
            out,
            "      GID {:>3}  {}  {}",
            gid.index, gid.gid, gid.r#type
        )?;
    }
    let versions: Vec<_> = of.smc_r_versions.iter().map(|v| format!("v{v}")).collect();
    let versions = format!("for SMC-R {}", versions.join(" and "));
    write!(out, "    ")?;
    verdict(&of.usable, &versions, out)
}

fn function(of: &IsmFunction, out: &mut dyn Write) -> io::Result<()> {
    let mut facts = vec![of.address.clone()];
    facts.extend(
        of.function
            .as_ref()
            .map(|number| format!("function {number}")),
    );
    facts.extend(of.pnet_id.as_ref().map(|id| format!("PNET ID {id}")));
    writeln!(out, "  {}", facts.join(", "))?;
    write!(out, "  ")?;
    verdict(
        &of.usable,
        "through vfio (not tried with real hardware)",
        out,
    )
}

fn verdict(of: &Usable, how: &str, out: &mut dyn Write) -> io::Result<()> {
    match of.usable {
        true => writeln!(out, "  usable {how}"),
        false => writeln!(out, "  not usable: {}", of.why_not.join("; ")),
    }
}
