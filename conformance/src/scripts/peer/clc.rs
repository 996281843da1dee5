//! CLC messages of the peer, and what it learns from those of the engine.

use super::{Peer, Template, Writer};
use crate::scripts::layout;
use crate::scripts::names::{ENGINE, PEER, identity, peer_address, peer_dmb, peer_qpn};
use crate::scripts::names::{peer_rkey, port};
use crate::scripts::parsed::{Form, Kind};

const SMCR: u128 = 0xe2d4_c3d9;
const SMCD: u128 = 0xe2d4_c3c4;
/// The channel of emulated ISM devices.
const LOOPBACK: u128 = 0xffff;
/// CHID of real devices, in version 1.
const CHID: u128 = 7;

/// A message with its header and its end.
fn writer(form: Form, kind: u8, length: usize) -> Writer {
    let mut writer = Writer::new(Kind::Clc(form, kind), length);
    let smcd = form.is_ism() && matches!(kind, 2 | 3);
    let eye_catcher = if smcd { SMCD } else { SMCR };
    writer
        .put("eyecatcher", eye_catcher)
        .put("type", kind.into())
        .put("length", length as u128)
        .put("version", if form.is_v2() { 2 } else { 1 });
    let end = length - 4;
    if let Some(place) = writer.bytes.get_mut(end..) {
        place.copy_from_slice(&(eye_catcher as u32).to_be_bytes());
    }
    if smcd {
        writer.put("path", 1);
    }
    writer
}

/// An Accept or Confirm of a host: what both sides have in common.
fn half(form: Form, kind: u8, host: u8, first: bool) -> Writer {
    let length = match (form, first) {
        (Form::R1, _) => 68,
        (Form::R2, false) => 108,
        // A Confirm lists the GIDs of the client.
        (Form::R2, true) => 160 + if kind == 3 { 20 } else { 0 },
        (Form::D1, _) => 48,
        (Form::D2, false) => 78,
        (Form::D2, true) => 130,
    };
    let mut writer = writer(form, kind, length);
    writer.put("first_contact", first.into());
    if form.is_ism() {
        writer.put("gid", 0x1001 + u128::from(host));
    } else {
        let (gid, mac) = port(host, 1);
        writer
            .put("peer_id", identity(host))
            .put("gid", gid)
            .put("mac", mac)
            .put("index", 1)
            .put("mtu", 3);
    }
    if form.is_v2() {
        writer.text("eid", "COMMON");
    }
    if form == Form::D2 {
        writer.put("chid", LOOPBACK).put("gid_ext", 9);
    }
    if form.is_v2() && first {
        // A connection of 255, two links, 128-bit GIDs.
        writer.put("release", 1).put("features", 1);
        writer.text("hostname", if host == PEER { "peer" } else { "" });
        if form == Form::R2 {
            writer
                .put("direct", 1)
                .put("max_connections", 255)
                .put("max_links", 2);
            if kind == 3 {
                writer.put("gids", 1).put("gid1", port(host, 1).0);
            }
        }
    }
    writer
}

impl Peer {
    fn proposal(&self, form: Form, host: u8) -> Writer {
        let (gid, mac) = port(host, 1);
        // The engine writes the form of version 2 whatever it offers.
        let new_form = host == ENGINE && !self.proposal_v1;
        let mut writer = match form {
            Form::R1 if new_form => {
                let mut writer = writer(form, 1, 92);
                writer.put("version", 2).put("path2", 2).put("skip", 40);
                writer
            }
            Form::R1 => writer(form, 1, 52),
            Form::D1 => {
                let mut writer = writer(form, 1, 92);
                writer
                    .put("version", 2)
                    .put("path", 1)
                    .put("path2", 2)
                    .put("skip", 40);
                if let Some(place) = writer.bytes.get_mut(40..50) {
                    place[..8].copy_from_slice(&(0x1001 + u64::from(host)).to_be_bytes());
                    place[8..].copy_from_slice(&(CHID as u16).to_be_bytes());
                }
                writer
            }
            Form::R2 => {
                let mut writer = writer(form, 1, 156);
                writer
                    .put("path", 2)
                    .put("path2", 0)
                    .put("v2_offset", 28)
                    .put("eids", 1)
                    .put("roce_gid", gid)
                    .put("max_connections", 255)
                    .put("max_links", 2);
                writer
            }
            Form::D2 => {
                let mut writer = writer(form, 1, 224);
                writer
                    .put("path", 2)
                    .put("path2", 1)
                    .put("v2_offset", 28)
                    .put("eids", 1)
                    .put("ism_gids", 2)
                    .put("smcd_offset", 64)
                    .put("gid1", 0x1001 + u128::from(host))
                    .put("chid1", LOOPBACK)
                    .put("gid2", 9)
                    .put("chid2", LOOPBACK);
                writer
            }
        };
        if form.is_v2() {
            writer
                .put("release", 1)
                .put("features", 1)
                .text("eid", "COMMON");
        }
        // A client of version 2 alone leaves its identity out.
        let anonymous = form.is_v2() && host == PEER;
        if !(form.is_ism() || anonymous) {
            writer
                .put("peer_id", identity(host))
                .put("gid", gid)
                .put("mac", mac);
        }
        writer
    }

    fn decline(form: Form, host: u8) -> Writer {
        let mut writer = writer(form, 4, if form.is_v2() { 44 } else { 28 });
        if !form.is_ism() || host == ENGINE {
            writer.put("peer_id", identity(host));
        }
        writer
    }

    pub(super) fn default_clc(&self, form: Form, kind: u8, conn: u8) -> Template {
        // A Confirm is of the first contact if the engine's Accept was.
        let first = match (kind, self.agreed(conn, "first_contact")) {
            (3, Some(first)) => first == 1,
            _ => self.met == 0,
        };
        let mut writer = match kind {
            1 => self.proposal(form, PEER),
            2 | 3 => half(form, kind, PEER, first),
            _ => {
                let mut writer = Self::decline(form, PEER);
                return writer.put("code", 0x0300_0000).done(&[]);
            }
        };
        if kind == 1 {
            return writer.done(&[]);
        }
        if form.is_ism() {
            writer.put("dmb", peer_dmb(conn)).put("size", 0);
        } else {
            // (The engine's Accept has begun the group already.)
            let group = if first && kind == 3 {
                self.groups.saturating_sub(1)
            } else {
                0
            };
            writer
                .put("qpn", peer_qpn(group.saturating_mul(10).saturating_add(1)))
                .put("rkey", peer_rkey(1, conn))
                .put("address", peer_address(1, conn))
                .put("token", 0xa000_0000 | u128::from(conn))
                .put("size", 2)
                .put("psn", 0x77);
        }
        writer.done(&[])
    }

    pub(super) fn expects_clc(&self, form: Form, kind: u8, conn: u8) -> Template {
        if kind == 1 {
            return self.proposal(form, ENGINE).done(&[]);
        }
        if kind == 4 {
            return Self::decline(form, ENGINE).done(&["os"]);
        }
        // A Confirm is of the first contact if the peer's Accept was.
        let first = match (kind, self.offered(conn, "first_contact")) {
            (3, Some(first)) => first == 1,
            _ => self.met == 0,
        };
        let mut writer = half(form, kind, ENGINE, first);
        writer.put("size", self.size);
        if form.is_ism() {
            return writer.done(&["dmb", "link_id", "hostname"]);
        }
        if let (false, Some(qpn)) = (first, self.qpn(1)) {
            writer.put("qpn", qpn.into());
            return writer.done(&["rkey", "address", "token", "psn"]);
        }
        writer.done(&["qpn", "rkey", "address", "token", "psn", "hostname"])
    }

    /// Notes bytes of the engine over TCP: the whole messages among them, or, behind
    /// what cannot be one, everything.
    pub(in crate::scripts) fn takes_tcp(&mut self, conn: u8, bytes: &[u8]) -> Vec<Vec<u8>> {
        let known = self.conns.entry(conn).or_default();
        known.pending.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let [_, _, _, _, _, high, low, _, ..] = known.pending.as_slice() {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if length < 8 || length > known.pending.len() {
                break;
            }
            let rest = known.pending.split_off(length);
            messages.push(std::mem::replace(&mut known.pending, rest));
        }
        messages
    }

    /// Notes a message of the engine: the link whose queue pair it names, if it does.
    pub(in crate::scripts) fn learns_clc(&mut self, conn: u8, message: &[u8]) -> Option<u8> {
        let [e0, e1, e2, e3, kind @ (2 | 3), _, _, version, ..] = *message else {
            return None;
        };
        let mut begun = None;
        let smcd = u128::from(u32::from_be_bytes([e0, e1, e2, e3])) == SMCD;
        let form = match (smcd, version >> 4) {
            (false, 1) => Form::R1,
            (false, _) => Form::R2,
            (true, 1) => Form::D1,
            (true, _) => Form::D2,
        };
        let kind = Kind::Clc(form, kind);
        let get = |name| layout::field(kind, name).map_or(0, |field| field.get(message));
        if get("first_contact") == 1 {
            let link = self
                .groups
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(1));
            self.groups = self.groups.saturating_add(1);
            // (The links of the 27th group have no names.)
            begun = link.filter(|_| !smcd);
            if let Some(link) = begun {
                self.qpns.insert(link, get("qpn") as u32);
            }
        }
        let known = self.conns.entry(conn).or_default();
        known.agreed = Some((kind, message.to_vec()));
        begun
    }
}
