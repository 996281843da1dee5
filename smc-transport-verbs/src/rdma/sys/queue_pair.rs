//! A queue pair and its states.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::mem::zeroed;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as ibv;

use super::region::Domain;
use super::{Channel, checked, made};
use crate::rnic::{Connect, QueuePairSpec, RECEIVE_DEPTH, SEND_DEPTH};

/// A completion queue.
struct Completions {
    queue: NonNull<ibv::ibv_cq>,
    /// Exists as long as this does.
    _channel: Arc<Channel>,
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: its queue pair is gone: it is dropped first.
        unsafe { ibv::ibv_destroy_cq(self.queue.as_ptr()) };
    }
}

/// A reliable-connected queue pair with a completion queue and a protection domain of
/// its own.
pub struct QueuePair {
    queue_pair: NonNull<ibv::ibv_qp>,
    port: u8,
    gid_index: u8,
    inline: u32,
    completions: Completions,
    domain: Arc<Domain>,
}

// SAFETY: as of `Context`.
unsafe impl Send for QueuePair {}
// SAFETY: as of `Context`.
unsafe impl Sync for QueuePair {}

/// What to change of a queue pair, and the mask of the fields that are set.
type Change = (ibv::ibv_qp_attr, c_uint);

fn with(mask: c_uint, more: &[ibv::ibv_qp_attr_mask]) -> c_uint {
    more.iter().fold(mask, |mask, field| mask | field.0)
}

impl QueuePair {
    /// Creates a queue pair; `gid_index` is that of the specification.
    pub(in crate::rdma) fn new(
        channel: &Arc<Channel>,
        spec: &QueuePairSpec,
        gid_index: u8,
    ) -> io::Result<Self> {
        let (token, inline) = (spec.token, spec.inline);
        let context = &channel.context;
        let domain = Domain::new(context)?;
        let cookie = token as usize as *mut c_void;
        // SAFETY: context and channel exist; the cookie is a number that only comes back.
        let queue = made(unsafe {
            ibv::ibv_create_cq(
                context.0.as_ptr(),
                (SEND_DEPTH + RECEIVE_DEPTH) as c_int,
                cookie,
                channel.channel.as_ptr(),
                0,
            )
        })?;
        let completions = Completions {
            queue,
            _channel: channel.clone(),
        };
        // SAFETY: the queue exists.
        checked(unsafe { ibv::ibv_req_notify_cq(queue.as_ptr(), 0) })?;
        // SAFETY: numbers and null pointers, for which zero is valid.
        let mut wanted: ibv::ibv_qp_init_attr = unsafe { zeroed() };
        wanted.qp_context = cookie;
        wanted.send_cq = queue.as_ptr();
        wanted.recv_cq = queue.as_ptr();
        wanted.qp_type = ibv::ibv_qp_type::IBV_QPT_RC;
        wanted.cap.max_send_wr = SEND_DEPTH;
        wanted.cap.max_recv_wr = RECEIVE_DEPTH;
        wanted.cap.max_send_sge = 2;
        wanted.cap.max_recv_sge = 2;
        wanted.cap.max_inline_data = inline;
        // SAFETY: domain and queue exist; the call reads and writes the structure.
        let create = |wanted: &mut ibv::ibv_qp_init_attr| unsafe {
            made(ibv::ibv_create_qp(domain.raw(), wanted))
        };
        let mut as_wanted = wanted;
        let created = create(&mut as_wanted).or_else(|error| {
            if inline == 0 {
                return Err(error);
            }
            // Not every device sends inline.
            as_wanted = wanted;
            as_wanted.cap.max_inline_data = 0;
            create(&mut as_wanted)
        });
        Ok(Self {
            queue_pair: created?,
            port: spec.port,
            gid_index,
            inline: as_wanted.cap.max_inline_data,
            completions,
            domain,
        })
    }

    pub(in crate::rdma) fn number(&self) -> u32 {
        // SAFETY: the queue pair exists; its number never changes.
        unsafe { (*self.queue_pair.as_ptr()).qp_num }
    }

    pub(in crate::rdma) fn inline(&self) -> u32 {
        self.inline
    }

    pub(super) fn raw(&self) -> *mut ibv::ibv_qp {
        self.queue_pair.as_ptr()
    }

    pub(super) fn completions(&self) -> *mut ibv::ibv_cq {
        self.completions.queue.as_ptr()
    }

    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    fn change(state: ibv::ibv_qp_state::Type) -> Change {
        // SAFETY: numbers, for which zero is valid.
        let mut to: ibv::ibv_qp_attr = unsafe { zeroed() };
        to.qp_state = state;
        (to, ibv::ibv_qp_attr_mask::IBV_QP_STATE.0)
    }

    fn modify(&self, (mut to, mask): Change) -> io::Result<()> {
        // SAFETY: the queue pair exists; the call reads the fields that the mask names.
        checked(unsafe { ibv::ibv_modify_qp(self.queue_pair.as_ptr(), &raw mut to, mask as c_int) })
    }

    /// To INIT.
    pub(in crate::rdma) fn initialize(&self) -> io::Result<()> {
        use ibv::{ibv_access_flags as access, ibv_qp_attr_mask as field};
        let (mut to, mask) = Self::change(ibv::ibv_qp_state::IBV_QPS_INIT);
        to.pkey_index = 0;
        to.port_num = self.port;
        let allowed = access::IBV_ACCESS_LOCAL_WRITE.0 | access::IBV_ACCESS_REMOTE_WRITE.0;
        to.qp_access_flags = allowed;
        let more = [
            field::IBV_QP_PKEY_INDEX,
            field::IBV_QP_PORT,
            field::IBV_QP_ACCESS_FLAGS,
        ];
        self.modify((to, with(mask, &more)))
    }

    /// To RTR. The numbers are those that Linux uses for SMC-R.
    pub(in crate::rdma) fn ready_to_receive(&self, to: &Connect) -> io::Result<()> {
        use ibv::ibv_qp_attr_mask as field;
        let peer = &to.peer;
        let connect = to;
        let (mut to, mask) = Self::change(ibv::ibv_qp_state::IBV_QPS_RTR);
        to.path_mtu = connect.mtu.code().into();
        to.dest_qp_num = peer.qpn.value();
        to.rq_psn = peer.psn.value();
        to.max_dest_rd_atomic = 1;
        to.min_rnr_timer = 5;
        to.ah_attr.is_global = 1;
        to.ah_attr.port_num = self.port;
        to.ah_attr.grh.dgid.raw = peer.gid.0;
        to.ah_attr.grh.sgid_index = self.gid_index;
        to.ah_attr.grh.hop_limit = connect.hop_limit;
        let more = [
            field::IBV_QP_AV,
            field::IBV_QP_PATH_MTU,
            field::IBV_QP_DEST_QPN,
            field::IBV_QP_RQ_PSN,
            field::IBV_QP_MAX_DEST_RD_ATOMIC,
            field::IBV_QP_MIN_RNR_TIMER,
        ];
        self.modify((to, with(mask, &more)))
    }

    /// To RTS.
    pub(in crate::rdma) fn ready_to_send(&self, psn: u32) -> io::Result<()> {
        use ibv::ibv_qp_attr_mask as field;
        let (mut to, mask) = Self::change(ibv::ibv_qp_state::IBV_QPS_RTS);
        to.sq_psn = psn;
        to.timeout = 15;
        to.retry_cnt = 7;
        // Without end.
        to.rnr_retry = 7;
        to.max_rd_atomic = 1;
        let more = [
            field::IBV_QP_SQ_PSN,
            field::IBV_QP_TIMEOUT,
            field::IBV_QP_RETRY_CNT,
            field::IBV_QP_RNR_RETRY,
            field::IBV_QP_MAX_QP_RD_ATOMIC,
        ];
        self.modify((to, with(mask, &more)))
    }

    /// To the error state.
    pub(in crate::rdma) fn to_error(&self) -> io::Result<()> {
        self.modify(Self::change(ibv::ibv_qp_state::IBV_QPS_ERR))
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: it was created and is destroyed once; its completion queue and its
        // domain are dropped after it.
        unsafe { ibv::ibv_destroy_qp(self.queue_pair.as_ptr()) };
    }
}
