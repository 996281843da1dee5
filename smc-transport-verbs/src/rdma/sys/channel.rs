//! A completion channel, which reports whose queues have something.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as ibv;

use super::{Context, made, nonblocking};

/// Reports which completion queues have something.
pub(in crate::rdma) struct Channel {
    pub(super) channel: NonNull<ibv::ibv_comp_channel>,
    pub(super) context: Arc<Context>,
}

// SAFETY: as of `Context`.
unsafe impl Send for Channel {}
// SAFETY: as of `Context`.
unsafe impl Sync for Channel {}

impl Channel {
    pub(in crate::rdma) fn new(context: Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let channel = made(unsafe { ibv::ibv_create_comp_channel(context.0.as_ptr()) })?;
        let channel = Self { channel, context };
        nonblocking(channel.as_fd())?;
        Ok(channel)
    }

    /// The token of the next completion queue that has something. It is armed again.
    pub(in crate::rdma) fn next_ready(&self) -> Option<u32> {
        let mut queue = std::ptr::null_mut();
        let mut token: *mut c_void = std::ptr::null_mut();
        // SAFETY: the call writes both pointers if it returns 0. The queue cannot be
        // destroyed until the event is acknowledged, which therefore comes last.
        unsafe {
            let channel = self.channel.as_ptr();
            if ibv::ibv_get_cq_event(channel, &raw mut queue, &raw mut token) != 0 {
                return None;
            }
            // If it cannot be armed, its device is gone, which an event reports.
            let _ = ibv::ibv_req_notify_cq(queue, 0);
            ibv::ibv_ack_cq_events(queue, 1);
        }
        Some(token as usize as u32)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel exists, and with it its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: completion queues hold it, and so are gone.
        unsafe { ibv::ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}
