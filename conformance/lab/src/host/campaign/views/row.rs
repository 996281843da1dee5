//! A record of `sock_diag` as a line of `smcss` of smc-tools 1.8.5.
//!
//! ```text
//!    0 family, state, mode, 0     40 interface u32      16 rx: producer, consumer  }
//!    4 ports, big-endian          52 uid u32            32 tx: producer, consumer  } of attribute 1
//!    8 addresses, 16 bytes each   56 inode u64          48 flags                   }
//!   64 attributes                                       52 prepared, sent, finished}
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER: &str = "State          UID   Inode   Local Address           Peer Address            \
                      Intf Mode ";
const DETAILS: &str = "Shutd Token    Sndbuf   Rcvbuf   Peerbuf  rxprod-Cursor rxcons-Cursor \
                       rxFlags txprod-Cursor txcons-Cursor txFlags txprep-Cursor txsent-Cursor \
                       txfin-Cursor  ";
const SMC_R: &str = "Role IB-device       Port Linkid GID                                      \
                     Peer-GID";
const SMC_D: &str = "GID              Token            Peer-GID         Peer-Token       Linkid";

const ACTIVE: u8 = 1;
const INIT: u8 = 2;
const CLOSED: u8 = 7;
const LISTEN: u8 = 10;

/// What `smcss` is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Columns {
    all: bool,
    listening: bool,
    details: bool,
    wide: bool,
    smcr: bool,
    smcd: bool,
}

/// How many sockets have connections.
pub(super) fn active(records: &[Vec<u8>]) -> usize {
    let states = records.iter().filter_map(|record| record.get(1));
    states.filter(|state| **state == ACTIVE).count()
}

impl Columns {
    pub(super) fn of(options: &[&str]) -> Self {
        let has = |option| options.contains(&option);
        Self {
            all: has("-a"),
            listening: has("-l"),
            details: has("-d"),
            wide: has("-W"),
            smcr: has("-R"),
            smcd: has("-D"),
        }
    }

    /// All lines, the header first.
    pub(super) fn list(self, records: &[Vec<u8>]) -> Vec<String> {
        let mut header = HEADER.to_owned();
        if self.details {
            header.push_str(DETAILS);
        }
        if self.smcr {
            header.push_str(SMC_R);
        }
        if self.smcd {
            header.push_str(SMC_D);
        }
        // A column of ours follows.
        if !header.ends_with(' ') {
            header.push(' ');
        }
        let lines = records.iter().filter(|record| self.wants(record));
        let lines = lines.map(|record| self.line(record).unwrap_or_default());
        std::iter::once(header).chain(lines).collect()
    }

    fn wants(self, record: &[u8]) -> bool {
        let [_, state, mode, ..] = record else {
            return false;
        };
        if self.listening {
            return *state == LISTEN;
        }
        (self.all || !matches!(*state, LISTEN | INIT))
            && (!self.smcr || *mode == 0)
            && (!self.smcd || *mode == 2)
    }

    fn line(self, record: &[u8]) -> Option<String> {
        let &[_, state, mode, _, ..] = record else {
            return None;
        };
        let (uid, inode) = (u32_at(record, 52)?, u64_at(record, 56)?);
        let mut line = format!("{:<14} {uid:05} {inode:07} ", name(state));
        if state == INIT {
            return Some(line);
        }
        line.push_str(&format!("{:<23} ", self.address(record, 8, 4)?));
        if state == LISTEN {
            return Some(line);
        }
        line.push_str(&format!("{:<23} ", self.address(record, 24, 6)?));
        line.push_str(&format!("{:04x} ", u32_at(record, 40)?));
        if state == CLOSED {
            return Some(line);
        }
        let attribute = |kind| attribute(record.get(64..).unwrap_or_default(), kind);
        if mode == 1 {
            let reasons = attribute(5)?;
            line.push_str(&format!("TCP {:#010x}", u32_at(reasons, 0)?));
            match u32_at(reasons, 4)? {
                0 => {}
                peer => line.push_str(&format!("/{peer:#010x}")),
            }
            line.push(' ');
            return Some(line);
        }
        line.push_str(if mode == 0 { "SMCR " } else { "SMCD " });
        if self.details {
            let shut = attribute(3)?.first().copied()?;
            line.push_str(&details(attribute(1)?, shut)?);
        }
        if self.smcr {
            line.push_str(&link(attribute(2)?)?);
        }
        if self.smcd {
            let of = attribute(4)?;
            for at in [16, 24, 8, 32] {
                line.push_str(&format!("{:016x} ", u64_at(of, at)?));
            }
            line.push_str(&format!("{:08x} ", u32_at(of, 0)?));
        }
        Some(line)
    }

    fn address(self, record: &[u8], at: usize, port: usize) -> Option<String> {
        let bytes: [u8; 16] = record.get(at..at + 16)?.try_into().ok()?;
        let [a, b, c, d, rest @ ..] = bytes;
        let ip: IpAddr = match rest == [0; 12] {
            true => Ipv4Addr::new(a, b, c, d).into(),
            false => Ipv6Addr::from(bytes).into(),
        };
        let port = u16::from_be_bytes(record.get(port..port + 2)?.try_into().ok()?).to_string();
        let (ip, room) = (ip.to_string(), 22 - port.len());
        Some(match ip.get(..room - 2) {
            Some(cut) if !self.wide && ip.len() > room => format!("{cut}..:{port}"),
            _ => format!("{ip}:{port}"),
        })
    }
}

fn details(of: &[u8], shut: u8) -> Option<String> {
    let reads = if shut & 1 == 0 { '<' } else { 'R' };
    let writes = if shut & 2 == 0 { '>' } else { 'W' };
    let mut text = format!(" {reads}-{writes}  ");
    for at in [0, 4, 8, 12] {
        text.push_str(&format!("{:08x} ", u32_at(of, at)?));
    }
    let cursor = |at: usize| {
        Some(format!(
            "{:04x}:{:08x} ",
            u16_at(of, at + 2)?,
            u32_at(of, at + 4)?
        ))
    };
    let flags = |at: usize| Some(format!("{:02x}:{:02x}   ", of.get(at)?, of.get(at + 1)?));
    for part in [
        cursor(16)?,
        cursor(24)?,
        flags(48)?,
        cursor(32)?,
        cursor(40)?,
        flags(50)?,
        cursor(52)?,
        cursor(60)?,
        cursor(68)?,
    ] {
        text.push_str(&part);
    }
    Some(text)
}

fn link(of: &[u8]) -> Option<String> {
    let text = |from: usize, to: usize| {
        let bytes = of.get(from..to)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let role = if *of.get(146)? == 0 { "CLNT" } else { "SERV" };
    Some(format!(
        "{role:>4} {:<15} {:02x}   {:02x}     {:<40} {} ",
        text(1, 65)?,
        of.get(65)?,
        of.first()?,
        text(66, 106)?,
        text(106, 146)?
    ))
}

fn name(state: u8) -> String {
    let name = match state {
        ACTIVE => "ACTIVE",
        INIT => "INIT",
        CLOSED => "CLOSED",
        LISTEN => "LISTEN",
        20 => "PEERCLOSEWAIT1",
        21 => "PEERCLOSEWAIT2",
        22 => "APPCLOSEWAIT1",
        23 => "APPCLOSEWAIT2",
        24 => "APPFINCLOSEWAIT1",
        25 => "PEERFINCLOSEWAIT",
        26 => "PEERABORTWAIT",
        27 => "PROCESSABORT",
        other => return format!("{other:#x}?"),
    };
    name.to_owned()
}

/// The value of an attribute.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(4..length)?;
        if u16_at(bytes, 2)? == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
