//! What a capture shows of the connections between the guests.

use std::net::Ipv4Addr;
use std::path::Path;

use smc_capture::follow::{self, Content, Path as Way};
use smc_capture::reader::CaptureReader;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::Gid;

use super::super::{Trouble, failed};
use super::pair::{CLIENT, SERVER};

/// CLC messages of the connections of both guests, and the bytes that RDMA WRITEs carried, each once.
#[derive(Debug, Default)]
pub(super) struct Captured {
    pub(super) confirms: u64,
    declines: u64,
    /// Bytes of RDMA WRITEs to the server and from it.
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Captured {
    /// Whether all of these connections are SMC-R, and at least so many bytes went to the server and
    /// came from it by RDMA.
    pub(super) fn judge(&self, connections: u64, least: [u64; 2]) -> Result<(), String> {
        match self.declines == 0
            && self.confirms == connections
            && self.sent >= least[0]
            && self.received >= least[1]
        {
            true => Ok(()),
            false => Err(format!("{connections} connections, the capture: {self:?}")),
        }
    }
}

/// Reads a capture.
///
/// # Errors
/// The file cannot be read.
pub(super) fn captured(capture: &Path) -> Result<Captured, Trouble> {
    let doing = || failed(capture.display());
    let gid = |address: Ipv4Addr| Gid(address.to_ipv6_mapped().octets());
    let mut captured = Captured::default();
    for item in follow::items(CaptureReader::open(capture).map_err(doing())?) {
        let item = item.map_err(doing())?;
        match (&item.content, &item.path) {
            _ if item.retransmission => {}
            (Content::Clc(ClcMessage::Confirm(_)), _) => captured.confirms += 1,
            (Content::Clc(ClcMessage::Decline(_)), _) => captured.declines += 1,
            (Content::Write(write), Way::Roce(way)) if way.source == gid(CLIENT) => {
                captured.sent += u64::from(write.length);
            }
            (Content::Write(write), Way::Roce(way)) if way.source == gid(SERVER) => {
                captured.received += u64::from(write.length);
            }
            _ => {}
        }
    }
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use super::Captured;

    #[test]
    fn each_connection_needs_its_confirm() {
        let captured = |confirms, declines, sent| Captured {
            confirms,
            declines,
            sent,
            received: 7,
        };
        let least = [5, 7];
        assert!(captured(3, 0, 5).judge(3, least).is_ok());
        assert!(captured(2, 0, 5).judge(3, least).is_err());
        assert!(captured(3, 1, 5).judge(3, least).is_err());
        assert!(captured(3, 0, 4).judge(3, least).is_err());
        assert!(captured(3, 0, 5).judge(3, [5, 8]).is_err());
    }
}
