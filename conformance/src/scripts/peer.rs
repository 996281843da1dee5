//! The peer of a script: what it sends where the script names no value, and what it
//! knows of the engine from the engine's messages.

mod clc;
mod llc;

use std::collections::BTreeMap;

use super::layout;
use super::names::{peer_address, peer_dmb, peer_rkey};
use super::parsed::{Form, Kind, Setup, Value};
use super::wire::{Announced, End, Target};

/// A connection as the peer knows it.
#[derive(Clone, Debug, Default)]
struct Conn {
    /// The engine's Accept or Confirm.
    agreed: Option<(Kind, Vec<u8>)>,
    /// The peer's Proposal, Accept or Confirm.
    offered: Option<(Kind, Vec<u8>)>,
    /// CDC of the peer: number and cursors of the last one.
    sent: Levels,
    /// CDC of the engine.
    engine_cdc: Levels,
    /// Bytes over TCP that are no whole message yet.
    pending: Vec<u8>,
    /// Producer cursor of the last CDC of the engine that arrived.
    arrived: u128,
}

/// Bytes of an eye catcher.
const EYE_CATCHER: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Levels {
    seq: u128,
    prod: u128,
    cons: u128,
}

/// The peer.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    form: Form,
    rnics: u8,
    proposal_v1: bool,
    size: u128,
    conns: BTreeMap<u8, Conn>,
    /// The engine's queue pair of each link.
    qpns: BTreeMap<u8, u32>,
    /// RMBs of the peer on links other than the first: link and key on the first one, then key and
    /// address.
    rtokens: BTreeMap<(u8, u128), (u128, u128)>,
    /// The engine's last request of each type, by link.
    asked: BTreeMap<(u8, u8), Vec<u8>>,
    /// The peer's last request of each type, by link.
    requested: BTreeMap<(u8, u8), Vec<u8>>,
    /// Groups the engine began, and those a line of the script has taken notice of.
    groups: u8,
    met: u8,
    /// A CONFIRM LINK left room for eye catchers.
    eye_catchers: bool,
}

/// A message as the script would have it if it named nothing: bytes, and the fields
/// whose value cannot be known.
pub(super) struct Template {
    pub(super) bytes: Vec<u8>,
    pub(super) free: Vec<&'static str>,
}

/// Puts values into a message.
struct Writer {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(kind: Kind, length: usize) -> Self {
        Self {
            kind,
            bytes: vec![0; length],
        }
    }

    fn put(&mut self, name: &str, value: u128) -> &mut Self {
        if let Some(field) = layout::field(self.kind, name) {
            field.put(&mut self.bytes, value);
        }
        self
    }

    fn text(&mut self, name: &str, text: &str) -> &mut Self {
        if let Some(field) = layout::field(self.kind, name) {
            put_text(&mut self.bytes, field, text);
        }
        self
    }

    fn done(&mut self, free: &[&'static str]) -> Template {
        Template {
            bytes: std::mem::take(&mut self.bytes),
            free: free.to_vec(),
        }
    }
}

/// Writes a text into a field, filled up with blanks.
pub(super) fn put_text(bytes: &mut [u8], field: layout::Field, text: &str) {
    let blanks = text.bytes().chain(std::iter::repeat(b' '));
    let range = field.range();
    if let Some(place) = bytes.get_mut(range) {
        for (byte, each) in place.iter_mut().zip(blanks) {
            *byte = each;
        }
    }
}

impl Peer {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut proposal_v1 = false;
        let mut size = 2;
        for setting in &setup.settings {
            if let Value::Number(number, _) = setting.value {
                match setting.name.as_str() {
                    "proposal_version" => proposal_v1 = number == 1,
                    "receive_buffer" => size = u128::from((number / 16_384).max(1).ilog2()),
                    _ => {}
                }
            }
        }
        Self {
            form: setup.form,
            rnics: setup.rnics,
            proposal_v1,
            size,
            conns: BTreeMap::new(),
            qpns: BTreeMap::new(),
            rtokens: BTreeMap::new(),
            asked: BTreeMap::new(),
            requested: BTreeMap::new(),
            groups: 0,
            met: 0,
            eye_catchers: false,
        }
    }

    /// Whether it speaks SMC-D.
    pub(super) const fn is_ism(&self) -> bool {
        self.form.is_ism()
    }

    /// A connection begins, perhaps with a number that another one had.
    pub(super) fn begins(&mut self, conn: u8) {
        self.conns.remove(&conn);
    }

    fn agreed(&self, conn: u8, name: &str) -> Option<u128> {
        let (kind, bytes) = self.conns.get(&conn)?.agreed.as_ref()?;
        Some(layout::field(*kind, name)?.get(bytes))
    }

    fn offered(&self, conn: u8, name: &str) -> Option<u128> {
        let (kind, bytes) = self.conns.get(&conn)?.offered.as_ref()?;
        Some(layout::field(*kind, name)?.get(bytes))
    }

    /// The engine's queue pair of a link.
    pub(super) fn qpn(&self, link: u8) -> Option<u32> {
        self.qpns.get(&link).copied()
    }

    /// The link of a queue pair of the engine.
    pub(super) fn link(&self, qpn: u32) -> Option<u8> {
        let mut qpns = self.qpns.iter();
        qpns.find(|(_, known)| **known == qpn)
            .map(|(link, _)| *link)
    }

    /// Where a SEND of the peer goes: to the link, of SMC-D to the connection's DMB.
    pub(super) fn target(&self, conn: u8, link: u8) -> Result<Target, String> {
        if self.form.is_ism() {
            let dmb = self.agreed(conn, "dmb");
            let dmb = dmb.ok_or_else(|| format!("connection {conn} has no DMB yet"))?;
            return Ok(Target::Dmb(dmb as u64));
        }
        let qpn = self.qpn(link);
        let qpn = qpn.ok_or_else(|| format!("the engine has announced no link {link} yet"))?;
        Ok(Target::Qp(qpn))
    }

    /// The channel of something the engine sent.
    pub(super) fn channel(&self, end: End) -> u8 {
        match end {
            End::Qp(qpn) => self.link(qpn).unwrap_or(0),
            End::Conn(conn) => conn,
        }
    }

    /// Key and address of a byte of the engine's element for a connection.
    pub(super) fn memory(&self, conn: u8, link: u8, at: u64) -> Result<(u64, u64), String> {
        let none = || format!("the engine has announced no memory for connection {conn} yet");
        if self.form.is_ism() {
            let dmb = self.agreed(conn, "dmb").ok_or_else(none)?;
            return Ok((dmb as u64, at + 32));
        }
        let (rkey, address) = self
            .agreed(conn, "rkey")
            .zip(self.agreed(conn, "address"))
            .ok_or_else(none)?;
        let first = self.agreed(conn, "index").unwrap_or(1).max(1) - 1;
        let size = 16_384 << self.agreed(conn, "size").unwrap_or(2);
        let (rkey, address) = match self.rtokens.get(&(link, rkey)) {
            Some(rtoken) => *rtoken,
            None => (rkey, address),
        };
        Ok((
            rkey as u64,
            ((address + first * size) as u64).wrapping_add(at),
        ))
    }

    /// Key and address of a byte of the peer's element for a connection.
    pub(super) fn own_memory(&self, conn: u8, link: u8, at: u64) -> (u64, u64) {
        if self.form.is_ism() {
            let dmb = self.offered(conn, "dmb").unwrap_or(peer_dmb(conn));
            return (dmb as u64, at + 32);
        }
        let number = link % 10;
        let (rkey, address) = if number == 1 {
            (
                self.offered(conn, "rkey").unwrap_or(peer_rkey(1, conn)),
                self.offered(conn, "address")
                    .unwrap_or(peer_address(1, conn)),
            )
        } else {
            (peer_rkey(number, conn), peer_address(number, conn))
        };
        let first = self.offered(conn, "index").unwrap_or(1).max(1) - 1;
        let size = 16_384 << self.offered(conn, "size").unwrap_or(2);
        (
            rkey as u64,
            ((address + first * size) as u64).wrapping_add(at),
        )
    }

    /// Where bytes are that a CDC message of the engine announces, and none before did.
    pub(super) fn announced(&mut self, link: u8, bytes: &[u8]) -> Vec<Announced> {
        let kind = Kind::Cdc(false);
        let get = |name| layout::field(kind, name).map_or(0, |field| field.get(bytes));
        let token = |conn: u8| self.offered(conn, "token").unwrap_or_default();
        let mut conns = self.conns.keys().copied();
        let Some(conn) = conns.find(|conn| token(*conn) == get("token")) else {
            return Vec::new();
        };
        let size = 16_384_u32 << self.offered(conn, "size").unwrap_or(2);
        let first = if self.eye_catchers { EYE_CATCHER } else { 0 };
        let (cursor, count) = (get("prod"), |cursor: u128| (cursor as u32).max(first));
        let known = self.conns.entry(conn).or_default();
        let before = std::mem::replace(&mut known.arrived, cursor);
        let pieces = if before >> 32 == cursor >> 32 {
            [(count(before), count(cursor)), (0, 0)]
        } else {
            [(count(before), size), (first, count(cursor))]
        };
        let filled = pieces.into_iter().filter(|(from, to)| from < to);
        let place = |(from, to): (u32, u32)| {
            let (key, address) = self.own_memory(conn, link, from.into());
            let length = to - from;
            Announced {
                key,
                address,
                length,
            }
        };
        filled.map(place).collect()
    }

    /// Returns what the peer sends by default.
    pub(super) fn default_of(&self, kind: Kind, conn: u8, link: u8, reply: bool) -> Template {
        match kind {
            Kind::Clc(form, kind) => self.default_clc(form, kind, conn),
            Kind::Llc(kind) => self.default_llc(kind, conn, link, reply),
            Kind::Cdc(ism) => {
                let sent = self.conns.get(&conn).map(|known| known.sent);
                let sent = sent.unwrap_or_default();
                let token = self.agreed(conn, "token").unwrap_or(0);
                cdc(ism, sent, token)
            }
        }
    }

    /// Returns what the engine is expected to send if the script names nothing.
    pub(super) fn expects(&self, kind: Kind, conn: u8, link: u8, reply: bool) -> Template {
        match kind {
            Kind::Clc(form, kind) => self.expects_clc(form, kind, conn),
            Kind::Llc(kind) => self.expects_llc(kind, link, reply),
            Kind::Cdc(ism) => {
                let sent = self.conns.get(&conn).map(|known| known.engine_cdc);
                let sent = sent.unwrap_or_default();
                let token = self.offered(conn, "token");
                cdc(ism, sent, token.unwrap_or(0xa000_0000 | u128::from(conn)))
            }
        }
    }

    /// Notes what the peer sent.
    pub(super) fn note_sent(&mut self, kind: Kind, conn: u8, link: u8, bytes: &[u8]) {
        let known = self.conns.entry(conn).or_default();
        match kind {
            Kind::Clc(_, 1..=3) => known.offered = Some((kind, bytes.to_vec())),
            Kind::Clc(..) => {}
            Kind::Llc(kind) => {
                self.notes_eye_catchers(kind, bytes);
                if bytes.get(3).is_some_and(|flags| flags & 0x80 == 0) {
                    self.requested.insert((link, kind), bytes.to_vec());
                }
            }
            Kind::Cdc(_) => known.sent = levels(kind, bytes),
        }
    }

    fn notes_eye_catchers(&mut self, kind: u8, bytes: &[u8]) {
        let none = layout::field(Kind::Llc(kind), "no_eye_catcher");
        let none = none.map_or(3, |field| field.get(bytes));
        self.eye_catchers |= kind & 0x1f == 1 && none != 3;
    }

    /// Notes what the engine sent, once a line of the script took it.
    pub(super) fn took(&mut self, kind: Kind, conn: u8, link: u8, bytes: &[u8]) {
        match kind {
            Kind::Llc(kind) if bytes.get(3).is_some_and(|flags| flags & 0x80 == 0) => {
                self.asked.insert((link, kind), bytes.to_vec());
            }
            Kind::Cdc(_) => {
                self.conns.entry(conn).or_default().engine_cdc = levels(kind, bytes);
            }
            Kind::Clc(_, 2 | 3) if bytes.get(7).is_some_and(|flags| flags & 8 != 0) => {
                self.met = self.met.saturating_add(1);
            }
            _ => {}
        }
    }
}

fn levels(kind: Kind, bytes: &[u8]) -> Levels {
    let get = |name| layout::field(kind, name).map_or(0, |field| field.get(bytes));
    Levels {
        seq: get("seq"),
        prod: get("prod"),
        cons: get("cons"),
    }
}

fn cdc(ism: bool, last: Levels, token: u128) -> Template {
    let mut writer = Writer::new(Kind::Cdc(ism), if ism { 32 } else { 44 });
    writer
        .put("type", 0xfe)
        .put("length", 44)
        .put("seq", (last.seq + 1) & 0xffff)
        .put("token", token)
        .put("prod", last.prod)
        .put("cons", last.cons)
        .done(&[])
}
