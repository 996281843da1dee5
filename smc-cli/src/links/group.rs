//! A link group with its links and what its connections take.

use std::collections::HashMap;

use smc_view::{GroupRecord, LinkRecord, Name, Role, Snapshot, Technology, state};

use crate::ss::row::{process_name, role_name, technology_name};

/// A link group of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What the process publishes of it.
    pub record: GroupRecord,
    /// Links of the group, by their numbers.
    pub links: Vec<Link>,
    /// Connections that it carries.
    pub connections: u64,
    /// Bytes of their send buffers.
    pub send_buffers: u64,
    /// Bytes of the buffers that the peer writes to.
    pub receive_buffers: u64,
    /// The process and the name of its program; `None` for a group of the kernel's SMC.
    pub owner: Option<(u32, String)>,
    /// What the kernel says of its group.
    pub kernel: OfKernel,
}

/// What the kernel says of a link group of its own, and the links say of those of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfKernel {
    /// The kind of the group.
    pub kind: Option<&'static str>,
    /// PNET ID.
    pub pnet: Name,
}

/// A link of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// What the process publishes of it.
    pub record: LinkRecord,
    /// Connections that write over it.
    pub connections: u64,
    /// State of the link, as the kernel names it.
    pub state: &'static str,
    /// Numbers of the link at both ends; `None` if they are not known.
    pub uids: Option<[u32; 2]>,
}

/// The link groups of a process. A connection and a link are in one of them at most: a hostile
/// process may give all its groups the same number, of which the first one counts.
#[must_use]
pub fn of(owner: &(u32, String), snapshot: &Snapshot) -> Vec<Group> {
    let groups = snapshot.groups.iter().map(|record| Group {
        record: *record,
        links: Vec::new(),
        connections: 0,
        send_buffers: 0,
        receive_buffers: 0,
        owner: Some(owner.clone()),
        kernel: OfKernel::default(),
    });
    let mut groups: Vec<_> = groups.collect();
    let mut places = HashMap::new();
    for (place, group) in groups.iter().enumerate() {
        let GroupRecord {
            stack,
            number,
            technology,
            ..
        } = group.record;
        places.entry((stack, number, technology)).or_insert(place);
    }
    let mut over: HashMap<(usize, u8), u64> = HashMap::new();
    for (at, _) in &snapshot.connections {
        let Some(number) = at.group.filter(|_| at.state != state::CLOSED) else {
            continue;
        };
        let Some(place) = places.get(&(at.stack, number, at.technology)) else {
            continue;
        };
        if let Some(group) = groups.get_mut(*place) {
            group.connections += 1;
            group.send_buffers += u64::from(at.send_buffer);
            group.receive_buffers += u64::from(at.receive_buffer);
            *over.entry((*place, at.link)).or_default() += 1;
        }
    }
    for link in &snapshot.links {
        let Some(place) = places.get(&(link.stack, link.group, Technology::SmcR)) else {
            continue;
        };
        if let Some(group) = groups.get_mut(*place) {
            group.links.push(Link {
                record: *link,
                connections: over.get(&(*place, link.link)).copied().unwrap_or(0),
                state: match link.active {
                    true => "LINK_ACTIVE",
                    false => "LINK_INACTIVE",
                },
                uids: match link.user_ids {
                    (0, _) | (_, 0) => None,
                    (own, peer) => Some([own, peer]),
                },
            });
        }
    }
    for group in &mut groups {
        group.links.sort_by_key(|link| link.record.link);
    }
    groups
}

impl Group {
    /// The number by which `smcx ss` names it, too.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.record.number as u32
    }

    /// The technology, as `mode` of `smcx ss` has it.
    #[must_use]
    pub const fn technology(&self) -> &'static str {
        technology_name(match self.record.technology {
            Technology::SmcR => Technology::SmcR,
            _ => Technology::SmcD,
        })
    }

    /// The role of this side.
    #[must_use]
    pub const fn role(&self) -> &'static str {
        role_name(matches!(self.record.role, Role::Server))
    }

    /// PNET ID of the ports of its links; empty if they have none.
    #[must_use]
    pub fn pnet(&self) -> Name {
        let links = self.links.iter().map(|link| link.record.pnet);
        let mut all = std::iter::once(self.kernel.pnet).chain(links);
        all.find(|pnet| *pnet != Name::default())
            .unwrap_or_default()
    }

    /// The operating system of the peer, as `smcr linkgroup` has it.
    #[must_use]
    pub const fn peer_os(&self) -> Option<&'static str> {
        match self.record.peer_os {
            1 => Some("ZOS"),
            2 => Some("LINUX"),
            3 => Some("AIX"),
            _ => None,
        }
    }

    /// The process and its program, or the kernel.
    #[must_use]
    pub fn process(&self) -> String {
        match &self.owner {
            Some((process, program)) => process_name(*process, program),
            None => "kernel".to_owned(),
        }
    }

    /// The kind of a group of SMC-R, by its links: which side has one RNIC for two links.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if let Some(kind) = self.kernel.kind {
            return kind;
        }
        let mut active = self.links.iter().filter(|link| link.record.active);
        let (Some(first), Some(second)) = (active.next(), active.next()) else {
            return match self.links.iter().any(|link| link.record.active) {
                true => "SINGLE",
                false => "NONE",
            };
        };
        let (first, second) = (&first.record, &second.record);
        match (first.gid == second.gid, first.peer_gid == second.peer_gid) {
            (true, _) => "ASYML",
            (_, true) => "ASYMP",
            _ => "SYM",
        }
    }
}
