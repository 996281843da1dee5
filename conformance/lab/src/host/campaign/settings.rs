//! What is special in a scenario, brought about and undone.

use std::net::Ipv4Addr;

use super::super::Trouble;
use super::pair::{CLIENT, INTERFACES, Pair, RDMA, SERVER, UEID};
use crate::orders::{Adjustment, Role};
use crate::scenarios::Setting;

/// Addresses of the client and the server with lengths of their prefixes, where these
/// differ.
const OTHER_SUBNETS: [(Ipv4Addr, u8); 2] = [
    (Ipv4Addr::new(10, 85, 0, 1), 24),
    (Ipv4Addr::new(10, 85, 0, 2), 16),
];

/// Sizes of a link's queues, in SENDs and receives, which kernels before 6.18 do not have.
pub(super) const WORK_REQUESTS: [&str; 2] = ["smcr_max_send_wr", "smcr_max_recv_wr"];

/// The sysctl that a scenario needs and the SMC of the guests does not have.
pub(super) fn lacking(setting: Setting, smc: &[u8]) -> Option<&'static str> {
    let has = |name: &str| {
        smc.windows(name.len())
            .any(|bytes| bytes == name.as_bytes())
    };
    match setting {
        Setting::WorkRequests(..) => WORK_REQUESTS.into_iter().find(|name| !has(name)),
        _ => None,
    }
}

/// The addresses of the client and the server.
pub(super) fn addresses(setting: Setting) -> (Ipv4Addr, Ipv4Addr) {
    match setting {
        Setting::OtherSubnet => (OTHER_SUBNETS[0].0, OTHER_SUBNETS[1].0),
        _ => (CLIENT, SERVER),
    }
}

/// A UEID that only one of both has.
const OTHER_UEID: &str = "SMC-LAB-OTHER";

/// The UEIDs of an end; those of kernels are [`apply`]'s.
pub(super) fn ueids(setting: Setting, role: Role) -> Vec<String> {
    match (setting, role) {
        (Setting::ClientWithoutUeid, Role::Client) | (Setting::ServerWithoutUeid, Role::Server) => {
            Vec::new()
        }
        (Setting::OtherUeids, Role::Server) => vec![OTHER_UEID.to_owned()],
        _ => vec![UEID.to_owned()],
    }
}

pub(super) fn apply(pair: &mut Pair, setting: Setting) -> Result<(), Trouble> {
    match setting {
        Setting::Usual
        | Setting::TcpClient
        | Setting::TcpServer
        | Setting::Buffers(..)
        | Setting::NoMemory(_)
        | Setting::Unprivileged(_)
        | Setting::ByHand(_) => Ok(()),
        Setting::RoceBlocked => pair.client.adjust(Adjustment::BlockRoce(true)),
        Setting::TestLink(seconds) => {
            for guest in [&mut pair.client, &mut pair.server] {
                let path = "net/smc/smcr_testlink_time".to_owned();
                guest.adjust(Adjustment::Sysctl(path, seconds.to_string()))?;
            }
            Ok(())
        }
        Setting::WorkRequests(sends, receives) => {
            for guest in [&mut pair.client, &mut pair.server] {
                for (name, value) in WORK_REQUESTS.into_iter().zip([sends, receives]) {
                    let path = format!("net/smc/{name}");
                    guest.adjust(Adjustment::Sysctl(path, value.to_string()))?;
                }
            }
            Ok(())
        }
        Setting::OtherSubnet => {
            let [(client, one), (server, other)] = OTHER_SUBNETS;
            let address =
                |address, prefix| Adjustment::Address(INTERFACES[0].into(), address, prefix);
            pair.client.adjust(address(client, one))?;
            pair.server.adjust(address(server, other))
        }
        Setting::TwoDevices => {
            for guest in [&mut pair.client, &mut pair.server] {
                guest.adjust(Adjustment::AddRdma(RDMA[1].into(), INTERFACES[1].into()))?;
            }
            Ok(())
        }
        Setting::ClientWithoutDevice => pair.client.adjust(Adjustment::RemoveRdma(RDMA[0].into())),
        Setting::ServerWithoutDevice => pair.server.adjust(Adjustment::RemoveRdma(RDMA[0].into())),
        Setting::ClientWithoutUeid => pair.client.adjust(Adjustment::FlushUeids),
        Setting::ServerWithoutUeid => pair.server.adjust(Adjustment::FlushUeids),
        Setting::OtherUeids => {
            pair.server.adjust(Adjustment::FlushUeids)?;
            pair.server.adjust(Adjustment::AddUeid(OTHER_UEID.into()))
        }
    }
}

pub(super) fn undo(pair: &mut Pair, setting: Setting) -> Result<(), Trouble> {
    let device = || Adjustment::AddRdma(RDMA[0].into(), INTERFACES[0].into());
    match setting {
        Setting::Usual
        | Setting::TcpClient
        | Setting::TcpServer
        | Setting::Buffers(..)
        | Setting::NoMemory(_)
        | Setting::Unprivileged(_)
        | Setting::ByHand(_) => Ok(()),
        // The guests go.
        Setting::RoceBlocked
        | Setting::TestLink(_)
        | Setting::WorkRequests(..)
        | Setting::TwoDevices => Ok(()),
        Setting::OtherSubnet => {
            let [(client, one), (server, other)] = OTHER_SUBNETS;
            let address =
                |address, prefix| Adjustment::RemoveAddress(INTERFACES[0].into(), address, prefix);
            pair.client.adjust(address(client, one))?;
            pair.server.adjust(address(server, other))
        }
        Setting::ClientWithoutDevice => pair.client.adjust(device()),
        Setting::ServerWithoutDevice => pair.server.adjust(device()),
        Setting::ClientWithoutUeid => pair.client.adjust(Adjustment::AddUeid(UEID.into())),
        Setting::ServerWithoutUeid => pair.server.adjust(Adjustment::AddUeid(UEID.into())),
        Setting::OtherUeids => {
            pair.server.adjust(Adjustment::FlushUeids)?;
            pair.server.adjust(Adjustment::AddUeid(UEID.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lacking;
    use crate::scenarios::Setting;

    #[test]
    fn a_kernel_without_a_sysctl_is_known_before_it_boots() {
        let old = b"\0smcr_testlink_time\0smcr_max_links_per_lgr\0";
        let new = b"\0smcr_max_send_wr\0smcr_max_recv_wr\0";
        let setting = Setting::WorkRequests(2048, 48);
        assert_eq!(lacking(setting, old), Some("smcr_max_send_wr"));
        assert_eq!(lacking(setting, new), None);
        assert_eq!(lacking(Setting::Usual, old), None);
    }
}
