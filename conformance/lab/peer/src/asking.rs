//! `smcx why`, asked by a process that may lock no more than this one has left.

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};
use smc_lab::orders::{PEER, SMCX, SMCX_WHY};
use smc_transport_verbs::locking::lockable;

/// What it is called with for [`limited`].
pub(crate) const LIMITED: &str = "limited";

/// Returns the output of `smcx why` about a connection to `peer`, line by line.
pub(crate) fn smcx(peer: SocketAddr) -> Vec<String> {
    let limit = lockable().map(|left| {
        let (left, peer) = (left.to_string(), peer.to_string());
        let arguments = [LIMITED, &left, SMCX, "why", &peer];
        Command::new(PEER).args(arguments).output()
    });
    let text = match limit {
        None => "there is no limit".to_owned(),
        Some(Err(error)) => error.to_string(),
        Some(Ok(output)) => {
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into()
        }
    };
    let lines = text.lines().map(|line| format!("{SMCX_WHY}{line}"));
    lines.collect()
}

/// Becomes another program, which may lock so many bytes: the number and the program with its
/// arguments.
pub(crate) fn limited(mut command: impl Iterator<Item = String>) -> io::Error {
    let most = command.next().and_then(|bytes| bytes.parse().ok());
    let (Some(most), Some(program)) = (most, command.next()) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    match setrlimit(Resource::Memlock, limit) {
        Ok(()) => Command::new(program).args(command).exec(),
        Err(error) => error.into(),
    }
}
