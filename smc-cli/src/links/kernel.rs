//! Link groups of the kernel's own SMC, by its family of generic netlink.

use std::net::Ipv6Addr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice};
use smc_view::{GroupRecord, Label, LinkRecord, Name, Role, Technology};

use super::group::{Group, Link, OfKernel};
use crate::netlink::{
    Refusal, attributes, list, number, read_until_unchanged, text, u32_at, u64_at,
};

/// The family of all that the kernel reports about SMC.
pub(crate) const FAMILY: &str = "SMC_GEN_NETLINK";
/// `SMC_NETLINK_GET_LINK_SMCR`: each group of SMC-R, followed by its links.
const LINKS: u8 = 3;
/// `SMC_NETLINK_GET_LGR_SMCD`.
const GROUPS_SMCD: u8 = 4;
/// What a message is about: `SMC_GEN_LGR_SMCR`, `SMC_GEN_LINK_SMCR`, `SMC_GEN_LGR_SMCD`.
const GROUP_SMCR: u16 = 2;
const LINK_SMCR: u16 = 3;
const GROUP_SMCD: u16 = 4;

/// Most groups, and most links of one, that are listed.
const GROUPS: usize = 1 << 16;
const LINKS_OF_GROUP: usize = 16;

/// The groups, those of SMC-R with their links, and why they are not all: mostly that the kernel
/// has no SMC.
pub(crate) fn groups() -> (Vec<Group>, Result<(), Refusal>) {
    let ((mut groups, interfaces), outcome) = read_until_unchanged(|| {
        let (mut groups, mut interfaces) = (Vec::new(), Vec::new());
        let mut lists = [GROUPS_SMCD, LINKS].into_iter().map(|command| {
            list(FAMILY, command, |message| {
                parse(message, &mut groups, &mut interfaces);
            })
        });
        let outcome = lists.try_for_each(|listed| listed);
        ((groups, interfaces), outcome)
    });
    name_interfaces(&mut groups, &interfaces);
    (groups, outcome)
}

/// Adds what a message is about: a group, or a link to the group before it, whose interface is then
/// added as its group, its position there and its index. What is incomplete is left out.
pub fn parse(message: &[u8], groups: &mut Vec<Group>, interfaces: &mut Vec<(usize, usize, u32)>) {
    for (kind, value) in attributes(message) {
        match kind {
            GROUP_SMCR | GROUP_SMCD if groups.len() < GROUPS => {
                groups.extend(group(value, kind == GROUP_SMCR));
            }
            LINK_SMCR => {
                let last = groups.len().saturating_sub(1);
                if let Some(group) = groups.last_mut()
                    && group.record.technology == Technology::SmcR
                    && group.links.len() < LINKS_OF_GROUP
                    && let Some((link, interface)) = link(value)
                {
                    interfaces.push((last, group.links.len(), interface));
                    group.links.push(link);
                }
            }
            _ => {}
        }
    }
}

/// A group of SMC-R, or of SMC-D.
fn group(value: &[u8], is_rdma: bool) -> Option<Group> {
    let mut record = GroupRecord::default();
    record.technology = match is_rdma {
        true => Technology::SmcR,
        false => Technology::SmcD,
    };
    record.version = 1;
    let mut kernel = OfKernel::default();
    let (mut id, mut connections, mut buffers) = (None, 0, [0; 2]);
    for (kind, value) in attributes(value) {
        let byte = value.first().copied().unwrap_or(0);
        match (kind, is_rdma) {
            (1, _) => id = u32_at(value, 0),
            (2, true) => {
                record.role = match byte {
                    0 => Role::Client,
                    _ => Role::Server,
                };
            }
            (3, true) => kernel.kind = kind_of(byte),
            (4, true) | (6, false) => kernel.pnet = Name::of(text(value).trim_end()),
            (5, true) | (4, false) => record.vlan = byte.into(),
            (6, true) | (5, false) => connections = u32_at(value, 0).unwrap_or(0).into(),
            (7, true) | (9, false) => version_2(value, &mut record),
            (8, true) => limits(value, &mut record),
            (2, false) => record.gids.0 = u64_at(value, 0).unwrap_or(0),
            (3, false) => record.gids.1 = u64_at(value, 0).unwrap_or(0),
            (12, _) => buffers[0] = number(value).unwrap_or(0),
            (13, _) => buffers[1] = number(value).unwrap_or(0),
            _ => {}
        }
    }
    record.number = id?.into();
    Some(Group {
        record,
        links: Vec::new(),
        connections,
        send_buffers: buffers[0],
        receive_buffers: buffers[1],
        owner: None,
        kernel,
    })
}

fn version_2(value: &[u8], record: &mut GroupRecord) {
    for (kind, value) in attributes(value) {
        let byte = value.first().copied().unwrap_or(0);
        match kind {
            0 => record.version = byte,
            1 => record.release = byte,
            2 => record.peer_os = byte,
            3 => record.eid = label(value),
            4 => record.peer_host = label(value),
            _ => {}
        }
    }
}

fn limits(value: &[u8], record: &mut GroupRecord) {
    for (kind, value) in attributes(value) {
        let byte = value.first().copied().unwrap_or(0);
        match kind {
            1 => record.direct = byte != 0,
            2 => record.max_connections = byte,
            3 => record.max_links = byte,
            _ => {}
        }
    }
}

/// A link, and the index of its interface.
fn link(value: &[u8]) -> Option<(Link, u32)> {
    let mut record = LinkRecord::default();
    let (mut id, mut connections, mut interface, mut state) = (None, 0, 0, 0);
    let mut uids = [None; 2];
    for (kind, value) in attributes(value) {
        let word = u32_at(value, 0).unwrap_or(0);
        match kind {
            1 => id = value.first().copied(),
            2 => record.device = Name::of(&text(value)),
            3 => record.port = value.first().copied().unwrap_or(0),
            4 => record.gid = gid(value),
            5 => record.peer_gid = gid(value),
            6 => connections = word.into(),
            7 => interface = word,
            // In network order, as messages have them.
            8 => uids[0] = Some(u32::from_be(word)),
            9 => uids[1] = Some(u32::from_be(word)),
            10 => state = word,
            _ => {}
        }
    }
    record.link = id?;
    record.active = state == 3;
    let link = Link {
        record,
        connections,
        state: match state {
            0 => "LINK_UNUSED",
            1 => "LINK_INACTIVE",
            2 => "LINK_ACTIVATING",
            3 => "LINK_ACTIVE",
            _ => "n/a",
        },
        uids: uids[0].zip(uids[1]).map(|(own, peer)| [own, peer]),
    };
    Some((link, interface))
}

/// The kind of a group by the kernel's number.
const fn kind_of(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "NONE",
        1 => "SINGLE",
        2 => "SYM",
        3 => "ASYMP",
        4 => "ASYML",
        _ => return None,
    })
}

/// A GID of its text.
fn gid(value: &[u8]) -> [u8; 16] {
    let gid = text(value).parse::<Ipv6Addr>();
    gid.map_or([0; 16], |gid| gid.octets())
}

fn label(value: &[u8]) -> Label {
    let mut label = [0; 32];
    label
        .iter_mut()
        .zip(value)
        .for_each(|(to, from)| *to = *from);
    Label(label)
}

/// Sets the names of interfaces.
fn name_interfaces(groups: &mut [Group], interfaces: &[(usize, usize, u32)]) {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None);
    let Ok(socket) = socket else {
        return;
    };
    for (group, link, index) in interfaces {
        let link = groups
            .get_mut(*group)
            .and_then(|group| group.links.get_mut(*link));
        if let (Some(link), Ok(name)) = (link, netdevice::index_to_name(&socket, *index)) {
            link.record.interface = Name::of(&name);
        }
    }
}
