//! Calls of libibverbs.
//!
//! Objects free themselves, in an order that the library allows: each holds what it was
//! made of.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as ibv;
use rustix::fs::OFlags;
use smc_proto::command::Segment;
use smc_proto::wire::types::{Gid, Mtu};

use crate::memory::Memory;
use crate::ports::{GidEntry, GidKind};
use crate::rnic::{
    Access, Connect, DeviceEvent, MAX_CHAIN, Piece, QueuePairSpec, RECEIVE_DEPTH, SEND_DEPTH,
    SendRequest, Source, Status, Work, WorkCompletion,
};

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

/// What a call that returns an error number says.
fn checked(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// What a call that returns a pointer says.
fn made<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(io::Error::last_os_error)
}

/// The devices of this host.
pub(super) struct DeviceList {
    list: NonNull<*mut ibv::ibv_device>,
    count: usize,
}

impl DeviceList {
    pub(super) fn new() -> io::Result<Self> {
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

    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.devices().map(name)
    }

    /// Opens a device of the list.
    pub(super) fn open(&self, of: &str) -> Option<io::Result<Context>> {
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
        // SAFETY: it came from `ibv_get_device_list`, and nobody uses it any more:
        // devices that were opened stay.
        unsafe { ibv::ibv_free_device_list(self.list.as_ptr()) };
    }
}

fn name(device: *mut ibv::ibv_device) -> String {
    // SAFETY: a device of a list that lives, whose name ends with a zero.
    let name = unsafe { CStr::from_ptr(ibv::ibv_get_device_name(device)) };
    name.to_string_lossy().into_owned()
}

fn nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// An open device.
pub(super) struct Context(NonNull<ibv::ibv_context>);

// SAFETY: libibverbs may be called by any thread, also for the same object.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What a port says of itself.
pub(super) struct PortAttributes {
    pub(super) active: bool,
    pub(super) ethernet: bool,
    pub(super) mtu: Mtu,
}

impl Context {
    pub(super) fn events_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and with it its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.0.as_ptr()).async_fd) }
    }

    /// How many ports there are.
    pub(super) fn ports(&self) -> io::Result<u8> {
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

    pub(super) fn port(&self, port: u8) -> io::Result<PortAttributes> {
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
    pub(super) fn gids(&self) -> io::Result<Vec<(u8, GidEntry)>> {
        // What fits into a request: its length has 16 bits.
        const MOST: usize = 2047;
        let mut entries: Vec<ibv::ibv_gid_entry> = Vec::with_capacity(MOST);
        // SAFETY: the context is open; there is room for `MOST` entries of the size that
        // is told.
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
            // SAFETY: both forms of the union are 16 octets.
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
    pub(super) fn next_event(&self) -> (Option<DeviceEvent>, bool) {
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

/// Tells which completion queues have something.
pub(super) struct Channel {
    channel: NonNull<ibv::ibv_comp_channel>,
    context: Arc<Context>,
}

// SAFETY: as of `Context`.
unsafe impl Send for Channel {}
// SAFETY: as of `Context`.
unsafe impl Sync for Channel {}

impl Channel {
    pub(super) fn new(context: Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let channel = made(unsafe { ibv::ibv_create_comp_channel(context.0.as_ptr()) })?;
        let channel = Self { channel, context };
        nonblocking(channel.as_fd())?;
        Ok(channel)
    }

    /// The token of the next completion queue that has something. It is armed again.
    pub(super) fn next_ready(&self) -> Option<u32> {
        let mut queue = std::ptr::null_mut();
        let mut token: *mut c_void = std::ptr::null_mut();
        // SAFETY: the call writes both pointers if it returns 0. The queue cannot be
        // destroyed until the event is acknowledged, which therefore comes last.
        unsafe {
            let channel = self.channel.as_ptr();
            if ibv::ibv_get_cq_event(channel, &raw mut queue, &raw mut token) != 0 {
                return None;
            }
            // If it cannot be armed, its device is gone, which an event tells.
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

/// A protection domain.
struct Domain {
    domain: NonNull<ibv::ibv_pd>,
    /// Open as long as this is there.
    _context: Arc<Context>,
}

// SAFETY: as of `Context`.
unsafe impl Send for Domain {}
// SAFETY: as of `Context`.
unsafe impl Sync for Domain {}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: queue pairs and regions hold it, and so are gone.
        unsafe { ibv::ibv_dealloc_pd(self.domain.as_ptr()) };
    }
}

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

/// What to change of a queue pair, and which fields say so.
type Change = (ibv::ibv_qp_attr, c_uint);

fn with(mask: c_uint, more: &[ibv::ibv_qp_attr_mask]) -> c_uint {
    more.iter().fold(mask, |mask, field| mask | field.0)
}

impl QueuePair {
    /// Creates a queue pair; `gid_index` is that of the specification.
    pub(super) fn new(
        channel: &Arc<Channel>,
        spec: &QueuePairSpec,
        gid_index: u8,
    ) -> io::Result<Self> {
        let (token, inline) = (spec.token, spec.inline);
        let context = &channel.context;
        // SAFETY: the context is open.
        let domain = made(unsafe { ibv::ibv_alloc_pd(context.0.as_ptr()) })?;
        let domain = Arc::new(Domain {
            domain,
            _context: context.clone(),
        });
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
            made(ibv::ibv_create_qp(domain.domain.as_ptr(), wanted))
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

    pub(super) fn number(&self) -> u32 {
        // SAFETY: the queue pair exists; its number never changes.
        unsafe { (*self.queue_pair.as_ptr()).qp_num }
    }

    pub(super) fn inline(&self) -> u32 {
        self.inline
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
    pub(super) fn initialize(&self) -> io::Result<()> {
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
    pub(super) fn ready_to_receive(&self, to: &Connect) -> io::Result<()> {
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
    pub(super) fn ready_to_send(&self, psn: u32) -> io::Result<()> {
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
    pub(super) fn to_error(&self) -> io::Result<()> {
        self.modify(Self::change(ibv::ibv_qp_state::IBV_QPS_ERR))
    }

    /// Registers memory; a peer finds its first octet at `address`.
    pub(super) fn register(
        &self,
        memory: &Arc<Memory>,
        access: Access,
        address: u64,
    ) -> io::Result<Region> {
        let at = memory.address().cast();
        let local = ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        let remote = ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        let domain = self.domain.domain.as_ptr();
        // SAFETY: the domain exists; `len` octets from there are mapped and stay so,
        // because the region holds the memory. Nobody has references to them.
        let region = made(unsafe {
            match access {
                Access::Local => ibv::ibv_reg_mr(domain, at, memory.len(), local as c_int),
                Access::RemoteWrite => {
                    let access = (local | remote) as c_int;
                    ibv::ibv_reg_mr_iova(domain, at, memory.len(), address, access)
                }
            }
        })?;
        let base = match access {
            Access::Local => at as u64,
            Access::RemoteWrite => address,
        };
        Ok(Region {
            region,
            base,
            memory: memory.clone(),
            _domain: self.domain.clone(),
        })
    }

    pub(super) fn post_receive(&self, number: u64, into: Piece<'_, Region>) -> io::Result<()> {
        let (mut pieces, count) = into.region.pieces(into.segments)?;
        let mut request = ibv::ibv_recv_wr {
            wr_id: number,
            next: std::ptr::null_mut(),
            sg_list: pieces.as_mut_ptr(),
            num_sge: count,
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair exists; the request names pieces that lie within a
        // registered region and is read before the call returns.
        checked(unsafe {
            ibv::ibv_post_recv(self.queue_pair.as_ptr(), &raw mut request, &raw mut bad)
        })
    }

    /// Posts requests; if not all, how many were.
    pub(super) fn post_send(
        &self,
        requests: &[SendRequest<'_, Region>],
    ) -> Result<(), (usize, io::Error)> {
        // SAFETY: numbers and null pointers, for which zero is valid.
        let mut chain: [ibv::ibv_send_wr; MAX_CHAIN] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut pieces: [[ibv::ibv_sge; 2]; MAX_CHAIN] = unsafe { zeroed() };
        if requests.is_empty() || requests.len() > MAX_CHAIN {
            return Err((0, io::ErrorKind::InvalidInput.into()));
        }
        let places = chain.iter_mut().zip(&mut pieces);
        for (request, (place, pieces)) in requests.iter().zip(places) {
            let (count, inline) = match &request.source {
                Source::Fetched(piece) => {
                    let found = piece.region.pieces(piece.segments);
                    let (found, count) = found.map_err(|error| (0, error))?;
                    *pieces = found;
                    (count, false)
                }
                Source::Inline(piece) => {
                    let found = piece.region.host_pieces(piece.segments);
                    let (found, count) = found.map_err(|error| (0, error))?;
                    *pieces = found;
                    (count, true)
                }
                Source::Octets(octets) => {
                    let length = u32::try_from(octets.len());
                    let length = length.map_err(|_| (0, io::ErrorKind::InvalidInput.into()))?;
                    let [piece, _] = pieces;
                    piece.addr = octets.as_ptr() as u64;
                    piece.length = length;
                    (1, true)
                }
            };
            let total = pieces.iter().take(count as usize);
            let total = total.fold(0u32, |sum, piece| sum.saturating_add(piece.length));
            if inline && total > self.inline {
                return Err((0, io::ErrorKind::InvalidInput.into()));
            }
            use ibv::ibv_send_flags as flag;
            let mut flags = if inline { flag::IBV_SEND_INLINE.0 } else { 0 };
            place.wr_id = request.number;
            place.sg_list = pieces.as_mut_ptr();
            place.num_sge = count;
            place.opcode = match request.work {
                Work::Write { rkey, address } => {
                    place.wr.rdma = ibv::rdma_t {
                        remote_addr: address,
                        rkey,
                    };
                    ibv::ibv_wr_opcode::IBV_WR_RDMA_WRITE
                }
                Work::Send => {
                    flags |= flag::IBV_SEND_SIGNALED.0 | flag::IBV_SEND_SOLICITED.0;
                    ibv::ibv_wr_opcode::IBV_WR_SEND
                }
            };
            place.send_flags = flags;
        }
        let first = chain.as_mut_ptr();
        let mut bad = std::ptr::null_mut();
        // SAFETY: `first` and its successors up to the number of requests are elements
        // of one array, each chained to the next. The queue pair exists. Pieces lie
        // within registered regions; those that are taken inline lie in this process and
        // are alive until the call returns, as are the requests. How far the device came
        // is a pointer into the same array.
        unsafe {
            for at in 1..requests.len() {
                (*first.add(at - 1)).next = first.add(at);
            }
            checked(ibv::ibv_post_send(
                self.queue_pair.as_ptr(),
                first,
                &raw mut bad,
            ))
        }
        .map_err(|error| {
            let posted = (bad as usize).saturating_sub(first as usize);
            let posted = posted / size_of::<ibv::ibv_send_wr>();
            (posted.min(requests.len() - 1), error)
        })
    }

    pub(super) fn poll(&self, into: &mut [WorkCompletion]) -> usize {
        const MOST: usize = 32;
        let mut found: [MaybeUninit<ibv::ibv_wc>; MOST] = [const { MaybeUninit::uninit() }; MOST];
        let room = into.len().min(MOST);
        // SAFETY: the queue exists; there is room for `room` completions.
        let count = unsafe {
            let queue = self.completions.queue.as_ptr();
            ibv::ibv_poll_cq(queue, room as i32, found.as_mut_ptr().cast())
        };
        // Less than none is an error: the device is gone, which an event tells.
        let count = usize::try_from(count).unwrap_or(0).min(room);
        for (into, found) in into.iter_mut().zip(found.iter().take(count)) {
            // SAFETY: the call wrote so many. Of one that failed, the number and the
            // status are valid.
            *into = unsafe {
                let found = found.as_ptr();
                WorkCompletion {
                    number: (*found).wr_id,
                    status: Status::of((*found).status),
                    length: (*found).byte_len,
                }
            };
        }
        count
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: it was created and is destroyed once; its completion queue and its
        // domain are dropped after it.
        unsafe { ibv::ibv_destroy_qp(self.queue_pair.as_ptr()) };
    }
}

/// Registered memory.
pub struct Region {
    region: NonNull<ibv::ibv_mr>,
    /// How work requests and peers address the first octet.
    base: u64,
    memory: Arc<Memory>,
    _domain: Arc<Domain>,
}

// SAFETY: as of `Context`.
unsafe impl Send for Region {}

/// Pieces as the library takes them, and how many.
type Pieces = ([ibv::ibv_sge; 2], c_int);

impl Region {
    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: the region exists; its keys never change.
        unsafe { (*self.region.as_ptr()).rkey }
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// As the device addresses them.
    fn pieces(&self, of: [Segment; 2]) -> io::Result<Pieces> {
        self.pieces_from(of, self.base)
    }

    /// As this process addresses them.
    fn host_pieces(&self, of: [Segment; 2]) -> io::Result<Pieces> {
        self.pieces_from(of, self.memory.address() as u64)
    }

    fn pieces_from(&self, of: [Segment; 2], base: u64) -> io::Result<Pieces> {
        // SAFETY: the region exists; its keys never change.
        let lkey = unsafe { (*self.region.as_ptr()).lkey };
        // An unused second piece is not counted; a first one may be of length 0.
        let [first, second] = of;
        let count = if second.length == 0 { 1 } else { 2 };
        let piece = |segment: Segment| {
            let end = u64::from(segment.offset) + u64::from(segment.length);
            if end > self.memory.len() as u64 {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            Ok(ibv::ibv_sge {
                addr: base.wrapping_add(segment.offset.into()),
                length: segment.length,
                lkey,
            })
        };
        Ok(([piece(first)?, piece(second)?], count))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was registered and is deregistered once, before its memory goes.
        unsafe { ibv::ibv_dereg_mr(self.region.as_ptr()) };
    }
}
