//! Devices and their GIDs as the crate `ibverbs` lists them: by other bindings of the same
//! library, and so to be compared with [`ports`](super::ports).

use std::io;

use smc_proto::wire::types::Gid;

use crate::ports::{GidEntry, GidKind};

/// A GID with the device and the port it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Name of the device.
    pub device: String,
    /// The port, from 1.
    pub port: u8,
    /// The GID.
    pub entry: GidEntry,
}

/// The GIDs of all devices whose first port has its carrier; others the crate does not
/// open.
///
/// # Errors
/// The system's.
pub fn gids() -> io::Result<Vec<Listed>> {
    let mut all = Vec::new();
    for device in ibverbs::devices()?.iter() {
        let name = device
            .name()
            .map(|name| name.to_string_lossy().into_owned());
        let Ok(context) = device.open() else {
            continue;
        };
        let device = name.unwrap_or_default();
        all.extend(context.gid_table().iter().map(|entry| {
            let halves = [entry.gid.subnet_prefix(), entry.gid.interface_id()];
            let mut gid = [0; 16];
            for (bytes, half) in gid.chunks_exact_mut(8).zip(halves) {
                bytes.copy_from_slice(&half.to_be_bytes());
            }
            Listed {
                device: device.clone(),
                port: u8::try_from(entry.port_num).unwrap_or(0),
                entry: GidEntry {
                    index: u16::try_from(entry.gid_index).unwrap_or(u16::MAX),
                    gid: Gid(gid),
                    kind: GidKind::of(entry.gid_type),
                    interface: entry.ndev_ifindex,
                },
            }
        }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::{Unavailable, ports};
    use super::*;

    #[test]
    fn both_libraries_list_the_same_gids() {
        let ours = match ports() {
            Ok(ports) => ports,
            Err(Unavailable::NoKernelSupport) => {
                assert!(gids().is_err());
                return;
            }
            Err(_) => Vec::new(),
        };
        let mut listed = Vec::new();
        for port in ours {
            listed.extend(port.gids.iter().map(|entry| Listed {
                device: port.device.clone(),
                port: port.port,
                entry: *entry,
            }));
        }
        assert_eq!(gids().unwrap(), listed);
    }
}
