//! Parsing the values of a policy's keys. Each function is the `deserialize_with` of one key, and its
//! errors say how the value is written.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use smc_proto::wire::types::Eid;
use smc_transport_verbs::pnet::{Attached, PnetId, PnetTable};

use super::{MAX_PAIRING_GRACE, MAX_UEIDS, PortRange, Subnet, Transport, size};

/// Most servers of the denylist.
const MAX_SERVERS: usize = 65_536;

/// The number of servers that are remembered in the denylist.
pub(super) fn servers<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    match usize::deserialize(from)? {
        most @ ..=MAX_SERVERS => Ok(most),
        _ => Err(de::Error::custom(format_args!(
            "at most {MAX_SERVERS} can be remembered"
        ))),
    }
}

/// A value that is written as text, whose parser has its own messages.
struct Text<T>(T);

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// Subnets, as `"10.0.0.0/8"`.
pub(super) fn subnets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Subnet>, D::Error> {
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

/// Ports, as `5000` or `"5000-5099"`.
pub(super) fn ports<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PortRange>, D::Error> {
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

/// An amount of memory, in bytes or as `"64 MiB"`.
pub(super) fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match Memory::deserialize(from)? {
        Memory::Octets(octets) => Ok(Some(octets)),
        Memory::Text(text) => size::octets(&text).map(Some).map_err(de::Error::custom),
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "no time; write it as \"20 ms\"")]
enum Grace {
    Milliseconds(u64),
    Text(String),
}

/// A time, in milliseconds or as `"20 ms"`.
pub(super) fn grace<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let wrong = |text: &str| {
        de::Error::custom(format_args!("\"{text}\" is no time; write it as \"20 ms\""))
    };
    let milliseconds = match Grace::deserialize(from)? {
        Grace::Milliseconds(milliseconds) => milliseconds,
        Grace::Text(text) => {
            let number = text.strip_suffix("ms").map(str::trim_end);
            let number = number.filter(|number| !number.starts_with('+'));
            number
                .and_then(|number| number.parse().ok())
                .ok_or_else(|| wrong(&text))?
        }
    };
    let grace = Duration::from_millis(milliseconds);
    match grace > MAX_PAIRING_GRACE {
        true => Err(de::Error::custom(format_args!(
            "at most {} ms",
            MAX_PAIRING_GRACE.as_millis()
        ))),
        false => Ok(Some(grace)),
    }
}

struct Ueid(Eid);

impl<'de> Deserialize<'de> for Ueid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Eid::user(&text).map(Self).map_err(de::Error::custom)
    }
}

/// User EIDs.
pub(super) fn ueids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Eid>, D::Error> {
    let all = Vec::<Ueid>::deserialize(from)?;
    if all.len() > MAX_UEIDS {
        let most = format!("at most {MAX_UEIDS} user EIDs");
        return Err(de::Error::custom(most));
    }
    Ok(all.into_iter().map(|of| of.0).collect())
}

/// The system EID.
pub(super) fn system_eid<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Eid>, D::Error> {
    let text = String::deserialize(from)?;
    let eid = text.as_bytes().try_into().ok().map(Eid);
    match eid.filter(Eid::is_system) {
        Some(eid) => Ok(Some(eid)),
        None => Err(de::Error::custom(
            "a system EID has 32 characters and begins with IBM-SYSZ-ISMSEID",
        )),
    }
}

/// Transports, each once.
pub(super) fn transports<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Transport>, D::Error> {
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

/// An entry of the PNET table, as the tool `smc_pnet` takes it.
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
        // Its form is checked by adding it to an empty table.
        let added = PnetTable::default().add(id, what.clone());
        added.map_err(|error| error.to_string())?;
        Ok(Self(id, what))
    }
}

/// The PNET table.
pub(super) fn pnet<'de, D: Deserializer<'de>>(from: D) -> Result<PnetTable, D::Error> {
    let mut table = PnetTable::default();
    for PnetEntry(id, what) in Vec::deserialize(from)? {
        let shown = match &what {
            Attached::Interface(name) => format!("interface \"{name}\""),
            Attached::Port(name, port) => format!("device \"{name}\", port {port}"),
        };
        let added = table.add(id, what);
        added.map_err(|error| de::Error::custom(format_args!("{shown}: {error}")))?;
    }
    Ok(table)
}
