//! Real devices, by libibverbs.
//!
//! ```text
//!   RoceDevice ─ context ─┬─ completion channel ─ completions_fd
//!                         ├─ asynchronous events ─ events_fd
//!                         └─ per link: protection domain ─┬─ queue pair ─ completion queue
//!                                                         └─ regions of memory
//! ```

mod device;
#[cfg(feature = "ibverbs-discovery")]
pub mod discovery;
#[allow(unsafe_code)]
mod sys;

use std::fmt;
use std::io;

pub use device::RoceDevice;
pub use sys::{QueuePair, Region};

use crate::ports::Port;

/// The devices of this host, with their ports.
///
/// # Errors
/// [`Unavailable`], if there is none or they cannot be asked.
pub fn ports() -> Result<Vec<Port>, Unavailable> {
    let mut all = Vec::new();
    for name in device_names()? {
        all.extend(RoceDevice::open(&name)?.ports()?);
    }
    Ok(all)
}

/// The names of the devices of this host; at least one.
///
/// # Errors
/// [`Unavailable`].
pub fn device_names() -> Result<Vec<String>, Unavailable> {
    let list = sys::DeviceList::new().map_err(Unavailable::listing)?;
    let names: Vec<_> = list.names().collect();
    match names.is_empty() {
        true => Err(Unavailable::NoDevice),
        false => Ok(names),
    }
}

/// Why there is no RDMA.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unavailable {
    /// The kernel has none of it, or its module is not loaded.
    NoKernelSupport,
    /// There is no device.
    NoDevice,
    /// There is no device of that name.
    NotFound {
        /// The name.
        device: String,
    },
    /// A device cannot be opened or asked.
    Device {
        /// Name of the device; empty if devices cannot even be listed.
        device: String,
        /// The system's answer.
        cause: io::Error,
    },
}

impl Unavailable {
    fn listing(cause: io::Error) -> Self {
        // Without the module there is nothing to ask.
        match cause.raw_os_error() {
            Some(libc::ENOSYS | libc::ENOENT) => Self::NoKernelSupport,
            _ => Self::Device {
                device: String::new(),
                cause,
            },
        }
    }

    fn of(device: &str, cause: io::Error) -> Self {
        let device = device.to_owned();
        Self::Device { device, cause }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernelSupport => f.write_str(
                "this kernel has no RDMA, or the module ib_uverbs is not loaded (modprobe ib_uverbs)",
            ),
            Self::NoDevice => f.write_str(
                "there is no RDMA device; \
                 `rdma link add rxe0 type rxe netdev INTERFACE` makes one in software",
            ),
            Self::NotFound { device } => write!(f, "there is no RDMA device {device}"),
            Self::Device { device, cause } if device.is_empty() => {
                write!(f, "RDMA devices cannot be listed: {cause}")
            }
            Self::Device { device, cause } => {
                write!(f, "RDMA device {device} cannot be used: {cause}")
            }
        }
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_may_go_to_other_threads() {
        fn goes<T: Send>() {}
        goes::<crate::binding::Binding<RoceDevice>>();
        goes::<crate::paths::Surroundings>();
    }

    #[test]
    fn a_machine_without_devices_reports_it() {
        match device_names() {
            Ok(names) => assert!(!names.is_empty()),
            Err(why @ (Unavailable::NoKernelSupport | Unavailable::NoDevice)) => {
                assert!(why.to_string().contains("RDMA"));
            }
            Err(why) => panic!("{why}"),
        }
        assert!(RoceDevice::open("no such device").is_err());
    }
}
