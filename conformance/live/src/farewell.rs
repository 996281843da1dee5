//! How the peer takes leave, where the other end does not notice that it is gone.

use std::io;
use std::time::Duration;

use conformance::scripts::{Kind, field};
use smc_transport_verbs::rnic::Rnic;

use crate::sockets::Sockets;
use crate::wire::Live;

/// DELETE LINK, and its form of version 2.
const DELETE_LINK: [u8; 2] = [0x04, 0x24];
/// Bytes of either.
const LENGTH: usize = 44;
/// "Program action".
const REASON: u128 = 0x0003_0000;
/// How long the last data of applications may take.
const DRAIN: Duration = Duration::from_millis(200);

fn delete_group(v2: bool) -> Vec<u8> {
    let [v1_kind, v2_kind] = DELETE_LINK;
    let kind = if v2 { v2_kind } else { v1_kind };
    let mut message = vec![0; LENGTH];
    for (name, value) in [
        ("type", kind.into()),
        ("length", LENGTH as u128),
        ("all", 1),
        ("orderly", 1),
        ("reason", REASON),
    ] {
        if let Some(field) = field(Kind::Llc(kind), name) {
            field.put(&mut message, value);
        }
    }
    message
}

impl<R: Rnic, S: Sockets> Live<R, S> {
    /// Applications close, and each group is asked to end, if the peer is to take leave.
    pub(crate) fn farewell(&mut self) -> io::Result<()> {
        if !self.parts {
            return Ok(());
        }
        self.sockets.leave();
        let until = self.elapsed() + DRAIN;
        while self.elapsed() < until {
            self.take_in();
            std::thread::sleep(DRAIN / 10);
        }
        let message = delete_group(self.v2);
        for link in self.held.links.values_mut() {
            let nic = self.held.nics.get(link.rnic);
            if let Some(nic) = nic.filter(|_| link.peer.is_some() && !link.broken) {
                // It may be gone already.
                let _ = link.send(&nic.rnic, &message);
            }
        }
        self.tcp.clear();
        Ok(())
    }

    /// The peer vanishes; memory that was written and not announced.
    pub(crate) fn vanish(&mut self) -> Option<String> {
        let mut rmbs = self.held.rmbs.iter();
        let odd = rmbs.find_map(|(conn, rmb)| Some((*conn, rmb.unannounced()?)));
        self.held.links.clear();
        self.tcp.clear();
        odd.map(|(conn, at)| format!("octet {at} of connection {conn} was written unannounced"))
    }
}

#[cfg(test)]
mod tests {
    use super::delete_group;

    #[test]
    fn a_group_is_asked_to_end_in_either_version() {
        let v1 = delete_group(false);
        assert_eq!(v1[..9], [4, 44, 0, 0x60, 0, 0, 3, 0, 0]);
        let v2 = delete_group(true);
        assert_eq!(v2[..9], [0x24, 0, 44, 0x60, 0, 0, 3, 0, 0]);
        assert_eq!([v1.len(), v2.len()], [44, 44]);
    }
}
