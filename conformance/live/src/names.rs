//! The names of scripts and those of this wire, exchanged in messages.

use conformance::scripts::names::{
    ENGINE, PEER, identity, link_of, offset_of, peer_address, peer_rkey, port, port_of, rmb_of,
};
use conformance::scripts::{Kind, field};

/// Names of GIDs and MACs, and what the engine has announced.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// GID and MAC of each port of the peer.
    pub(crate) peer: Vec<(u128, u128)>,
    /// Ports of the engine, in the order in which they were announced.
    pub(crate) engine: Vec<(u128, u128)>,
    pub(crate) identity: Option<u128>,
    /// The number of the engine's operating system.
    pub(crate) system: Option<u128>,
    /// The peer's identity on this wire, if it is not that of scripts.
    pub(crate) own: Option<u128>,
}

/// Memory and queue pairs of the peer, as they are needed.
pub(crate) trait Possessions {
    /// Number and first packet's number of the queue pair of a link.
    fn queue_pair(&mut self, link: u8) -> Result<(u32, u32), String>;

    /// Key and address of a connection's memory on the link with this number in its group.
    fn memory(&mut self, number: u8, conn: u8) -> Result<(u32, u64), String>;

    /// The memory with this key: number of the link, connection, and address.
    fn memory_with(&self, rkey: u32) -> Option<(u8, u8, u64)>;
}

const GIDS: [&str; 4] = ["gid", "roce_gid", "gid1", "target_gid"];
/// Keys, and addresses behind them.
const RTOKENS: [(&str, &str); 6] = [
    ("rkey", "address"),
    ("new1", "address1"),
    ("new2", "address2"),
    ("rkey1", "address1"),
    ("rkey2", "address2"),
    ("rkey3", "address3"),
];
/// Keys alone.
const RKEYS: [&str; 10] = [
    "ref1", "ref2", "rkey1", "rkey2", "rkey3", "rkey4", "rkey5", "rkey6", "rkey7", "rkey8",
];

fn get(kind: Kind, name: &str, message: &[u8]) -> Option<u128> {
    let field = field(kind, name)?;
    let there = field.range().end <= message.len();
    there.then(|| field.get(message))
}

fn put(kind: Kind, name: &str, message: &mut [u8], value: u128) {
    if let Some(field) = field(kind, name)
        && field.range().end <= message.len()
    {
        field.put(message, value);
    }
}

/// Whether it answers a message about memory, all of which is the other side's then.
fn is_echo(kind: Kind, message: &[u8]) -> bool {
    let about_memory = matches!(kind, Kind::Llc(kind) if matches!(kind & 0x1f, 6 | 8 | 9));
    about_memory && get(kind, "reply", message) == Some(1)
}

/// Whether it has a port's GID where `gid` is, and not an ISM device's.
const fn is_llc_or_smcr(kind: Kind) -> bool {
    match kind {
        Kind::Clc(form, _) => !form.is_ism(),
        Kind::Llc(_) => true,
        Kind::Cdc(_) => false,
    }
}

impl Names {
    fn on_wire(&self, (host, number): (u8, u8)) -> Option<(u128, u128)> {
        let ports = if host == PEER {
            &self.peer
        } else {
            &self.engine
        };
        ports.get(usize::from(number) - 1).copied()
    }

    /// A message of the peer gets the names of this wire.
    pub(crate) fn name_for_wire(
        &self,
        kind: Kind,
        message: &mut [u8],
        of: &mut impl Possessions,
    ) -> Result<(), String> {
        if !is_llc_or_smcr(kind) {
            return Ok(());
        }
        for name in GIDS {
            let Some(of) = get(kind, name, message).and_then(port_of) else {
                continue;
            };
            let Some((gid, mac)) = self.on_wire(of) else {
                continue;
            };
            put(kind, name, message, gid);
            if name == "gid" && get(kind, "mac", message) == Some(port(of.0, of.1).1) {
                put(kind, "mac", message, mac);
            }
        }
        if get(kind, "peer_id", message) == Some(identity(ENGINE))
            && let Some(identity) = self.identity
        {
            put(kind, "peer_id", message, identity);
        }
        if get(kind, "peer_id", message) == Some(identity(PEER))
            && let Some(own) = self.own
        {
            put(kind, "peer_id", message, own);
        }
        if is_echo(kind, message) {
            return Ok(());
        }
        if let Some(link) = get(kind, "qpn", message).and_then(link_of) {
            let (qpn, psn) = of.queue_pair(link)?;
            put(kind, "qpn", message, qpn.into());
            put(kind, "psn", message, psn.into());
        }
        // Keys with their addresses first; what is left of them is alone.
        for (key, address) in RTOKENS {
            let Some((rkey, at)) = get(kind, key, message).zip(get(kind, address, message)) else {
                continue;
            };
            if let Some((number, conn)) = rmb_of(rkey)
                && let Some(offset) = offset_of(number, conn, at)
            {
                let (rkey, base) = of.memory(number, conn)?;
                put(kind, key, message, rkey.into());
                put(
                    kind,
                    address,
                    message,
                    u128::from(base.wrapping_add(offset)),
                );
            }
        }
        let alone = |name: &&str| match kind {
            Kind::Llc(kind) if kind & 0x1f == 9 => name.starts_with("rkey"),
            _ => name.starts_with("ref"),
        };
        for key in RKEYS.into_iter().filter(alone) {
            if let Some((number, conn)) = get(kind, key, message).and_then(rmb_of) {
                let (rkey, _) = of.memory(number, conn)?;
                put(kind, key, message, rkey.into());
            }
        }
        Ok(())
    }

    /// A message of the engine gets the names of scripts.
    pub(crate) fn name_for_script(
        &mut self,
        kind: Kind,
        message: &mut [u8],
        of: &impl Possessions,
    ) {
        if !is_llc_or_smcr(kind) {
            return;
        }
        for name in GIDS {
            let Some(gid) = get(kind, name, message).filter(|gid| *gid != 0) else {
                continue;
            };
            let peers = self.peer.iter().position(|known| known.0 == gid);
            if let (Some(at), true) = (peers, name == "target_gid") {
                put(kind, name, message, port(PEER, at as u8 + 1).0);
                continue;
            }
            let mac = get(kind, "mac", message).filter(|_| name == "gid");
            let at = self.learn(gid, mac);
            let script = port(ENGINE, at as u8 + 1);
            put(kind, name, message, script.0);
            if self.engine.get(at).map(|known| known.1) == mac && mac.is_some() {
                put(kind, "mac", message, script.1);
            }
        }
        // Linux writes it in the order of its machine, and takes either.
        let length = message.len() as u16;
        if matches!(kind, Kind::Llc(kind) if kind & 0xe0 == 0x20)
            && get(kind, "length", message) == Some(length.swap_bytes().into())
        {
            put(kind, "length", message, length.into());
        }
        // (A client that offers version 2 alone may leave it out of its Proposal.)
        if let Some(id) = get(kind, "peer_id", message).filter(|id| *id != 0)
            && id == *self.identity.get_or_insert(id)
        {
            put(kind, "peer_id", message, identity(ENGINE));
        }
        // Which system the engine runs on is its own affair, as long as it is one.
        if matches!(kind, Kind::Clc(_, 2 | 3))
            && get(kind, "first_contact", message) == Some(1)
            && let Some(id) = get(kind, "os", message)
            && id == *self.system.get_or_insert(id)
        {
            put(kind, "os", message, 0);
        }
        if !is_echo(kind, message) {
            return;
        }
        for (key, address) in RTOKENS {
            let Some((rkey, at)) = get(kind, key, message).zip(get(kind, address, message)) else {
                continue;
            };
            if let Some((number, conn, base)) = of.memory_with(rkey as u32) {
                let offset = at.wrapping_sub(base.into());
                put(kind, key, message, peer_rkey(number, conn));
                put(kind, address, message, peer_address(number, conn) + offset);
            }
        }
        for key in RKEYS {
            let rkey = get(kind, key, message);
            if let Some((number, conn, _)) = rkey.and_then(|rkey| of.memory_with(rkey as u32)) {
                put(kind, key, message, peer_rkey(number, conn));
            }
        }
    }

    /// The place of a port of the engine, known from now on.
    fn learn(&mut self, gid: u128, mac: Option<u128>) -> usize {
        let known = self.engine.iter().position(|known| known.0 == gid);
        let at = known.unwrap_or_else(|| {
            self.engine.push((gid, 0));
            self.engine.len() - 1
        });
        // A Proposal of version 2 may contain the GID alone.
        if let Some(port) = self.engine.get_mut(at).filter(|port| port.1 == 0) {
            port.1 = mac.unwrap_or_default();
        }
        at
    }

    /// GID and MAC of the engine's port that a message names, on this wire.
    pub(crate) fn engine_port(&self, kind: Kind, message: &[u8]) -> Option<(u128, u128)> {
        let gid = get(kind, "gid", message)?;
        port_of(gid).and_then(|of| self.on_wire(of))
    }
}

/// Queue pair, first packet's number and MTU in a message.
pub(crate) fn far_end(kind: Kind, message: &[u8]) -> Option<(u32, u32, u8)> {
    let number = |name| get(kind, name, message);
    Some((
        number("qpn")? as u32,
        number("psn")? as u32,
        number("mtu")? as u8,
    ))
}

/// The link that the peer begins a group with, by this message.
pub(crate) fn begins(kind: Kind, message: &[u8]) -> Option<u8> {
    let first = matches!(kind, Kind::Clc(..)) && get(kind, "first_contact", message) == Some(1);
    get(kind, "qpn", message)
        .and_then(link_of)
        .filter(|_| first)
}
