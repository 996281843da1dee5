//! LLC messages of the peer, and what it learns from those of the engine.

use super::{Peer, Template, Writer};
use crate::scripts::layout;
use crate::scripts::names::{ENGINE, PEER, peer_address, peer_qpn, peer_rkey, port};
use crate::scripts::parsed::Kind;

fn writer(kind: u8, length: usize, reply: bool) -> Writer {
    let mut writer = Writer::new(Kind::Llc(kind), length);
    writer
        .put("type", kind.into())
        .put("length", length as u128)
        .put("reply", reply.into());
    writer
}

const fn is_v2(kind: u8) -> bool {
    kind & 0xe0 == 0x20
}

impl Peer {
    /// A request as the answer to it.
    fn echo(request: &[u8], kind: u8) -> Writer {
        let mut bytes = request.to_vec();
        if let Some(flags) = bytes.get_mut(3) {
            *flags |= 0x80;
        }
        Writer {
            kind: Kind::Llc(kind),
            bytes,
        }
    }

    fn confirm_link(&self, kind: u8, host: u8, link: u8, reply: bool) -> Writer {
        let mut writer = writer(kind, 44, reply);
        let (gid, mac) = port(host, self.port_of(host, link));
        writer
            .put("no_eye_catcher", 3)
            .put("mac", mac)
            .put("gid", gid)
            .put("link", (link % 10).into())
            .put("max_links", 2);
        if host == PEER {
            writer
                .put("qpn", peer_qpn(link))
                .put("user_id", 0x55 + u128::from(link));
        } else if let Some(qpn) = self.qpn(link) {
            writer.put("qpn", qpn.into());
        }
        if is_v2(kind) {
            writer.put("max_connections", 255);
        }
        writer
    }

    /// The port of a link: the peer has as many as there are links, the engine as the
    /// setup has.
    fn port_of(&self, host: u8, link: u8) -> u8 {
        let number = link % 10;
        if host == ENGINE && number > self.rnics {
            return 1;
        }
        number
    }

    /// The link that the last ADD LINK is about.
    fn being_added(&self, link: u8, kind: u8) -> u8 {
        let kind = kind & 0x20 | 2;
        let asked = [&self.asked, &self.requested].map(|known| known.get(&(link, kind)));
        let field = layout::field(Kind::Llc(kind), "link");
        let found = asked.into_iter().flatten().next().zip(field);
        found.map_or(2, |(message, field)| field.get(message) as u8)
    }

    fn add_link(&self, kind: u8, host: u8, over: u8, number: u8, reply: bool) -> Writer {
        let v2 = is_v2(kind);
        let mut writer = writer(kind, if v2 { 72 } else { 44 }, reply);
        let (gid, mac) = port(host, self.port_of(host, number));
        writer
            .put("mac", mac)
            .put("gid", gid)
            .put("link", number.into())
            .put("mtu", 3);
        if host == PEER {
            let link = over / 10 * 10 + number;
            writer.put("qpn", peer_qpn(link)).put("psn", number.into());
        }
        if v2 {
            writer.put("direct", 1).put("target_gid", gid);
        }
        writer
    }

    pub(super) fn default_llc(&self, kind: u8, conn: u8, link: u8, reply: bool) -> Template {
        let mut made = match kind & 0x1f {
            1 => self.confirm_link(kind, PEER, link, reply),
            2 => {
                let number = if reply {
                    self.being_added(link, kind)
                } else {
                    2
                };
                self.add_link(kind, PEER, link, number, reply)
            }
            3 => {
                let number = self.being_added(link, 2);
                let mut writer = writer(kind, 44, reply);
                writer
                    .put("link", number.into())
                    .put("remaining", 1)
                    .put("ref1", peer_rkey(link % 10, 1))
                    .put("new1", peer_rkey(number, 1))
                    .put("address1", peer_address(number.max(1), 1));
                writer
            }
            _ if reply && self.asked.contains_key(&(link, kind)) => {
                Self::echo(&self.asked[&(link, kind)], kind)
            }
            4 => {
                let mut writer = writer(kind, 44, reply);
                writer.put("link", 1).put("reason", 0x0003_0000);
                writer
            }
            5 => {
                let mut writer = writer(kind, 44, reply);
                writer.put("count", 1).put("gid1", port(PEER, 2).0);
                writer
            }
            6 => {
                let mut writer = writer(kind, 44, reply);
                writer
                    .put("rkey", peer_rkey(link % 10, conn))
                    .put("address", peer_address(link % 10, conn));
                writer
            }
            8 => {
                let mut writer = writer(kind, 44, reply);
                writer.put("remaining", 1);
                writer
            }
            9 => {
                let mut writer = writer(kind, 44, reply);
                writer
                    .put("count", 1)
                    .put("rkey1", peer_rkey(link % 10, conn));
                writer
            }
            _ => writer(kind, 44, reply),
        };
        made.done(&[])
    }

    pub(super) fn expects_llc(&self, kind: u8, link: u8, reply: bool) -> Template {
        let mut made = match kind & 0x1f {
            1 => {
                let mut writer = self.confirm_link(kind, ENGINE, link, reply);
                return writer.done(&["user_id"]);
            }
            2 => {
                let number = if reply {
                    self.being_added(link, kind)
                } else {
                    2
                };
                let mut writer = self.add_link(kind, ENGINE, link, number, reply);
                return writer.done(&["qpn", "psn", "ref1", "new1", "address1"]);
            }
            3 => {
                let mut writer = writer(kind, 44, reply);
                let number = self.being_added(link, 2);
                writer.put("link", number.into()).put("remaining", 1);
                return writer.done(&["ref1", "new1", "address1"]);
            }
            _ if reply && self.requested.contains_key(&(link, kind)) => {
                Self::echo(&self.requested[&(link, kind)], kind)
            }
            4 => {
                let mut writer = writer(kind, 44, reply);
                writer.put("link", 1);
                writer
            }
            6 => {
                let mut writer = writer(kind, 44, reply);
                return writer.done(&["rkey", "address"]);
            }
            7 => {
                let mut writer = writer(kind, 44, reply);
                return writer.done(&["data"]);
            }
            9 => {
                let mut writer = writer(kind, 44, reply);
                writer.put("count", 1);
                return writer.done(&["rkey1"]);
            }
            _ => writer(kind, 44, reply),
        };
        made.done(&[])
    }

    /// Notes an LLC message of the engine: queue pairs of new links, and where its RMBs
    /// are on them. The link whose queue pair it names, if it does.
    pub(in crate::scripts) fn learns_llc(&mut self, link: u8, bytes: &[u8]) -> Option<u8> {
        let kind = *bytes.first()?;
        let mut begun = None;
        let of = Kind::Llc(kind);
        let get = |name| layout::field(of, name).map_or(0, |field| field.get(bytes));
        let number = get("link") as u8;
        let group = link / 10 * 10;
        self.notes_eye_catchers(kind, bytes);
        match kind & 0x1f {
            2 if kind < 0x40 && get("rejected") == 0 && get("qpn") != 0 => {
                begun = Some(group + number);
                self.qpns.insert(group + number, get("qpn") as u32);
                for index in 0..get("count").min(32) as usize {
                    self.learn_pair(group + number, bytes, 72 + 16 * index);
                }
            }
            3 if kind == 3 => {
                for index in 0..get("remaining").min(2) as usize {
                    self.learn_pair(group + number, bytes, 8 + 16 * index);
                }
            }
            6 if kind < 0x40 && get("reply") == 0 => {
                for index in 0..get("others").min(2) as usize {
                    self.learn_entry(group, get("rkey"), bytes, 17 + 13 * index);
                }
            }
            _ => {}
        }
        begun
    }

    fn learn_pair(&mut self, link: u8, bytes: &[u8], at: usize) {
        let number = |at: usize, length: usize| number(bytes, at, length);
        let (reference, key) = (number(at, 4), number(at + 4, 4));
        self.rtokens
            .insert((link, reference), (key, number(at + 8, 8)));
    }

    fn learn_entry(&mut self, group: u8, reference: u128, bytes: &[u8], at: usize) {
        let number = |at: usize, length: usize| number(bytes, at, length);
        let link = group + number(at, 1) as u8;
        self.rtokens
            .insert((link, reference), (number(at + 1, 4), number(at + 5, 8)));
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> u128 {
    let bytes = bytes.get(at..at + length).unwrap_or(&[]);
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u128::from(*byte))
}
