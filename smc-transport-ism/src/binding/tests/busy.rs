//! A device that is busy for one of its peers.

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::id::DeviceId;
use smc_proto::wire::types::{Chid, IsmGid};

use super::Pair;
use crate::binding::Binding;
use crate::device::{
    Cdc, DeviceFacts, Dmb, DmbToken, Gid128, IsmDevice, IsmError, IsmReport, RemoteDmb, VlanId,
};

const IDLE: u64 = 7;

/// Busy for every peer at first, and then for all but one.
struct Busy {
    serves_idle: bool,
}

impl IsmDevice for Busy {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            gid: Gid128::default(),
            chid: 1,
            max_dmb_len: 1 << 20,
            max_dmbs: 2,
            elements: 1,
            version_2: true,
        }
    }

    fn register_dmb(&mut self, _: u32, peer: Gid128, _: Option<VlanId>) -> Result<Dmb, IsmError> {
        if self.serves_idle && peer.gid == IDLE {
            // Any answer will do.
            return Err(IsmError::Exhausted);
        }
        Err(IsmError::Busy)
    }

    fn unregister_dmb(&mut self, _: Dmb) -> Result<(), IsmError> {
        Err(IsmError::Stale)
    }

    fn attach_dmb(&mut self, _: Gid128, _: DmbToken, _: u32) -> Result<RemoteDmb, IsmError> {
        Err(IsmError::Token)
    }

    fn detach_dmb(&mut self, _: RemoteDmb) -> Result<(), IsmError> {
        Err(IsmError::Stale)
    }

    fn query_reach(&mut self, _: Gid128, _: Option<VlanId>) -> bool {
        true
    }

    fn add_vlan(&mut self, _: VlanId) -> Result<(), IsmError> {
        Err(IsmError::Vlan)
    }

    fn del_vlan(&mut self, _: VlanId) -> Result<(), IsmError> {
        Err(IsmError::Vlan)
    }

    fn move_data(&mut self, _: RemoteDmb, _: u16, _: u32, _: &[u8]) -> Result<(), IsmError> {
        Err(IsmError::Stale)
    }

    fn move_cdc(&mut self, _: RemoteDmb, _: u16, _: u32, _: &Cdc, _: bool) -> Result<(), IsmError> {
        Err(IsmError::Stale)
    }

    fn signal_event(
        &mut self,
        _: Gid128,
        _: Option<VlanId>,
        _: u32,
        _: u64,
    ) -> Result<(), IsmError> {
        Err(IsmError::Unreachable)
    }

    fn poll(&mut self) -> Option<IsmReport> {
        None
    }

    fn read(&self, _: Dmb, _: u32, _: &mut [u8]) -> Result<(), IsmError> {
        Err(IsmError::Stale)
    }

    fn read_cdc(&self, _: Dmb, _: u32) -> Result<Cdc, IsmError> {
        Err(IsmError::Stale)
    }
}

//= SHM-028 test
#[test]
fn a_peer_that_keeps_the_device_busy_keeps_no_other_waiting() {
    let buffers = Pair::connected(true).sides[0].buffers.clone();
    let [stuck, waiting, ..] = buffers[..] else {
        panic!("{buffers:?}")
    };
    assert_ne!(stuck, waiting);
    let mut binding = Binding::new(Busy { serves_idle: false }, DeviceId(3));
    for (buffer, gid) in [(stuck, 6), (waiting, IDLE)] {
        binding.execute(IsmCommand::RegisterDmb {
            buffer,
            length: 16384,
            peer: IsmGid {
                gid,
                gid_ext: 0,
                chid: Chid(1),
            },
            vlan: None,
        });
    }
    assert_eq!(binding.poll(), None, "both wait");
    binding.device_mut().serves_idle = true;
    let answer = IsmCompletion::Refused { buffer: waiting };
    assert_eq!(binding.poll(), Some(answer));
    assert_eq!(binding.poll(), None);
}
