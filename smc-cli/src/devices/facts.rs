//! What there is.

use std::io;
use std::path::Path;

use serde::Serialize;
use smc_sockets::{Policy, SharedMemory};
use smc_transport_ism::pci;
use smc_transport_verbs::network::{Interface, Network, Pause};
use smc_transport_verbs::pnet::PnetId;
use smc_transport_verbs::sysfs::{self, Listed, ListedPort};

/// The devices of this machine, as far as SMC goes.
#[derive(Serialize, Debug)]
pub struct Devices {
    /// Shared memory with processes of this host.
    pub shared_memory: Usable,
    /// RoCE devices.
    pub rnics: Vec<Rnic>,
    /// ISM functions.
    pub ism: Vec<IsmFunction>,
    /// Bytes that this process may still lock for an RNIC; nothing without a limit.
    pub lockable_bytes: Option<u64>,
}

/// Whether something can be used.
#[derive(Serialize, Debug)]
pub struct Usable {
    /// Whether it can.
    pub usable: bool,
    /// What is in the way.
    pub why_not: Vec<String>,
}

/// A RoCE device.
#[derive(Serialize, Debug)]
pub struct Rnic {
    /// Name of the device.
    pub name: String,
    /// What it is to the fabric.
    pub node: String,
    /// Driver of the device.
    pub driver: Option<String>,
    /// Firmware of the device.
    pub firmware: Option<String>,
    /// The device for processes.
    pub verbs: Option<String>,
    /// Ports of the device.
    pub ports: Vec<PortFacts>,
}

/// A port of a RoCE device.
#[derive(Serialize, Debug)]
pub struct PortFacts {
    /// Number of the port.
    pub port: u8,
    /// State of the port, as the kernel names it.
    pub state: String,
    /// Speed of the port, as the kernel names it.
    pub rate: Option<String>,
    /// Interface of the port.
    pub interface: Option<String>,
    /// Bytes of its packets' payload.
    pub mtu: Option<u16>,
    /// Bytes of its interface's packets.
    pub interface_mtu: Option<u32>,
    /// Physical network of the port.
    pub pnet_id: Option<String>,
    /// Source of the PNET ID: the hardware, the policy, or its interface.
    pub pnet_id_by: Option<&'static str>,
    /// Pause frames of its interface.
    pub pause: Option<PauseFacts>,
    /// GIDs of the port.
    pub gids: Vec<GidFacts>,
    /// Whether SMC-R can use it.
    #[serde(flatten)]
    pub usable: Usable,
    /// Versions of SMC-R that it serves.
    pub smc_r_versions: Vec<u8>,
}

/// Pause frames, as `ethtool -a` shows them.
#[derive(Serialize, Debug)]
pub struct PauseFacts {
    /// Both ends of the cable agree by themselves.
    pub autonegotiated: bool,
    /// The interface stops when asked.
    pub receive: bool,
    /// The interface asks.
    pub transmit: bool,
}

/// A GID.
#[derive(Serialize, Debug)]
pub struct GidFacts {
    /// Place of the GID in the port's table.
    pub index: u16,
    /// The GID.
    pub gid: String,
    /// Kind of the packets that use it.
    pub r#type: String,
}

/// An ISM function.
#[derive(Serialize, Debug)]
pub struct IsmFunction {
    /// Address of the function on the bus.
    pub address: String,
    /// Number of the function.
    pub function: Option<String>,
    /// The driver that has it.
    pub driver: Option<String>,
    /// Physical network of the function, by the hardware.
    pub pnet_id: Option<String>,
    /// Whether a process can use it.
    #[serde(flatten)]
    pub usable: Usable,
}

impl Usable {
    fn unless(why_not: Vec<String>) -> Self {
        let usable = why_not.is_empty();
        Self { usable, why_not }
    }
}

impl Devices {
    /// What there is below a root, by a policy.
    ///
    /// # Errors
    /// The system's.
    pub fn of(root: &Path, policy: &Policy) -> io::Result<Self> {
        let network = Network::read()?;
        let rnics = sysfs::list(root, &network)?;
        let rnics = rnics.iter().map(|of| Rnic::of(of, &network, policy));
        let ism = pci::list(root)?.into_iter().map(IsmFunction::of);
        let shared = SharedMemory::probe().err();
        Ok(Self {
            shared_memory: Usable::unless(shared.into_iter().collect()),
            rnics: rnics.collect(),
            ism: ism.collect(),
            lockable_bytes: smc_transport_verbs::locking::lockable(),
        })
    }
}

impl Rnic {
    fn of(of: &Listed, network: &Network, policy: &Policy) -> Self {
        let port = |port: &ListedPort| PortFacts::of(of, port, network, policy);
        Self {
            name: of.name.clone(),
            node: of.node.clone(),
            driver: of.driver.clone(),
            firmware: of.firmware.clone(),
            verbs: of.verbs.clone(),
            ports: of.ports.iter().map(port).collect(),
        }
    }
}

impl PortFacts {
    fn of(device: &Listed, of: &ListedPort, network: &Network, policy: &Policy) -> Self {
        let named = |name: &String| network.interfaces.iter().find(|at| at.name == *name);
        let interface = of.interface.as_ref().and_then(named);
        let pnet = pnet_id(of, interface, network, policy);
        let pause = interface.and_then(|at| Pause::of_interface(at.index).ok()?);
        let (usable, versions) = match device.usable(of, network) {
            Ok(versions) => (Vec::new(), versions),
            Err(obstacles) => {
                let words = obstacles.iter().map(ToString::to_string);
                (words.collect(), sysfs::Versions::default())
            }
        };
        let versions = [(1, versions.v1), (2, versions.v2)].into_iter();
        let gids = of.port.gids.iter().map(|entry| GidFacts {
            index: entry.index,
            gid: entry.gid.to_string(),
            r#type: entry.kind.to_string(),
        });
        Self {
            port: of.port.port,
            state: of.state.clone(),
            rate: of.rate.clone(),
            interface: of.interface.clone(),
            mtu: interface.and_then(|_| of.port.mtu.octets()),
            interface_mtu: interface.map(|at| at.mtu),
            pnet_id: pnet.map(|(id, _)| id.to_string()),
            pnet_id_by: pnet.map(|(_, by)| by),
            pause: pause.map(|pause| PauseFacts {
                autonegotiated: pause.autonegotiated,
                receive: pause.receive,
                transmit: pause.transmit,
            }),
            gids: gids.collect(),
            usable: Usable::unless(usable),
            smc_r_versions: versions.filter_map(|(v, is)| is.then_some(v)).collect(),
        }
    }
}

/// The PNET ID of a port, and its source: as connections see it, the hardware comes
/// first.
fn pnet_id(
    of: &ListedPort,
    interface: Option<&Interface>,
    network: &Network,
    policy: &Policy,
) -> Option<(PnetId, &'static str)> {
    let hardware = of.port.pnet.map(|id| (id, "hardware"));
    let table = policy.pnet.of_port(&of.port.device, of.port.port);
    let base = interface.map(|at| network.base(at));
    hardware
        .or_else(|| table.map(|id| (id, "policy")))
        .or_else(|| Some((base?.pnet?, "the interface's hardware")))
        .or_else(|| {
            Some((
                policy.pnet.of_interface(&base?.name)?,
                "the interface's policy",
            ))
        })
}

impl IsmFunction {
    fn of(of: pci::Listed) -> Self {
        let pnet = of.utility.as_deref().and_then(|all| all.first_chunk());
        let pnet = pnet.and_then(PnetId::from_hardware);
        let why_not = match of.driver.as_deref() {
            Some("vfio-pci") => Vec::new(),
            Some(other) => vec![format!(
                "the driver {other} has it; a process can use it under vfio-pci"
            )],
            None => vec!["no driver has it; a process can use it under vfio-pci".to_owned()],
        };
        Self {
            address: of.address,
            function: of.function,
            driver: of.driver,
            pnet_id: pnet.map(|id| id.to_string()),
            usable: Usable::unless(why_not),
        }
    }
}
