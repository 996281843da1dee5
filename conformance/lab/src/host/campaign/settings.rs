//! What is special in a scenario, brought about and undone.

use super::super::Trouble;
use super::pair::{INTERFACE, Pair, RDMA, UEID};
use crate::orders::{Adjustment, Role};
use crate::scenarios::Setting;

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
        Setting::Usual | Setting::TcpClient | Setting::TcpServer | Setting::Buffers(..) => Ok(()),
        Setting::ClientWithoutDevice => pair.client.adjust(Adjustment::RemoveRdma(RDMA.into())),
        Setting::ServerWithoutDevice => pair.server.adjust(Adjustment::RemoveRdma(RDMA.into())),
        Setting::ClientWithoutUeid => pair.client.adjust(Adjustment::FlushUeids),
        Setting::ServerWithoutUeid => pair.server.adjust(Adjustment::FlushUeids),
        Setting::OtherUeids => {
            pair.server.adjust(Adjustment::FlushUeids)?;
            pair.server.adjust(Adjustment::AddUeid(OTHER_UEID.into()))
        }
    }
}

pub(super) fn undo(pair: &mut Pair, setting: Setting) -> Result<(), Trouble> {
    let device = || Adjustment::AddRdma(RDMA.into(), INTERFACE.into());
    match setting {
        Setting::Usual | Setting::TcpClient | Setting::TcpServer | Setting::Buffers(..) => Ok(()),
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
