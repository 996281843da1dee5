//! `smcx info`: what SMC is on this machine, as `smcr info` and `smcd info` show it.

pub mod kernel;

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::{Value, json};
use smc_sockets::Policy;
use smc_sockets::policy::{OWN_EID, Transport};

use crate::cli::InfoArguments;
use crate::devices::Devices;
use crate::netlink::Refusal;
use crate::output::Failure;
use crate::policy;
use kernel::Kernel;

/// Most bytes of a setting of the kernel.
const SETTING: u64 = 256;

/// What is known.
struct Info {
    hostname: Option<String>,
    smcd: Vec<&'static str>,
    smcr: Vec<&'static str>,
    seid: Option<String>,
    ueids: Vec<String>,
    ism: usize,
    roce: Vec<&'static str>,
    /// The kernel's SMC, and why it is not all there.
    kernel: (Kernel, Result<(), Refusal>),
    /// Programs that publish, and their stacks.
    programs: (usize, usize),
}

/// Shows what there is.
///
/// # Errors
/// The policy is wrong, the devices or `/proc` cannot be read, or the output cannot be written.
pub fn run(arguments: &InfoArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let policy = policy::load(&arguments.policy)?;
    let info = Info::of(&arguments.sysfs, &policy)?;
    match arguments.json {
        true => writeln!(stdout, "{}", info.object())?,
        false => info.text(stdout)?,
    }
    Ok(())
}

impl Info {
    fn of(root: &Path, policy: &Policy) -> Result<Self, Failure> {
        let devices = Devices::of(root, policy)
            .map_err(|error| Failure::Problem(format!("devices: {error}")))?;
        let found = crate::processes::all()?;
        let programs = found.fold((0, 0), |(programs, stacks), found| {
            (programs + 1, stacks + found.view.stacks().len())
        });
        let may = |transport| policy.enabled && policy.transports.contains(&transport);
        let mut roce = Vec::new();
        for (version, name) in [(1, "v1"), (2, "v2")] {
            let ports = devices.rnics.iter().flat_map(|rnic| &rnic.ports);
            if ports
                .into_iter()
                .any(|port| port.smc_r_versions.contains(&version))
            {
                roce.push(name);
            }
        }
        // Processes of one host know each other by an EID, which version 1 has not.
        let is_shared = may(Transport::Ism) && devices.shared_memory.usable;
        let is_rdma = may(Transport::Verbs) && cfg!(feature = "rdma");
        let text = |eid: &smc_proto::wire::types::Eid| eid.to_string().trim_end().to_owned();
        Ok(Self {
            hostname: setting(Path::new("/proc/sys/kernel/hostname")),
            smcd: if is_shared { vec!["v2"] } else { Vec::new() },
            smcr: if is_rdma {
                vec!["v1", "v2"]
            } else {
                Vec::new()
            },
            seid: policy.system_eid.as_ref().map(text),
            ueids: match policy.enabled {
                true => {
                    let own = std::iter::once(OWN_EID.to_owned());
                    policy.ueids.iter().map(text).chain(own).collect()
                }
                false => Vec::new(),
            },
            ism: devices.ism.len(),
            roce,
            kernel: kernel::read(),
            programs,
        })
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (programs, stacks) = self.programs;
        let ism = match self.ism {
            0 => Vec::new(),
            _ => vec!["v2"],
        };
        writeln!(out, "Capabilities of programs")?;
        writeln!(out, "SMC Version:      2.1")?;
        writeln!(
            out,
            "SMC Hostname:     {}",
            or_unknown(self.hostname.as_deref())
        )?;
        writeln!(out, "SMC-D Features:   {}", joined(&self.smcd))?;
        writeln!(out, "SMC-R Features:   {}", joined(&self.smcr))?;
        writeln!(out, "Programs:         {programs}")?;
        writeln!(out, "Stacks:           {stacks}")?;
        writeln!(out, "\nHardware Capabilities")?;
        writeln!(
            out,
            "SEID:             {}",
            or_unknown(self.seid.as_deref())
        )?;
        writeln!(out, "UEID:             {}", joined(&self.ueids))?;
        writeln!(out, "ISM:              {}", joined(&ism))?;
        writeln!(out, "RoCE:             {}", joined(&self.roce))?;
        writeln!(out, "\nKernel (AF_SMC)")?;
        let (kernel, outcome) = &self.kernel;
        if *kernel == Kernel::default() && *outcome == Err(Refusal::Absent) {
            return writeln!(out, "no SMC in the kernel, or its module is not loaded");
        }
        kernel.text(out)?;
        match outcome {
            Err(refusal) => writeln!(out, "not all is known: {refusal}"),
            Ok(()) => Ok(()),
        }
    }

    fn object(&self) -> Value {
        let (programs, stacks) = self.programs;
        json!({
            "version": "2.1",
            "hostname": self.hostname,
            "smcd": self.smcd,
            "smcr": self.smcr,
            "programs": programs,
            "stacks": stacks,
            "seid": self.seid,
            "ueids": self.ueids,
            "ism_functions": self.ism,
            "roce": self.roce,
            "kernel": match &self.kernel {
                (kernel, _) if *kernel == Kernel::default() => Value::Null,
                (kernel, _) => kernel.object(),
            },
        })
    }
}

pub(crate) fn or_unknown(text: Option<&str>) -> &str {
    text.unwrap_or("n/a")
}

pub(crate) fn joined<T: AsRef<str>>(all: &[T]) -> String {
    let all: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
    match all.is_empty() {
        true => "n/a".to_owned(),
        false => all.join(" "),
    }
}

/// The first line of a file of the kernel.
pub(crate) fn setting(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(SETTING).read_to_string(&mut text).ok()?;
    let line = text.lines().next().unwrap_or_default();
    Some(smc_view::printable(line.as_bytes()))
}
