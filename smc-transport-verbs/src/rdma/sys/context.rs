//! Devices: listing and opening them, attributes of their ports, events.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rdma_sys as ibv;
use smc_proto::wire::types::{Gid, Mtu};

use super::{checked, made, nonblocking};
use crate::ports::{GidEntry, GidKind};
use crate::rnic::DeviceEvent;

// rdma-sys does not declare what begins with an underscore.
unsafe extern "C" {
    fn _ibv_query_gid_table(
        context: *mut ibv::ibv_context,
        entries: *mut ibv::ibv_gid_entry,
        max_entries: usize,
        flags: u32,
        entry_size: usize,
    ) -> isize;
}

/// The devices of this host.
pub(in crate::rdma) struct DeviceList {
    list: NonNull<*mut ibv::ibv_device>,
    count: usize,
}

impl DeviceList {
    pub(in crate::rdma) fn new() -> io::Result<Self> {
        let mut count = 0;
        // SAFETY: the pointer is to a number that the call writes.
        let list = made(unsafe { ibv::ibv_get_device_list(&raw mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(Self { list, count })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ibv::ibv_device> + '_ {
        // SAFETY: the list has `count` entries until it is freed.
        (0..self.count).map(|at| unsafe { *self.list.as_ptr().add(at) })
    }

    pub(in crate::rdma) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.devices().map(name)
    }

    /// Opens a device of the list.
    pub(in crate::rdma) fn open(&self, of: &str) -> Option<io::Result<Context>> {
        let device = self.devices().find(|device| name(*device) == of)?;
        // SAFETY: a device of the list, which is not freed yet.
        let context = made(unsafe { ibv::ibv_open_device(device) });
        Some(context.and_then(|context| {
            let context = Context(context);
            nonblocking(context.events_fd())?;
            Ok(context)
        }))
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: it came from `ibv_get_device_list`, and nothing uses it any more:
        // devices that were opened stay.
        unsafe { ibv::ibv_free_device_list(self.list.as_ptr()) };
    }
}

fn name(device: *mut ibv::ibv_device) -> String {
    // SAFETY: a device of a list that lives, whose name ends with a zero.
    let name = unsafe { CStr::from_ptr(ibv::ibv_get_device_name(device)) };
    name.to_string_lossy().into_owned()
}

/// An open device.
pub(in crate::rdma) struct Context(pub(super) NonNull<ibv::ibv_context>);

// SAFETY: libibverbs may be called by any thread, also for the same object.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Attributes of a port.
pub(in crate::rdma) struct PortAttributes {
    pub(in crate::rdma) active: bool,
    pub(in crate::rdma) ethernet: bool,
    pub(in crate::rdma) mtu: Mtu,
}

impl Context {
    pub(in crate::rdma) fn events_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and with it its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.0.as_ptr()).async_fd) }
    }

    /// How many ports there are.
    pub(in crate::rdma) fn ports(&self) -> io::Result<u8> {
        let mut attributes = MaybeUninit::<ibv::ibv_device_attr>::zeroed();
        // SAFETY: the context is open; the call fills the structure, all of whose
        // fields may be zero.
        let attributes = unsafe {
            checked(ibv::ibv_query_device(
                self.0.as_ptr(),
                attributes.as_mut_ptr(),
            ))?;
            attributes.assume_init()
        };
        Ok(attributes.phys_port_cnt)
    }

    pub(in crate::rdma) fn port(&self, port: u8) -> io::Result<PortAttributes> {
        const ETHERNET: u8 = 2;
        let mut attributes = MaybeUninit::<ibv::ibv_port_attr>::zeroed();
        // SAFETY: as in `ports`.
        let attributes = unsafe {
            checked(ibv::___ibv_query_port(
                self.0.as_ptr(),
                port,
                attributes.as_mut_ptr(),
            ))?;
            attributes.assume_init()
        };
        let active = attributes.state == ibv::ibv_port_state::IBV_PORT_ACTIVE;
        Ok(PortAttributes {
            active,
            ethernet: attributes.link_layer == ETHERNET,
            mtu: Mtu::from_code(u8::try_from(attributes.active_mtu).unwrap_or(0)),
        })
    }

    /// The GIDs of all ports, with the port of each.
    pub(in crate::rdma) fn gids(&self) -> io::Result<Vec<(u8, GidEntry)>> {
        // What fits into a request: its length has 16 bits.
        const MOST: usize = 2047;
        let mut entries: Vec<ibv::ibv_gid_entry> = Vec::with_capacity(MOST);
        // SAFETY: the context is open; there is room for `MOST` entries of the size that
        // is passed.
        let count = unsafe {
            _ibv_query_gid_table(
                self.0.as_ptr(),
                entries.as_mut_ptr(),
                MOST,
                0,
                size_of::<ibv::ibv_gid_entry>(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let errno = i32::try_from(count.unsigned_abs()).unwrap_or(libc::EIO);
            return Err(io::Error::from_raw_os_error(errno));
        };
        // SAFETY: the call wrote so many entries.
        unsafe { entries.set_len(count.min(MOST)) };
        let entry = |entry: &ibv::ibv_gid_entry| {
            // SAFETY: both forms of the union are 16 bytes.
            let raw = unsafe { entry.gid.raw };
            let of = GidEntry {
                index: u16::try_from(entry.gid_index).unwrap_or(u16::MAX),
                gid: Gid(raw),
                kind: GidKind::of(entry.gid_type),
                interface: entry.ndev_ifindex,
            };
            (u8::try_from(entry.port_num).unwrap_or(0), of)
        };
        Ok(entries.iter().map(entry).collect())
    }

    /// The next event that is worth a reaction, and whether there was any at all.
    pub(in crate::rdma) fn next_event(&self) -> (Option<DeviceEvent>, bool) {
        let mut event = MaybeUninit::<ibv::ibv_async_event>::zeroed();
        let event = event.as_mut_ptr();
        // SAFETY: the context is open; the call writes the event if it returns 0. Its
        // type is read as a number, since a newer kernel may have others than the enum.
        // What it names cannot be destroyed before the event is acknowledged: then the
        // pointer is to a queue pair or a completion queue of this process.
        unsafe {
            if ibv::ibv_get_async_event(self.0.as_ptr(), event) != 0 {
                return (None, false);
            }
            let kind = (&raw const (*event).event_type).cast::<u32>().read();
            let element = &raw const (*event).element;
            let (port, token) = match kind {
                0 => (0, (*(*element).cq).cq_context as usize as u32),
                1..=7 | 16 => match (*element).qp {
                    // An SRQ, of which there are none here, would be no queue pair.
                    qp if !qp.is_null() => (0, (*qp).qp_context as usize as u32),
                    _ => (0, u32::MAX),
                },
                _ => (u8::try_from((*element).port_num).unwrap_or(0), u32::MAX),
            };
            ibv::ibv_ack_async_event(event);
            (DeviceEvent::of(kind, port, token), true)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: everything made of it holds it, and so is gone.
        unsafe { ibv::ibv_close_device(self.0.as_ptr()) };
    }
}
