//! Connections of programs with smc-sockets, of this user or, for root, of all.

use smc_view::{Connection, Counted, Found, LinkRecord, Role, Technology};

use super::row::{Cursor, Details, Link, Memory, Mode, Row, gid};
use crate::output::Failure;

/// All of them, in the order of their processes. One process is read after the other: what
/// many have published takes no more memory than what one has.
pub(super) fn rows() -> Result<impl Iterator<Item = Row>, Failure> {
    let rows = |found: Found| {
        let snapshot = found.view.read();
        let connections = snapshot.connections.iter();
        let rows = connections.map(|(at, counted)| row(&found, &snapshot.links, at, counted));
        rows.collect::<Vec<_>>()
    };
    Ok(crate::processes::all()?.flat_map(rows))
}

fn row(found: &Found, links: &[LinkRecord], at: &Connection, counted: &Counted) -> Row {
    let mode = match at.technology {
        Technology::SmcD => Mode::SmcD,
        Technology::SmcR => Mode::SmcR,
        Technology::Tcp => Mode::Tcp(at.reason, at.peer_reason),
        _ => Mode::Unknown,
    };
    let is_smc = matches!(mode, Mode::SmcD | Mode::SmcR);
    Row {
        state: at.state,
        uid: found.user,
        inode: at.inode,
        local: at.local,
        peer: at.peer,
        interface: at.interface,
        mode,
        shut: [at.shut.0, at.shut.1],
        details: is_smc.then(|| details(at, counted)),
        link: (mode == Mode::SmcR).then(|| link(links, at)).flatten(),
        memory: (mode == Mode::SmcD).then(|| Memory {
            gid: at.gid,
            peer_gid: at.peer_gid,
            group: at.group.unwrap_or(0) as u32,
            ..Memory::default()
        }),
        owner: Some((found.process, found.program.clone())),
        sentence: found.view.sentence(at.sentence),
        remedy: found.view.sentence(at.remedy),
        bytes: is_smc.then_some([counted.sent, counted.received]),
    }
}

fn details(at: &Connection, counted: &Counted) -> Details {
    let progress = &counted.progress;
    let (own, peer, send) = (at.receive_buffer, at.peer_buffer, at.send_buffer);
    Details {
        token: at.token,
        buffers: [send, own, peer],
        received: [
            Cursor::of(progress.arrived.max(counted.received), own),
            Cursor::of(counted.received, own),
        ],
        sent: [
            Cursor::of(progress.written, peer),
            Cursor::of(progress.peer_consumed, peer),
        ],
        flags: [[0; 2]; 2],
        progress: [progress.written, progress.written, progress.completed]
            .map(|position| Cursor::of(position, send)),
    }
}

fn link(links: &[LinkRecord], at: &Connection) -> Option<Link> {
    let of = |link: &&LinkRecord| {
        (Some(link.group), link.stack, link.link) == (at.group, at.stack, at.link)
    };
    let link = links.iter().find(of)?;
    Some(Link {
        is_server: at.role == Role::Server,
        device: link.device.to_string(),
        port: link.port,
        link: link.link,
        gids: [link.gid, link.peer_gid].map(gid),
    })
}
