//! What waits for each device of this host to poll it: links and buffers for an RNIC, link groups
//! and buffers for an ISM device.

use crate::config::MAX_DEVICES;
use crate::id::DeviceId;
use crate::link_group::{Buffer, Link, buffer_list, link_list};
#[cfg(feature = "smc-d")]
use crate::link_group::{LinkGroup, list as group_list};
use crate::slots::List;

/// The devices, by number.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    pub(crate) rnics: [Rnic; MAX_DEVICES],
    #[cfg(feature = "smc-d")]
    pub(crate) ism: [IsmDevice; MAX_DEVICES],
}

/// What waits for one RNIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rnic {
    pub(crate) links: List<Link, { link_list::READY }>,
    pub(crate) buffers: List<Buffer, { buffer_list::READY }>,
}

/// What waits for one ISM device.
#[cfg(feature = "smc-d")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsmDevice {
    pub(crate) groups: List<LinkGroup, { group_list::READY }>,
    pub(crate) buffers: List<Buffer, { buffer_list::READY }>,
}

/// The device that executes a command of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufferDevice {
    Rnic(DeviceId),
    #[cfg(feature = "smc-d")]
    Ism(DeviceId),
}

impl Devices {
    /// Nothing waits.
    pub(crate) const IDLE: Self = Self {
        rnics: [Rnic {
            links: List::EMPTY,
            buffers: List::EMPTY,
        }; MAX_DEVICES],
        #[cfg(feature = "smc-d")]
        ism: [IsmDevice {
            groups: List::EMPTY,
            buffers: List::EMPTY,
        }; MAX_DEVICES],
    };

    /// An RNIC, if there can be one of this number.
    #[inline(always)]
    pub(crate) fn rnic(&self, device: DeviceId) -> Option<&Rnic> {
        self.rnics.get(usize::from(device.0))
    }

    /// An RNIC, if there can be one of this number.
    #[inline(always)]
    pub(crate) fn rnic_mut(&mut self, device: DeviceId) -> Option<&mut Rnic> {
        self.rnics.get_mut(usize::from(device.0))
    }

    /// An ISM device, if there can be one of this number.
    #[cfg(feature = "smc-d")]
    #[inline(always)]
    pub(crate) fn ism(&self, device: DeviceId) -> Option<&IsmDevice> {
        self.ism.get(usize::from(device.0))
    }

    /// An ISM device, if there can be one of this number.
    #[cfg(feature = "smc-d")]
    #[inline(always)]
    pub(crate) fn ism_mut(&mut self, device: DeviceId) -> Option<&mut IsmDevice> {
        self.ism.get_mut(usize::from(device.0))
    }

    /// Buffers that have a command for a device.
    pub(crate) fn buffers_mut(
        &mut self,
        device: BufferDevice,
    ) -> Option<&mut List<Buffer, { buffer_list::READY }>> {
        match device {
            BufferDevice::Rnic(device) => Some(&mut self.rnic_mut(device)?.buffers),
            #[cfg(feature = "smc-d")]
            BufferDevice::Ism(device) => Some(&mut self.ism_mut(device)?.buffers),
        }
    }
}

impl Rnic {
    /// Whether the RNIC may have something to do.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.links.is_empty() || !self.buffers.is_empty()
    }
}

#[cfg(feature = "smc-d")]
impl IsmDevice {
    /// Whether the ISM device may have something to do but answer.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.groups.is_empty() || !self.buffers.is_empty()
    }
}
