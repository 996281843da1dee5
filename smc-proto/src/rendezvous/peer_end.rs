//! The peer's half of a connection, as its Accept or Confirm describes it.

use crate::wire::clc::AcceptConfirm;
use crate::wire::types::{
    AlertToken, BufferSize, Gid, Mac, Mtu, PeerId, Psn, Qpn, RToken, RmbeIndex,
};

/// What is kept of an Accept or Confirm of SMC-R.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PeerEnd {
    pub(crate) peer_id: PeerId,
    pub(crate) gid: Gid,
    pub(crate) mac: Mac,
    pub(crate) qpn: Qpn,
    pub(crate) rtoken: RToken,
    pub(crate) rmbe_index: RmbeIndex,
    pub(crate) alert_token: AlertToken,
    pub(crate) buffer_size: BufferSize,
    pub(crate) mtu: Mtu,
    pub(crate) psn: Psn,
}

impl PeerEnd {
    pub(crate) const fn new(message: &AcceptConfirm) -> Self {
        Self {
            peer_id: message.peer_id,
            gid: message.gid,
            mac: message.mac,
            qpn: message.qpn,
            rtoken: message.rtoken,
            rmbe_index: message.rmbe_index,
            alert_token: message.alert_token,
            buffer_size: message.buffer_size,
            mtu: message.mtu,
            psn: message.psn,
        }
    }
}
