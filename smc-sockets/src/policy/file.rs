//! A policy as text.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use serde_path_to_error::{Path, Segment};
use smc_proto::wire::types::Eid;
use smc_transport_verbs::pnet::{Attached, PnetId, PnetTable};
use toml::de::{DeArray, DeTable, DeValue};

use super::{Assumption, MAX_UEIDS, Policy, PortRange, Shun, Subnet, Transport, UseOption, size};

/// What is wrong with a policy.
#[derive(Debug)]
pub struct PolicyError {
    file: Option<PathBuf>,
    /// From 1, where it is known.
    line: Option<usize>,
    key: String,
    what: String,
    cause: Option<io::Error>,
}

impl PolicyError {
    /// The line that is wrong, from 1.
    #[must_use]
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key that is wrong, as a path of keys and places.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn of_file(mut self, path: &std::path::Path) -> Self {
        self.file = Some(path.to_owned());
        self
    }

    pub(super) fn unreadable(path: &std::path::Path, error: io::Error) -> Self {
        Self {
            file: Some(path.to_owned()),
            line: None,
            key: String::new(),
            what: error.to_string(),
            cause: Some(error),
        }
    }

    fn of_text(text: &str, path: Option<&Path>, error: &toml::de::Error) -> Self {
        let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        // The parser tells where a list begins; the path leads to the value in it.
        let value = path.and_then(|path| place_of(text, path));
        let told = error.span().map(|span| span.start);
        let line = value.max(told).map(line);
        let key = match path {
            Some(path) if path.iter().next().is_some() => path.to_string(),
            // Where there is no path to a value, the line itself has the key.
            _ => line
                .and_then(|line| text.lines().nth(line - 1))
                .and_then(|line| line.split_once('='))
                .map_or_else(String::new, |(key, _)| key.trim().to_owned()),
        };
        Self {
            file: None,
            line,
            key,
            what: error.message().to_owned(),
            cause: None,
        }
    }
}

/// Where a value begins.
fn place_of(text: &str, path: &Path) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut place = None;
    let mut table = Some(document.get_ref());
    let mut list = None;
    for step in path {
        let value = match step {
            Segment::Map { key } => table.and_then(|table| table.get(key.as_str())),
            Segment::Seq { index } => list.and_then(|list: &DeArray<'_>| list.get(*index)),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let Some(value) = value else { break };
        place = Some(value.span().start);
        (table, list) = match value.get_ref() {
            DeValue::Table(inner) => (Some(inner), None),
            DeValue::Array(inner) => (None, Some(inner)),
            _ => (None, None),
        };
    }
    place
}

/// `FILE: line 3: permit[1]: what is wrong`, as far as it is known.
impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for PolicyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<PolicyError> for io::Error {
    fn from(error: PolicyError) -> Self {
        let kind = error.cause.as_ref().map(io::Error::kind);
        Self::new(kind.unwrap_or(io::ErrorKind::InvalidData), error)
    }
}

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
    #[serde(deserialize_with = "ueids")]
    ueids: Vec<Eid>,
    #[serde(deserialize_with = "system_eid")]
    system_eid: Option<Eid>,
    #[serde(deserialize_with = "transports")]
    transports: Vec<Transport>,
    tcp_option: Wish,
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
            ueids: policy.ueids,
            system_eid: policy.system_eid,
            transports: policy.transports,
            tcp_option: Wish::Auto,
            assume_smc: Vec::new(),
            pnet: policy.pnet,
            shun: Shunned::default(),
        }
    }
}

impl From<File> for Policy {
    fn from(file: File) -> Self {
        let assume = |known: Assumed| Assumption {
            peers: known.peers,
            ports: known.ports,
        };
        Self {
            enabled: file.enabled,
            listen_ports: file.listen_ports,
            connect_ports: file.connect_ports,
            permit: file.permit,
            exclude: file.exclude,
            max_memory: file.max_memory,
            ueids: file.ueids,
            system_eid: file.system_eid,
            transports: file.transports,
            tcp_option: match file.tcp_option {
                Wish::Auto => UseOption::Auto,
                Wish::Always => UseOption::Always,
                Wish::Never => UseOption::Never,
            },
            assume_smc: file.assume_smc.into_iter().map(assume).collect(),
            pnet: file.pnet,
            shun: Shun {
                servers: file.shun.servers,
                time: Duration::from_secs(file.shun.seconds),
            },
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Wish {
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

/// Most servers that may be remembered.
const MOST_SERVERS: usize = 65_536;

fn servers<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    match usize::deserialize(from)? {
        most @ ..=MOST_SERVERS => Ok(most),
        _ => Err(de::Error::custom(format_args!(
            "at most {MOST_SERVERS} can be remembered"
        ))),
    }
}

/// A value with words of its own for what is wrong.
struct Text<T>(T);

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

fn subnets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Subnet>, D::Error> {
    let all = Vec::<Text<Subnet>>::deserialize(from)?;
    Ok(all.into_iter().map(|of| of.0).collect())
}

/// A port as a number, or ports as text.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "neither a port nor a range of ports as \"5000-5099\""
)]
enum Port {
    One(u16),
    Range(Text<PortRange>),
}

fn ports<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PortRange>, D::Error> {
    let all = Vec::<Port>::deserialize(from)?;
    let range = |of| match of {
        Port::One(port) => PortRange::one(port),
        Port::Range(Text(range)) => range,
    };
    Ok(all.into_iter().map(range).collect())
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "no amount of memory; write it as \"64 MiB\"")]
enum Memory {
    Octets(u64),
    Text(String),
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match Memory::deserialize(from)? {
        Memory::Octets(octets) => Ok(Some(octets)),
        Memory::Text(text) => size::octets(&text).map(Some).map_err(de::Error::custom),
    }
}

struct Ueid(Eid);

impl<'de> Deserialize<'de> for Ueid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Eid::user(&text).map(Self).map_err(de::Error::custom)
    }
}

fn ueids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Eid>, D::Error> {
    let all = Vec::<Ueid>::deserialize(from)?;
    if all.len() > MAX_UEIDS {
        let most = format_args!("at most {MAX_UEIDS} user EIDs");
        return Err(de::Error::custom(most));
    }
    Ok(all.into_iter().map(|of| of.0).collect())
}

fn system_eid<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Eid>, D::Error> {
    let text = String::deserialize(from)?;
    let eid = text.as_bytes().try_into().ok().map(Eid);
    match eid.filter(Eid::is_system) {
        Some(eid) => Ok(Some(eid)),
        None => Err(de::Error::custom(
            "a system EID has 32 characters and begins with IBM-SYSZ-ISMSEID",
        )),
    }
}

fn transports<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Transport>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Name {
        Ism,
        Verbs,
    }
    let mut all = Vec::new();
    for name in Vec::<Name>::deserialize(from)? {
        let transport = match name {
            Name::Ism => Transport::Ism,
            Name::Verbs => Transport::Verbs,
        };
        if all.contains(&transport) {
            return Err(de::Error::custom(format_args!("\"{transport}\" twice")));
        }
        all.push(transport);
    }
    Ok(all)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PnetText {
    id: String,
    interface: Option<String>,
    device: Option<String>,
    port: Option<u8>,
}

/// An entry as the tool `smc_pnet` takes it.
#[derive(Deserialize)]
#[serde(try_from = "PnetText")]
struct PnetEntry(PnetId, Attached);

impl TryFrom<PnetText> for PnetEntry {
    type Error = String;

    fn try_from(entry: PnetText) -> Result<Self, String> {
        let id = PnetId::new(&entry.id).map_err(|error| error.to_string())?;
        let what = match (entry.interface, entry.device, entry.port) {
            (Some(name), None, None) => Attached::Interface(name),
            (None, Some(name), port) => Attached::Port(name, port.unwrap_or(1)),
            _ => return Err("an entry has an interface, or a device with a port".to_owned()),
        };
        // Alone it fits if it has the right form.
        let added = PnetTable::default().add(id, what.clone());
        added.map_err(|error| error.to_string())?;
        Ok(Self(id, what))
    }
}

fn pnet<'de, D: Deserializer<'de>>(from: D) -> Result<PnetTable, D::Error> {
    let mut table = PnetTable::default();
    for PnetEntry(id, what) in Vec::deserialize(from)? {
        let told = match &what {
            Attached::Interface(name) => format!("interface \"{name}\""),
            Attached::Port(name, port) => format!("device \"{name}\", port {port}"),
        };
        let added = table.add(id, what);
        added.map_err(|error| de::Error::custom(format_args!("{told}: {error}")))?;
    }
    Ok(table)
}
