//! How an RNIC numbers what it makes.

use smc_proto::id::{BufferId, LinkId};
use smc_proto::wire::types::{RKey, RToken};

use super::Buffer;

/// How queue pairs and registrations are numbered. States of an explored world are
/// distinguished by these numbers, so that each rig may have its own.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// What numbers of queue pairs begin from.
    pub first: u32,
    /// Number of a queue pair: of `first`, of how many were made with it, and of its link.
    pub qpn: fn(u32, u32, LinkId) -> u32,
    /// Key and address of a registration: of how many were made with it, and of the buffer,
    /// if that is there, on a link.
    pub rtoken: fn(u32, Option<&Buffer>, BufferId, LinkId) -> RToken,
}

impl Numbers {
    /// Address of the first byte of a buffer that is found by its key alone.
    pub const BASE: u64 = 0x7f00_0000_0000;

    /// Queue pairs and keys are counted.
    pub const COUNTED: Self = Self {
        first: 0,
        qpn: |first, made, _| first + made,
        rtoken: |made, _, _, _| RToken {
            rkey: RKey(made),
            address: 0x1000,
        },
    };
}

impl Default for Numbers {
    fn default() -> Self {
        Self::COUNTED
    }
}
