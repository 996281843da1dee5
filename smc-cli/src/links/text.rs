//! Link groups as `smcd linkgroup` and `smcr linkgroup` of smc-tools 1.8.5 show them, and links
//! as `smcr linkgroup link-show`; the process comes last.

use std::io::{self, Write};

use smc_view::{Label, Technology};

use super::group::Group;
use crate::ss::row::gid;

/// What is not known.
const UNKNOWN: &str = "n/a";

/// Writes the groups of SMC-D, those of SMC-R, and the links of these, as far as there are any.
///
/// # Errors
/// The output cannot be written.
pub fn write(groups: &[Group], details: u8, out: &mut dyn Write) -> io::Result<()> {
    let of = |is_rdma: bool| {
        let is = |group: &&Group| (group.record.technology == Technology::SmcR) == is_rdma;
        groups.iter().filter(is).collect::<Vec<_>>()
    };
    let (smcd, smcr) = (of(false), of(true));
    if groups.is_empty() {
        return writeln!(out, "no link group");
    }
    let mut is_first = true;
    let mut title = |title: &str, out: &mut dyn Write| -> io::Result<()> {
        if !std::mem::take(&mut is_first) {
            writeln!(out)?;
        }
        writeln!(out, "{title}")
    };
    if !smcd.is_empty() {
        title("SMC-D link groups", out)?;
        match details {
            0 => table_smcd(&smcd, out)?,
            _ => blocks(&smcd, out)?,
        }
    }
    if !smcr.is_empty() {
        title("SMC-R link groups", out)?;
        match details {
            0 => table_smcr(&smcr, out)?,
            _ => blocks(&smcr, out)?,
        }
    }
    if smcr.iter().any(|group| !group.links.is_empty()) {
        title("SMC-R links", out)?;
        links(&smcr, details, out)?;
    }
    Ok(())
}

/// A VLAN as smc-tools write it: without `0x` if there is none.
fn vlan(of: u16) -> String {
    match of {
        0 => "0".to_owned(),
        of => format!("{of:#x}"),
    }
}

fn table_smcd(groups: &[&Group], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "LG-ID    VLAN  #Conns  PNET-ID          Process")?;
    for group in groups {
        writeln!(
            out,
            "{:08x} {:>4}  {:>6}  {:<16} {}",
            group.id(),
            vlan(group.record.vlan),
            group.connections,
            group.pnet(),
            group.process()
        )?;
    }
    Ok(())
}

fn table_smcr(groups: &[&Group], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "LG-ID    LG-Role  LG-Type  VLAN  #Conns  PNET-ID          Process"
    )?;
    for group in groups {
        writeln!(
            out,
            "{:08x} {:<8} {:<8} {:>4}  {:>6}  {:<16} {}",
            group.id(),
            group.role(),
            group.kind(),
            vlan(group.record.vlan),
            group.connections,
            group.pnet(),
            group.process()
        )?;
    }
    Ok(())
}

/// All that is known of each group, with an empty line between.
fn blocks(groups: &[&Group], out: &mut dyn Write) -> io::Result<()> {
    for (at, group) in groups.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let record = &group.record;
        let is_rdma = record.technology == Technology::SmcR;
        writeln!(out, "LG-ID    : {:08x}", group.id())?;
        writeln!(out, "Process  : {}", group.process())?;
        if is_rdma {
            writeln!(out, "LG-Role  : {}", group.role())?;
            writeln!(out, "LG-Type  : {}", group.kind())?;
        }
        writeln!(out, "VLAN     : {:x}", record.vlan)?;
        writeln!(out, "PNET-ID  : {}", group.pnet())?;
        writeln!(out, "Version  : {}", record.version)?;
        if record.version > 1 {
            writeln!(out, "Peer-Rel : {}", record.release)?;
            writeln!(out, "Peer-Host: {}", label(record.peer_host))?;
            writeln!(out, "Peer-OS  : {}", group.peer_os().unwrap_or(UNKNOWN))?;
            if is_rdma {
                let direct = if record.direct { "Yes" } else { "No" };
                writeln!(out, "Direct   : {direct}")?;
            }
            writeln!(out, "EID      : {}", label(record.eid))?;
        }
        writeln!(out, "#Conns   : {}", group.connections)?;
        writeln!(out, "Sndbuf   : {} B", group.send_buffers)?;
        let name = if is_rdma { "RMB      " } else { "DMB      " };
        writeln!(out, "{name}: {} B", group.receive_buffers)?;
    }
    Ok(())
}

fn label(of: Label) -> String {
    match of.is_empty() {
        true => UNKNOWN.to_owned(),
        false => of.to_string(),
    }
}

fn links(groups: &[&Group], details: u8, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "LG-ID    LG-Role  LG-Type  Net-Dev         Link-State      #Conns  "
    )?;
    if details > 0 {
        write!(out, "Link-UID  Peer-UID  IB-Dev    IB-P  ")?;
    }
    if details > 1 {
        write!(
            out,
            "Local-GID                                 Peer-GID                                  "
        )?;
    }
    writeln!(out, "Process")?;
    for group in groups {
        for link in &group.links {
            let record = &link.record;
            write!(
                out,
                "{:08x} {:<8} {:<8} {:<15} {:<15} {:>6}  ",
                group.id(),
                group.role(),
                group.kind(),
                record.interface,
                link.state,
                link.connections
            )?;
            if details > 0 {
                let [own, peer] = match link.uids {
                    Some(uids) => uids.map(|uid| format!("{uid:08x}")),
                    None => [UNKNOWN, UNKNOWN].map(str::to_owned),
                };
                let (device, port) = (record.device, record.port);
                write!(out, "{own:<8}  {peer:<8}  {device:<8}  {port:>4}  ")?;
            }
            if details > 1 {
                let (own, peer) = (gid(record.gid), gid(record.peer_gid));
                write!(out, "{own:<40}  {peer:<40}  ")?;
            }
            writeln!(out, "{}", group.process())?;
        }
    }
    Ok(())
}
