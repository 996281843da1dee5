//! What the kernel says of its own SMC: its version and EIDs by generic netlink, its settings below
//! `/proc/sys/net/smc`.

use std::fs;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::{joined, or_unknown, setting};
use crate::links::kernel::FAMILY;
use crate::netlink::{Refusal, attributes, list, text};

/// `SMC_NETLINK_GET_SYS_INFO`, `SMC_NETLINK_DUMP_UEID`, `SMC_NETLINK_DUMP_SEID`.
const SYSTEM: u8 = 1;
const UEIDS: u8 = 9;
const SEID: u8 = 13;
/// `SMC_GEN_SYS_INFO`, the nest of its answer.
const SYSTEM_NEST: u16 = 1;
/// Most EIDs that are shown; the kernel has room for four.
const EIDS: usize = 64;

/// The kernel's SMC.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kernel {
    /// Version and release of SMC; `None` if the kernel does not say.
    pub version: Option<(u8, u8)>,
    /// The name of this host that it gives to peers.
    pub hostname: Option<String>,
    /// Versions of SMC-D.
    pub smcd: Vec<&'static str>,
    /// Versions of SMC-R.
    pub smcr: Vec<&'static str>,
    /// User EIDs, without their padding.
    pub ueids: Vec<String>,
    /// The system EID, and whether it is enabled.
    pub seid: Option<(String, bool)>,
    /// Settings by their names.
    pub settings: Vec<(String, String)>,
}

impl Kernel {
    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let version = self
            .version
            .map(|(version, release)| format!("{version}.{release}"));
        let seid = self.seid.as_ref().map(|(eid, is_enabled)| {
            let state = if *is_enabled { "enabled" } else { "disabled" };
            format!("{eid} [{state}]")
        });
        for (name, value) in [
            ("SMC Version", or_unknown(version.as_deref()).to_owned()),
            (
                "SMC Hostname",
                or_unknown(self.hostname.as_deref()).to_owned(),
            ),
            ("SMC-D Features", joined(&self.smcd)),
            ("SMC-R Features", joined(&self.smcr)),
            ("SEID", or_unknown(seid.as_deref()).to_owned()),
            ("UEID", joined(&self.ueids)),
        ] {
            writeln!(out, "{:<17} {value}", format!("{name}:"))?;
        }
        for (name, value) in &self.settings {
            writeln!(out, "{:<28} {value}", format!("net.smc.{name}:"))?;
        }
        Ok(())
    }

    pub(super) fn object(&self) -> Value {
        let settings = self.settings.iter().cloned();
        let settings = settings.map(|(name, value)| (name, Value::from(value)));
        json!({
            "version": self.version.map(|(version, release)| format!("{version}.{release}")),
            "hostname": self.hostname,
            "smcd": self.smcd,
            "smcr": self.smcr,
            "seid": self.seid.as_ref().map(|(eid, _)| eid),
            "seid_enabled": self.seid.as_ref().map(|(_, is_enabled)| is_enabled),
            "ueids": self.ueids,
            "settings": settings.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// The kernel's SMC, and why it is not all there: mostly that the kernel has none.
pub(super) fn read() -> (Kernel, Result<(), Refusal>) {
    let mut kernel = Kernel {
        settings: settings().unwrap_or_default(),
        ..Kernel::default()
    };
    let mut lists = [SYSTEM, UEIDS, SEID].into_iter().map(|command| {
        let listed = list(FAMILY, command, |message| {
            parse(command, message, &mut kernel);
        });
        listed.map_err(|refusal| (command, refusal))
    });
    let asked = lists.try_for_each(|listed| match listed {
        // Kernels of other machines than IBM's may have no SEID.
        Err((SEID, Refusal::Kernel(_))) => Ok(()),
        other => other.map_err(|(_, refusal)| refusal),
    });
    (kernel, asked)
}

/// Adds what a message says in answer to a command.
pub fn parse(command: u8, message: &[u8], kernel: &mut Kernel) {
    if command == SYSTEM {
        let nests = attributes(message).filter(|(kind, _)| *kind == SYSTEM_NEST);
        nests.for_each(|(_, nest)| system(nest, kernel));
        return;
    }
    let (mut eid, mut is_enabled) = (None, false);
    for (kind, value) in attributes(message) {
        match (kind, command) {
            (1, UEIDS) if kernel.ueids.len() < EIDS => kernel.ueids.push(unpadded(value)),
            (1, SEID) => eid = Some(unpadded(value)),
            (2, SEID) => is_enabled = value.first().is_some_and(|byte| *byte != 0),
            _ => {}
        }
    }
    if let Some(eid) = eid.filter(|eid| !eid.is_empty()) {
        kernel.seid = Some((eid, is_enabled));
    }
}

fn system(nest: &[u8], kernel: &mut Kernel) {
    let (mut version, mut release) = (None, 0);
    (kernel.smcd, kernel.smcr) = (vec!["v1"], vec!["v1"]);
    for (kind, value) in attributes(nest) {
        let byte = value.first().copied().unwrap_or(0);
        match kind {
            1 => version = Some(byte),
            2 => release = byte,
            3 if byte != 0 => kernel.smcd.push("v2"),
            4 => kernel.hostname = Some(unpadded(value)),
            6 if byte != 0 => kernel.smcr.push("v2"),
            _ => {}
        }
    }
    kernel.version = version.map(|version| (version, release));
}

fn unpadded(value: &[u8]) -> String {
    text(value).trim_end().to_owned()
}

/// Settings of the kernel's SMC, by their names.
fn settings() -> Option<Vec<(String, String)>> {
    let entries = fs::read_dir("/proc/sys/net/smc").ok()?;
    let all = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        Some((name, setting(&entry.path())?))
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    Some(all)
}
