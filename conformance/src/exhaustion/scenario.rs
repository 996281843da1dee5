//! What two hosts are and what their applications do.

use smc_proto::config::{Config, Offers};
use smc_proto::id::DeviceId;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::wire::types::{BufferSize, Chid, DiagnosisCode, Eid, IsmGid, Mac, PeerId};
use smc_transport_sim::fabric::{FabricConfig, HostId, IsmConfig};
use smc_transport_sim::sim::{Policy, Simulation};

use crate::versions::port;

/// An event of a scenario. Connections are numbered as they are opened,
/// sides and hosts are 0 and 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// A host connects to the other one.
    Open(u8),
    /// One side of a connection writes so many bytes.
    Write(usize, usize, u64),
    /// What one side writes from now on is urgent.
    Urge(usize, usize),
    /// One side has written all, and closes when the other one has, too.
    Finish(usize, usize),
    /// One side closes, whatever the other one does.
    Close(usize, usize),
    /// One side aborts.
    Abort(usize, usize),
    /// The ports of an RNIC, by its number, lose their carrier at both hosts.
    PortsDown(u8, Duration),
    /// The links of an RNIC, by its number, fail.
    LinkFails(u8),
    /// A host gives up all its link groups.
    Leave(u8),
}

/// Two hosts, and what happens to them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about.
    pub name: &'static str,
    pub(super) offers: Offers,
    pub(super) rnics: u8,
    pub(super) chid: Option<Chid>,
    pub(super) eid: bool,
    pub(super) elements: u8,
    pub(super) keepalive: Duration,
    pub(super) idle: Duration,
    pub(super) decline: Option<DiagnosisCode>,
    pub(super) lines: Vec<(Duration, Act)>,
}

impl Scenario {
    /// A scenario of two hosts with an RNIC each, which speak version 1.
    pub(super) const fn smcr(name: &'static str) -> Self {
        Self {
            name,
            offers: Offers::SMCR,
            rnics: 1,
            chid: None,
            eid: false,
            elements: 1,
            keepalive: Duration::from_secs(30),
            idle: Duration::from_secs(20),
            decline: None,
            lines: Vec::new(),
        }
    }

    /// A scenario of two hosts with an ISM device each, which speak this version.
    pub(super) const fn smcd(name: &'static str, offers: Offers) -> Self {
        let mut scenario = Self::smcr(name);
        scenario.offers = offers;
        scenario.rnics = 0;
        scenario.chid = Some(Chid(0x07c1));
        scenario.eid = true;
        scenario
    }

    pub(super) const fn rnics(mut self, rnics: u8) -> Self {
        self.rnics = rnics;
        self
    }

    pub(super) const fn version_2(mut self) -> Self {
        self.eid = true;
        self
    }

    pub(super) const fn elements(mut self, elements: u8) -> Self {
        self.elements = elements;
        self
    }

    /// Links are tested after one time without a message, and end after the other.
    pub(super) const fn keepalive(mut self, tested: Duration, idle: Duration) -> Self {
        (self.keepalive, self.idle) = (tested, idle);
        self
    }

    pub(super) const fn declined(mut self, why: DiagnosisCode) -> Self {
        self.decline = Some(why);
        self
    }

    /// Something happens so many milliseconds after the beginning.
    pub(super) fn at(mut self, milliseconds: u64, act: Act) -> Self {
        let at = Duration::from_millis(milliseconds);
        self.lines.push((at, act));
        self
    }

    /// Both sides write so many bytes.
    pub(super) fn both_write(self, milliseconds: u64, conn: usize, bytes: u64) -> Self {
        self.at(milliseconds, Act::Write(conn, 0, bytes))
            .at(milliseconds, Act::Write(conn, 1, bytes))
    }

    /// Both sides end in order.
    pub(super) fn both_finish(self, milliseconds: u64, conn: usize) -> Self {
        self.at(milliseconds, Act::Finish(conn, 0))
            .at(milliseconds, Act::Finish(conn, 1))
    }

    /// A connection that is opened, talks both ways and ends in order.
    pub(super) fn whole(self, milliseconds: u64, conn: usize, bytes: u64) -> Self {
        self.at(milliseconds, Act::Open(0))
            .both_write(milliseconds, conn, bytes)
            .both_finish(milliseconds, conn)
    }

    /// How many connections it opens.
    pub(super) fn connections(&self) -> usize {
        let opens = |(_, act): &&(Duration, Act)| matches!(act, Act::Open(_));
        self.lines.iter().filter(opens).count()
    }

    /// Bytes that the sides of a connection write.
    pub(super) fn octets(&self, conn: usize) -> [u64; 2] {
        [0, 1].map(|side| {
            let of = self.lines.iter().filter_map(|(_, act)| match act {
                Act::Write(c, s, bytes) if (*c, *s) == (conn, side) => Some(bytes),
                _ => None,
            });
            of.sum()
        })
    }

    /// Whether both sides of a connection end in order.
    pub(super) fn is_graceful(&self, conn: usize) -> bool {
        let finishes = |side| {
            let finish = Act::Finish(conn, side);
            self.lines.iter().any(|(_, act)| *act == finish)
        };
        let harsh = |act: &Act| match act {
            Act::Abort(c, _) | Act::Close(c, _) => *c == conn,
            Act::Leave(_) => true,
            _ => false,
        };
        finishes(0) && finishes(1) && !self.lines.iter().any(|(_, act)| harsh(act))
    }

    /// The hosts as they are before anything happens.
    pub(super) fn begin(&self) -> (Simulation, [HostId; 2]) {
        let mut simulation = Simulation::new(FabricConfig::default(), 0xe0);
        simulation.set_trace(0);
        let hosts = [0, 1].map(|host: u8| {
            let ports: Vec<_> = (0..self.rnics).map(|rnic| port(host, rnic)).collect();
            let name = ["anna", "bert"][usize::from(host)];
            let limits = Limits::for_connections(24);
            let id = simulation.add_host(name, self.config(host), limits, &ports);
            if let Some(chid) = self.chid {
                let gid = IsmGid {
                    gid: 0x1000 + u64::from(host),
                    gid_ext: 0,
                    chid,
                };
                simulation.add_ism(id, IsmConfig::new(DeviceId(0), gid));
            }
            id
        });
        let policy = Policy {
            decline: self.decline,
            ..Policy::default()
        };
        simulation.set_policy(hosts[1], policy);
        simulation.check_invariants();
        (simulation, hosts)
    }

    fn config(&self, host: u8) -> Config {
        let mac = Mac([2, 0, 0, 0, 0, host + 1]);
        let mut config = Config::new(PeerId::new(u16::from(host) + 1, mac));
        config.offers = self.offers;
        config.receive_buffer = BufferSize::K16;
        config.send_buffer = BufferSize::K16;
        config.elements_per_rmb = self.elements;
        if self.eid
            && let Ok(eid) = Eid::user("A")
        {
            // It is the only one.
            let _ = config.v2.ueids.push(eid);
        }
        let timeouts = &mut config.timeouts;
        timeouts.keepalive = self.keepalive;
        timeouts.group_idle_server = self.idle;
        timeouts.group_idle_client = self.idle.saturating_add(Duration::from_secs(2));
        timeouts.rmb_idle = Duration::from_secs(5);
        config
    }
}
