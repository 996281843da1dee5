//! A policy as text.

use std::time::Duration;

use serde::Deserialize;
use smc_proto::wire::types::Eid;
use smc_transport_verbs::pnet::PnetTable;

use super::value::{grace, memory, pnet, ports, servers, subnets, system_eid, transports, ueids};
use super::{Assumption, Policy, PolicyError, PortRange, Shun, Subnet, Transport, UseOption};

impl Policy {
    /// The policy of a TOML text; what it does not say is as by default.
    ///
    /// # Errors
    /// [`PolicyError`]: the line, the key, and what is wrong.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let document = toml::Deserializer::parse(text)
            .map_err(|error| PolicyError::of_text(text, None, &error))?;
        let file: File = serde_path_to_error::deserialize(document)
            .map_err(|error| PolicyError::of_text(text, Some(error.path()), error.inner()))?;
        Ok(file.into())
    }
}

/// The keys of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    enabled: bool,
    #[serde(deserialize_with = "ports")]
    listen_ports: Vec<PortRange>,
    #[serde(deserialize_with = "ports")]
    connect_ports: Vec<PortRange>,
    #[serde(deserialize_with = "subnets")]
    permit: Vec<Subnet>,
    #[serde(deserialize_with = "subnets")]
    exclude: Vec<Subnet>,
    #[serde(deserialize_with = "memory")]
    max_memory: Option<u64>,
    #[serde(deserialize_with = "grace")]
    pairing_grace: Option<Duration>,
    #[serde(deserialize_with = "ueids")]
    ueids: Vec<Eid>,
    #[serde(deserialize_with = "system_eid")]
    system_eid: Option<Eid>,
    #[serde(deserialize_with = "transports")]
    transports: Vec<Transport>,
    tcp_option: TcpOptionText,
    assume_smc: Vec<Assumed>,
    #[serde(deserialize_with = "pnet")]
    pnet: PnetTable,
    shun: Shunned,
}

impl Default for File {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            enabled: policy.enabled,
            listen_ports: policy.listen_ports,
            connect_ports: policy.connect_ports,
            permit: policy.permit,
            exclude: policy.exclude,
            max_memory: policy.max_memory,
            pairing_grace: policy.pairing_grace,
            ueids: policy.ueids,
            system_eid: policy.system_eid,
            transports: policy.transports,
            tcp_option: TcpOptionText::Auto,
            assume_smc: Vec::new(),
            pnet: policy.pnet,
            shun: Shunned::default(),
        }
    }
}

impl From<File> for Policy {
    fn from(file: File) -> Self {
        let assume = |known: Assumed| Assumption::new(known.peers, known.ports);
        Self {
            enabled: file.enabled,
            listen_ports: file.listen_ports,
            connect_ports: file.connect_ports,
            permit: file.permit,
            exclude: file.exclude,
            max_memory: file.max_memory,
            pairing_grace: file.pairing_grace,
            ueids: file.ueids,
            system_eid: file.system_eid,
            transports: file.transports,
            tcp_option: match file.tcp_option {
                TcpOptionText::Auto => UseOption::Auto,
                TcpOptionText::Always => UseOption::Always,
                TcpOptionText::Never => UseOption::Never,
            },
            assume_smc: file.assume_smc.into_iter().map(assume).collect(),
            pnet: file.pnet,
            shun: Shun {
                servers: file.shun.servers,
                time: Duration::from_secs(file.shun.seconds),
            },
            unusable: None,
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum TcpOptionText {
    Auto,
    Always,
    Never,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Assumed {
    #[serde(deserialize_with = "subnets")]
    peers: Vec<Subnet>,
    #[serde(deserialize_with = "ports")]
    ports: Vec<PortRange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Shunned {
    #[serde(deserialize_with = "servers")]
    servers: usize,
    seconds: u64,
}

impl Default for Shunned {
    fn default() -> Self {
        let Shun { servers, time } = Shun::default();
        let seconds = time.as_secs();
        Self { servers, seconds }
    }
}
