//! The links of a demo as a table and as JSON.

use comfy_table::Table;
use serde_json::{Value, json};
use smc_capture::frame::gid_address;
use smc_proto::time::Instant;

use super::new_table;
use crate::demo::links::{LinkEnd, LinkLife};

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 * 1e-9
}

fn milliseconds(at: Instant) -> String {
    format!("{:.3} ms", seconds(at) * 1e3)
}

/// One row for each link.
pub(super) fn table(links: &[LinkLife]) -> Table {
    let mut table = new_table();
    table.set_header([
        "Link",
        "client",
        "server",
        "up at",
        "until",
        "what became of it",
    ]);
    for link in links {
        let [client, server] = link.ends.map(|end| match end {
            Some(end) => format!("RNIC {}", end.rnic),
            None => "-".to_owned(),
        });
        let state = link.state.name();
        let (until, mut outcome) = match &link.died {
            Some((at, of)) if of == state => (milliseconds(*at), state.to_owned()),
            Some((at, of)) => (milliseconds(*at), format!("{state}, {of}")),
            None => ("the end".to_owned(), state.to_owned()),
        };
        if link.asymmetric {
            outcome.push_str(" (asymmetric)");
        }
        let up = link.up_at.map_or_else(|| "-".to_owned(), milliseconds);
        let number = link.number.to_string();
        table.add_row([number, client, server, up, until, outcome]);
    }
    table
}

/// One object for each link; times are virtual seconds.
pub(super) fn json(link: &LinkLife) -> Value {
    let [client, server] = link.ends;
    let rnic = |end: Option<LinkEnd>| end.map(|end| end.rnic);
    let gid = |end: Option<LinkEnd>| end.map(|end| gid_address(end.gid).to_string());
    json!({
        "number": link.number,
        "state": link.state.name(),
        "client_rnic": rnic(client),
        "client_gid": gid(client),
        "server_rnic": rnic(server),
        "server_gid": gid(server),
        "asymmetric": link.asymmetric,
        "up_at": link.up_at.map(seconds),
        "died_at": link.died.as_ref().map(|(at, _)| seconds(*at)),
        "died_of": link.died.as_ref().map(|(_, of)| of),
    })
}
