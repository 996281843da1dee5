//! `bpf(2)`: the calls that need pointers.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::assembler::Instruction;
use crate::descriptors;

/// Commands.
const MAP_CREATE: libc::c_int = 0;
const LOOK_UP: libc::c_int = 1;
const UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const TYPES_LOAD: libc::c_int = 18;
const INFORM: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;

/// A map of values that belong to sockets and go with them.
const SOCKET_STORAGE: u32 = 24;
/// Sockets that a listener accepts inherit their listener's value; and what that kind of
/// map always wants.
const CLONED: u32 = 0x200;
const NOT_PREALLOCATED: u32 = 1;
/// The only type of `types()`.
const INTEGER: u32 = 1;
/// The kind of program, and where it is attached.
const SOCKET_OPERATIONS: u32 = 13;
const CGROUP_SOCKET_OPERATIONS: u32 = 3;
/// None of the functions that it calls is kept for programs under the GPL.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// `union bpf_attr` for each command, up to the fields that are used.
#[repr(C)]
struct TypesLoad {
    types: u64,
    log: u64,
    length: u32,
    log_length: u32,
    log_level: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_length: u32,
    value_length: u32,
    entries: u32,
    flags: u32,
    inner_map: u32,
    node: u32,
    name: [u8; 16],
    interface: u32,
    types: u32,
    key_type: u32,
    value_type: u32,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_length: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attached_as: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    attached_as: u32,
    flags: u32,
}

#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Inform {
    object: u32,
    length: u32,
    information: u64,
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct MapInformation {
    kind: u32,
    identity: u32,
    key_length: u32,
    value_length: u32,
}

const _: () = assert!(size_of::<Inform>() == 16);
const _: () = assert!(size_of::<TypesLoad>() == 32);
const _: () = assert!(size_of::<MapCreate>() == 60);
const _: () = assert!(size_of::<ProgramLoad>() == 72);
const _: () = assert!(size_of::<LinkCreate>() == 16);
const _: () = assert!(size_of::<Element>() == 32);

/// Loads type information.
pub(super) fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    let attributes = TypesLoad {
        types: address(types.as_ptr()),
        log: 0,
        length: length(types.len())?,
        log_length: 0,
        log_level: 0,
        pad: 0,
    };
    // SAFETY: the kernel reads `length` bytes at `types`, which is borrowed.
    unsafe { descriptor(TYPES_LOAD, &attributes) }
}

/// Makes a map from sockets to 32 bits each.
pub(super) fn create_map(types: BorrowedFd<'_>) -> io::Result<Map> {
    let attributes = MapCreate {
        kind: SOCKET_STORAGE,
        key_length: 4,
        value_length: 4,
        flags: NOT_PREALLOCATED | CLONED,
        name: *b"smc_marks\0\0\0\0\0\0\0",
        types: number(types),
        key_type: INTEGER,
        value_type: INTEGER,
        ..MapCreate::default()
    };
    // SAFETY: this command has no pointers.
    unsafe { descriptor(MAP_CREATE, &attributes) }.map(Map)
}

/// Loads a program for socket operations, which the kernel verifies.
pub(super) fn load_program(code: &[Instruction]) -> io::Result<OwnedFd> {
    // Instructions are aligned to their eight bytes.
    let aligned: Vec<u64> = code
        .iter()
        .map(|octets| u64::from_ne_bytes(*octets))
        .collect();
    let attributes = ProgramLoad {
        kind: SOCKET_OPERATIONS,
        count: length(aligned.len())?,
        instructions: address(aligned.as_ptr()),
        license: address(LICENSE.as_ptr()),
        log_level: 0,
        log_length: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: *b"smc_option\0\0\0\0\0\0",
        interface: 0,
        attached_as: CGROUP_SOCKET_OPERATIONS,
    };
    // SAFETY: the kernel reads `count` instructions of eight bytes from a vector that
    // lives until after the call, and a string with its NUL.
    unsafe { descriptor(PROGRAM_LOAD, &attributes) }
}

/// Attaches a program to a cgroup for as long as the descriptor is open.
pub(super) fn attach(program: BorrowedFd<'_>, cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes = LinkCreate {
        program: number(program),
        target: number(cgroup),
        attached_as: CGROUP_SOCKET_OPERATIONS,
        flags: 0,
    };
    // SAFETY: this command has no pointers.
    unsafe { descriptor(LINK_CREATE, &attributes) }
}

/// A map from sockets to 32 bits each: one that [`create_map`] made, here or elsewhere.
#[derive(Debug)]
pub(super) struct Map(OwnedFd);

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl TryFrom<OwnedFd> for Map {
    type Error = io::Error;

    /// Fails if it is any other descriptor: the kernel reads and writes as much as the
    /// map says.
    fn try_from(map: OwnedFd) -> io::Result<Self> {
        let mut information = MapInformation::default();
        let attributes = Inform {
            object: number(map.as_fd()),
            length: length(size_of::<MapInformation>())?,
            information: address(&raw mut information),
        };
        // SAFETY: the kernel writes no more than the length of this value.
        unsafe { call(INFORM, &attributes) }?;
        match information {
            MapInformation {
                kind: SOCKET_STORAGE,
                key_length: 4,
                value_length: 4,
                ..
            } => Ok(Self(map)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not the map of SMC's TCP option",
            )),
        }
    }
}

/// Sets a socket's value.
pub(super) fn update(map: &Map, socket: BorrowedFd<'_>, value: u32) -> io::Result<()> {
    let key = socket.as_raw_fd();
    let attributes = Element {
        map: number(map.as_fd()),
        pad: 0,
        key: address(&raw const key),
        value: address(&raw const value),
        flags: 0,
    };
    // SAFETY: the kernel reads a key and a value as long as the map says, four bytes
    // each, as a `Map`'s are; both are integers of that length on this stack.
    unsafe { call(UPDATE, &attributes) }.map(drop)
}

/// A socket's value.
pub(super) fn look_up(map: &Map, socket: BorrowedFd<'_>) -> io::Result<u32> {
    let key = socket.as_raw_fd();
    let mut value = 0_u32;
    let attributes = Element {
        map: number(map.as_fd()),
        pad: 0,
        key: address(&raw const key),
        value: address(&raw mut value),
        flags: 0,
    };
    // SAFETY: as above, and the kernel writes the value, of four bytes.
    unsafe { call(LOOK_UP, &attributes) }?;
    Ok(value)
}

/// A call that makes a descriptor.
///
/// # Safety
/// Errors of [`call`].
unsafe fn descriptor<A>(command: libc::c_int, attributes: &A) -> io::Result<OwnedFd> {
    let make = || {
        // SAFETY: by this function's contract.
        let made = unsafe { call(command, attributes) };
        let made = made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // SAFETY: the kernel has just made it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    };
    Ok(descriptors::keep(make)?)
}

/// # Safety
/// `attributes` are those of the command, and its pointers are valid for what the kernel
/// reads and writes.
unsafe fn call<A>(command: libc::c_int, attributes: &A) -> io::Result<libc::c_int> {
    // SAFETY: the pointer and the length are those of a value that is borrowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<A>(),
        )
    };
    match libc::c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

fn number(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(io::Error::other)
}
