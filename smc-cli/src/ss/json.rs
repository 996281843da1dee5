//! A connection as one JSON object.

use serde_json::{Value, json};

use super::row::{Row, state_name};

/// The object of a connection.
pub(super) fn of(row: &Row) -> Value {
    let mut object = json!({
        "state": state_name(row.state),
        "uid": row.uid,
        "inode": row.inode,
        "local": row.local,
        "mode": row.mode_name(),
        "process": row.owner.as_ref().map(|(process, _)| process),
        "program": row.owner.as_ref().map(|(_, program)| program),
    });
    let Some(map) = object.as_object_mut() else {
        return object;
    };
    if row.peer.port() != 0 {
        map.insert("peer".into(), json!(row.peer));
    }
    if let Some(reasons) = row.reasons() {
        map.insert("reason".into(), json!(reasons));
        if let Some((why, remedy)) = row.why() {
            map.insert("why".into(), json!(why));
            map.insert("remedy".into(), json!(remedy));
        }
    }
    if let Some([sent, received]) = row.bytes {
        map.insert("sent_bytes".into(), json!(sent));
        map.insert("received_bytes".into(), json!(received));
    }
    if let Some(details) = &row.details {
        let [send, receive, peer] = details.buffers;
        map.insert("send_buffer".into(), json!(send));
        map.insert("receive_buffer".into(), json!(receive));
        map.insert("peer_buffer".into(), json!(peer));
    }
    if let Some(link) = &row.link {
        map.insert("device".into(), json!(link.device));
        map.insert("port".into(), json!(link.port));
        map.insert("link".into(), json!(link.link));
        map.insert("gids".into(), json!(link.gids));
    }
    object
}
