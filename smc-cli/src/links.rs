//! `smcx links`: link groups of programs and of the kernel's SMC, and the links of SMC-R.

pub mod group;
pub mod kernel;
pub mod text;

use std::io::Write;

use serde_json::{Value, json};
use smc_view::Technology;

use crate::cli::LinksArguments;
use crate::output::Failure;
use crate::ss::row::gid;
use group::Group;

/// Shows the link groups.
///
/// # Errors
/// `/proc` cannot be read, the kernel refuses the list of its groups, or the output cannot be
/// written.
pub fn run(arguments: &LinksArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let mut groups = all()?;
    let (of_kernel, outcome) = kernel::groups();
    let missing = outcome.err().and_then(|refusal| refusal.of("link groups"));
    groups.extend(of_kernel);
    groups.retain(|group| match group.record.technology {
        Technology::SmcR => !arguments.smcd,
        _ => !arguments.smcr,
    });
    if arguments.json {
        for group in &groups {
            writeln!(stdout, "{}", object(group))?;
        }
        return missing.map_or(Ok(()), Err);
    }
    text::write(&groups, arguments.details, stdout)?;
    crate::processes::write_unlisted(stdout)?;
    missing.map_or(Ok(()), Err)
}

/// The link groups of all processes that this one may read.
pub(crate) fn all() -> Result<Vec<Group>, Failure> {
    let found = crate::processes::all()?;
    let groups = found.flat_map(|found| {
        let owner = (found.process, found.program.clone());
        group::of(&owner, &found.view.read())
    });
    Ok(groups.collect())
}

fn object(group: &Group) -> Value {
    let record = &group.record;
    let links = group.links.iter().map(|link| {
        let at = &link.record;
        json!({
            "link": at.link,
            "state": link.state,
            "connections": link.connections,
            "interface": at.interface.to_string(),
            "device": at.device.to_string(),
            "port": at.port,
            "gid": gid(at.gid),
            "peer_gid": gid(at.peer_gid),
            "link_uid": link.uids.map(|[own, _]| own),
            "peer_uid": link.uids.map(|[_, peer]| peer),
        })
    });
    let links: Vec<_> = links.collect();
    let mut object = json!({
        "group": record.number,
        "technology": group.technology(),
        "role": group.role(),
        "version": record.version,
        "release": record.release,
        "vlan": record.vlan,
        "pnet_id": group.pnet().to_string(),
        "connections": group.connections,
        "max_connections": record.max_connections,
        "send_buffers": group.send_buffers,
        "receive_buffers": group.receive_buffers,
        "process": group.owner.as_ref().map(|(process, _)| process),
        "program": group.owner.as_ref().map(|(_, program)| program),
    });
    let Some(map) = object.as_object_mut() else {
        return object;
    };
    for (key, label) in [("eid", record.eid), ("peer_host", record.peer_host)] {
        if !label.is_empty() {
            map.insert(key.into(), json!(label.to_string()));
        }
    }
    if let Some(os) = group.peer_os() {
        map.insert("peer_os".into(), json!(os));
    }
    match record.technology {
        Technology::SmcR => {
            map.insert("type".into(), json!(group.kind()));
            map.insert("direct".into(), json!(record.direct));
            map.insert("max_links".into(), json!(record.max_links));
            map.insert("links".into(), json!(links));
        }
        _ => {
            let (own, peer) = record.gids;
            map.insert("gid".into(), json!(format!("{own:016x}")));
            map.insert("peer_gid".into(), json!(format!("{peer:016x}")));
        }
    }
    object
}
