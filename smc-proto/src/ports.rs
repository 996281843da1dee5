//! Table of the RNIC ports of this host that are up: further links of a group are added over
//! them, and failed ones replaced.

use crate::config::MAX_PORTS;
use crate::id::{DeviceId, LanId};
use crate::path::LocalPath;
use crate::version::SmcVersion;

/// Ports that are up, learnt from the paths of connections and from
/// [`PathEvent::PortUp`](crate::path::PathEvent::PortUp).
#[derive(Clone, Hash, Debug)]
pub(crate) struct Ports([Option<LocalPath>; MAX_PORTS]);

impl Ports {
    pub(crate) const NONE: Self = Self([None; MAX_PORTS]);

    /// Notes that a port is up. The table has one path of each port for each version of SMC-R; a new
    /// one replaces the old. Ports beyond [`MAX_PORTS`] are not noted: only connections that name
    /// them use them.
    pub(crate) fn learn(&mut self, path: LocalPath) {
        let is_same_port = |known: &Option<LocalPath>| {
            known.is_some_and(|known| known.is_at(&path) && known.roce == path.roce)
        };
        let known = self.0.iter().position(is_same_port);
        let free = self.0.iter().position(Option::is_none);
        if let Some(slot) = known.or(free).and_then(|index| self.0.get_mut(index)) {
            *slot = Some(path);
        }
    }

    /// Removes a port that is down, or with `None` all ports of an RNIC that is gone.
    pub(crate) fn forget(&mut self, device: DeviceId, port: Option<u8>) {
        for slot in &mut self.0 {
            if slot.is_some_and(|path| {
                path.device == device && port.is_none_or(|port| path.port == port)
            }) {
                *slot = None;
            }
        }
    }

    /// Ports on a LAN that serve a version of SMC-R, in the order of the table.
    pub(crate) fn on(
        &self,
        lan: LanId,
        version: SmcVersion,
    ) -> impl Iterator<Item = LocalPath> + '_ {
        self.0
            .iter()
            .flatten()
            .copied()
            .filter(move |path| path.lan == lan && path.serves(version))
    }

    /// All ports that are up.
    pub(crate) fn all(&self) -> impl Iterator<Item = LocalPath> + '_ {
        self.0.iter().flatten().copied()
    }
}
