//! What two hosts are, and what of theirs does not work.

use std::fmt;

use smc_proto::config::{Config, Offers};
use smc_proto::id::DeviceId;
use smc_proto::path::{IsmPath, LocalPath, RoceVersion};
use smc_proto::storage::Limits;
use smc_proto::version::SmcVersion;
use smc_proto::wire::types::{BufferSize, Chid, IsmGid, Mac, PeerId};

use crate::rig::{ipv4_gid, local_port};
use crate::versions::eid;

/// The only device of each host.
pub(super) const DEVICE: DeviceId = DeviceId(0);

/// What is to carry the connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// SMC-R.
    SmcR(SmcVersion),
    /// SMC-D, with DMBs that are moved to.
    SmcD(SmcVersion),
}

impl Transport {
    /// All there are.
    pub const ALL: [Self; 4] = [
        Self::SmcR(SmcVersion::V1),
        Self::SmcR(SmcVersion::V2),
        Self::SmcD(SmcVersion::V1),
        Self::SmcD(SmcVersion::V2),
    ];
}

/// A local condition under which SMC cannot be, or not at once. Side 0 is the client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    /// A side has no device.
    NoDevice(u8),
    /// The server's application wants plain TCP.
    Policy,
    /// The server speaks the other version only.
    OtherVersion,
    /// The server has another EID.
    OtherEid,
    /// A side has no slot left for another connection.
    NoConnection(u8),
    /// A side has none for another rendezvous.
    NoHandshake(u8),
    /// A side has none for a link group.
    NoGroup(u8),
    /// A side has none for a link.
    NoLink(u8),
    /// A side has none for its buffers.
    NoBuffer(u8),
    /// A side has none for the peer's RMB.
    NoRemoteRmb(u8),
}

/// A command to a device that has no answer for a while.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    /// The side.
    pub side: u8,
    /// Which of its commands that provide something, from 0.
    pub nth: u8,
}

/// What two hosts are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scenario {
    /// What is to carry the connection.
    pub transport: Transport,
    /// Whether another connection of the two hosts is established already.
    pub subsequent: bool,
    /// Elements of each RMB: with more than one both connections share it.
    pub elements: u8,
    /// Whether the SYNs carried the option.
    pub option: bool,
    /// What does not work.
    pub condition: Option<Condition>,
    /// Which command waits for its answer.
    pub held: Option<Held>,
}

impl Scenario {
    /// Two hosts that can speak SMC.
    #[must_use]
    pub const fn new(transport: Transport) -> Self {
        Self {
            transport,
            subsequent: false,
            elements: 1,
            option: true,
            condition: None,
            held: None,
        }
    }

    fn is(&self, condition: Condition) -> bool {
        self.condition == Some(condition)
    }

    pub(super) fn config(&self, side: u8) -> Config {
        let other = match self.transport {
            Transport::SmcR(SmcVersion::V1) => Offers::SMCR_V2,
            Transport::SmcR(SmcVersion::V2) => Offers::SMCR_V1,
            Transport::SmcD(SmcVersion::V1) => Offers::SMCD_V2,
            Transport::SmcD(SmcVersion::V2) => Offers::SMCD_V1,
        };
        let offers = match self.transport {
            Transport::SmcR(SmcVersion::V1) => Offers::SMCR_V1,
            Transport::SmcR(SmcVersion::V2) => Offers::SMCR_V2,
            Transport::SmcD(SmcVersion::V1) => Offers::SMCD_V1,
            Transport::SmcD(SmcVersion::V2) => Offers::SMCD_V2,
        };
        let mut config = Config::new(PeerId::new(side.into(), mac(side)));
        config.offers = match side == 1 && self.is(Condition::OtherVersion) {
            true => other,
            false => offers,
        };
        let name = match side == 1 && self.is(Condition::OtherEid) {
            true => "OTHER",
            false => "COMMON",
        };
        config.v2.ueids.push(eid(name)).expect("the first");
        config.elements_per_rmb = self.elements;
        config.receive_buffer = BufferSize::K16;
        config.send_buffer = BufferSize::K16;
        config
    }

    pub(super) fn limits(&self, side: u8) -> Limits {
        let connections = usize::from(self.subsequent) + 1;
        let mut limits = Limits::new(connections, 1, 2, 3, 2 * connections + 1, connections + 1);
        let before = usize::from(self.subsequent);
        match self.condition {
            Some(Condition::NoConnection(s)) if s == side => limits.connections = before,
            Some(Condition::NoHandshake(s)) if s == side => limits.handshakes = 0,
            Some(Condition::NoGroup(s)) if s == side => limits.groups = before,
            Some(Condition::NoLink(s)) if s == side => limits.links = before,
            Some(Condition::NoBuffer(s)) if s == side => limits.buffers = 2 * before + 1,
            Some(Condition::NoRemoteRmb(s)) if s == side => limits.remote_rmbs = before,
            _ => {}
        }
        limits
    }

    pub(super) fn is_declined_by_policy(&self) -> bool {
        self.is(Condition::Policy)
    }

    pub(super) fn rnics(&self, side: u8) -> Vec<LocalPath> {
        let Transport::SmcR(version) = self.transport else {
            return Vec::new();
        };
        let mut path = local_port(DEVICE, 1, ipv4_gid([10, 0, 0, side]), mac(side));
        path.roce = match version {
            SmcVersion::V1 => RoceVersion::V1,
            SmcVersion::V2 => RoceVersion::V2,
        };

        match self.is(Condition::NoDevice(side)) {
            true => Vec::new(),
            false => vec![path],
        }
    }

    pub(super) fn ism(&self, side: u8) -> Vec<IsmPath> {
        let Transport::SmcD(version) = self.transport else {
            return Vec::new();
        };
        let v1 = version == SmcVersion::V1;
        let mut path = IsmPath::new(DEVICE, self.gid(side));
        path.pnet_match = v1;
        path.reaches_v1 = v1;
        path.v2 = !v1;
        path.reaches = (!v1).then(|| self.gid(1 - side));
        match self.is(Condition::NoDevice(side)) {
            true => Vec::new(),
            false => vec![path],
        }
    }

    /// The ISM device of a side.
    pub(super) fn gid(&self, side: u8) -> IsmGid {
        let (gid_ext, chid) = match self.transport {
            Transport::SmcD(SmcVersion::V2) => (9, Chid::LOOPBACK),
            _ => (0, Chid(0x07c1)),
        };
        IsmGid {
            gid: 0x1000 + u64::from(side),
            gid_ext,
            chid,
        }
    }
}

const fn mac(side: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, side + 1])
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::SmcR(version) => write!(f, "SMC-R {version:?}")?,
            Transport::SmcD(version) => write!(f, "SMC-D {version:?}")?,
        }
        f.write_str(match self.subsequent {
            true => ", subsequent contact",
            false => ", first contact",
        })?;
        if self.elements > 1 {
            write!(f, ", {} elements", self.elements)?;
        }
        if !self.option {
            f.write_str(", no option")?;
        }
        if let Some(condition) = self.condition {
            write!(f, ", {condition:?}")?;
        }
        if let Some(Held { side, nth }) = self.held {
            write!(f, ", command {nth} of side {side} waits")?;
        }
        Ok(())
    }
}
