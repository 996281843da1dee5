//! System calls that need pointers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::pci::DeviceMemory;

/// The user that a Unix socket's other end belonged to when it connected or began to
/// listen.
///
/// Not by rustix: its answer holds a process id that cannot be 0, and the kernel returns
/// 0 of a process in another PID namespace.
pub(crate) fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are to a `ucred` and to its length, and the kernel writes
    // no more than that length; the descriptor is open, as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    if result == 0 && len as usize == size_of::<libc::ucred>() {
        Ok(credentials.uid)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets `IP_BIND_ADDRESS_NO_PORT` of an IP socket, of either version.
pub(crate) fn set_bind_address_no_port(socket: impl AsFd, on: bool) -> io::Result<()> {
    let value = libc::c_int::from(on);
    // SAFETY: the pointer is to an `int` of the length that is given; the descriptor is open, as
    // it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets `IP_MULTICAST_ALL` of an IP socket, of either version.
pub(crate) fn set_multicast_all(socket: impl AsFd, on: bool) -> io::Result<()> {
    let value = libc::c_int::from(on);
    // SAFETY: the pointer is to an `int` of the length that is given; the descriptor is open, as
    // it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_ALL,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a socket is bound to a network interface (`SO_BINDTOIFINDEX`).
pub(crate) fn is_bound_to_interface(socket: impl AsFd) -> io::Result<bool> {
    let mut index: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers are to an `int` and to its length, and the kernel writes no more than
    // that length; the descriptor is open, as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTOIFINDEX,
            (&raw mut index).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(index != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How much of what was sent over a Unix socket its peer has not received yet, in bytes as
/// the kernel counts them against the socket's buffer.
pub(crate) fn unread_by_peer(socket: impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one `int`, to which the pointer is.
    unsafe {
        request(
            socket.as_fd(),
            libc::TIOCOUTQ as u32,
            (&raw mut bytes) as libc::c_ulong,
        )?
    };
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// Where a region of a VFIO device lies in its file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Region {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// VFIO's requests are all numbered from here, with neither direction nor size.
const VFIO: u32 = (b';' as u32) << 8;
const GET_API_VERSION: u32 = VFIO + 100;
const CHECK_EXTENSION: u32 = VFIO + 101;
const SET_IOMMU: u32 = VFIO + 102;
const GROUP_GET_STATUS: u32 = VFIO + 103;
const GROUP_SET_CONTAINER: u32 = VFIO + 104;
const GROUP_GET_DEVICE_FD: u32 = VFIO + 106;
const DEVICE_GET_REGION_INFO: u32 = VFIO + 108;
const DEVICE_SET_IRQS: u32 = VFIO + 110;
const IOMMU_MAP_DMA: u32 = VFIO + 113;
const IOMMU_UNMAP_DMA: u32 = VFIO + 114;
const API_VERSION: libc::c_int = 0;
const TYPE1: libc::c_ulong = 1;
const VIABLE: u32 = 1;
const READ_WRITE: u32 = 3;
const MSIX: u32 = 2;
const TRIGGER_BY_EVENTFD: u32 = (1 << 5) | (1 << 2);

/// An `ioctl` with a number or a pointer.
///
/// # Safety
/// `argument` is what the request takes; if that is a pointer, it is to memory that the
/// request may read and write as its structure defines.
unsafe fn request(
    fd: BorrowedFd<'_>,
    number: u32,
    argument: libc::c_ulong,
) -> io::Result<libc::c_int> {
    // SAFETY: the descriptor is open, as it is borrowed; the rest is the caller's.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), number as _, argument) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A request whose argument is a structure, which begins with its own size.
///
/// # Safety
/// `T` is the structure that the request takes, without pointers in it that the kernel
/// would write through.
unsafe fn request_with<T>(fd: BorrowedFd<'_>, number: u32, argument: &mut T) -> io::Result<()> {
    // SAFETY: a pointer to the structure the request takes, by the caller's contract.
    unsafe { request(fd, number, (&raw mut *argument) as libc::c_ulong) }.map(|_| ())
}

/// Opens a device of a group, with the container's IOMMU.
pub(crate) fn vfio_device(
    container: BorrowedFd<'_>,
    group: BorrowedFd<'_>,
    name: &str,
) -> io::Result<OwnedFd> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut status = [8u32, 0];
    let mut member = container.as_raw_fd();
    // SAFETY: these take a number, no structure, or the structure given: a status of
    // two words, a pointer to a descriptor, a name that ends with a zero.
    unsafe {
        let version = request(container, GET_API_VERSION, 0)?;
        let type1 = request(container, CHECK_EXTENSION, TYPE1)?;
        if version != API_VERSION || type1 != 1 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        request_with(group, GROUP_GET_STATUS, &mut status)?;
        if status[1] & VIABLE == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        request_with(group, GROUP_SET_CONTAINER, &mut member)?;
        request(container, SET_IOMMU, TYPE1)?;
        let fd = request(group, GROUP_GET_DEVICE_FD, name.as_ptr() as libc::c_ulong)?;
        // The kernel has just made this descriptor, for this caller alone.
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Where a device's region is.
pub(crate) fn vfio_region(device: BorrowedFd<'_>, index: u32) -> io::Result<Region> {
    #[repr(C)]
    struct Info {
        argsz: u32,
        flags: u32,
        index: u32,
        cap_offset: u32,
        size: u64,
        offset: u64,
    }
    let argsz = size_of::<Info>() as u32;
    let mut info = Info {
        argsz,
        flags: 0,
        index,
        cap_offset: 0,
        size: 0,
        offset: 0,
    };
    // SAFETY: the structure of this request, with its size.
    unsafe { request_with(device, DEVICE_GET_REGION_INFO, &mut info)? };
    Ok(Region {
        offset: info.offset,
        size: info.size,
    })
}

/// Has an MSI-X interrupt written to an eventfd.
pub(crate) fn vfio_interrupt(
    device: BorrowedFd<'_>,
    start: u32,
    eventfd: BorrowedFd<'_>,
) -> io::Result<()> {
    #[repr(C)]
    struct Set {
        argsz: u32,
        flags: u32,
        index: u32,
        start: u32,
        count: u32,
        fd: i32,
    }
    let argsz = size_of::<Set>() as u32;
    let fd = eventfd.as_raw_fd();
    let mut set = Set {
        argsz,
        flags: TRIGGER_BY_EVENTFD,
        index: MSIX,
        start,
        count: 1,
        fd,
    };
    // SAFETY: the structure of this request with one descriptor behind it, and its size.
    unsafe { request_with(device, DEVICE_SET_IRQS, &mut set) }
}

/// Lets the container's devices reach memory at an address of theirs.
pub(crate) fn vfio_map(
    container: BorrowedFd<'_>,
    memory: &DeviceMemory,
    at: u64,
) -> io::Result<()> {
    #[repr(C)]
    struct Map {
        argsz: u32,
        flags: u32,
        vaddr: u64,
        iova: u64,
        size: u64,
    }
    let argsz = size_of::<Map>() as u32;
    let (vaddr, size) = (
        memory.address().expose_provenance() as u64,
        memory.len() as u64,
    );
    let mut map = Map {
        argsz,
        flags: READ_WRITE,
        vaddr,
        iova: at,
        size,
    };
    // SAFETY: the structure of this request, with its size. The devices write to whole
    // pages of a mapping that is only accessed as `SharedRegion` does. It stays while
    // it is theirs: the kernel holds its pages.
    unsafe { request_with(container, IOMMU_MAP_DMA, &mut map) }
}

/// Ends what [`vfio_map`] began.
pub(crate) fn vfio_unmap(container: BorrowedFd<'_>, at: u64, size: u64) -> io::Result<()> {
    #[repr(C)]
    struct Unmap {
        argsz: u32,
        flags: u32,
        iova: u64,
        size: u64,
    }
    let argsz = size_of::<Unmap>() as u32;
    let mut unmap = Unmap {
        argsz,
        flags: 0,
        iova: at,
        size,
    };
    // SAFETY: the structure of this request, with its size.
    unsafe { request_with(container, IOMMU_UNMAP_DMA, &mut unmap) }
}
