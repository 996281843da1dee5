//! Two hosts of one machine, each with an ISM device, and what tests of SMC-D ask
//! of them; and one engine of SMC-D alone, between a [hand] that plays its peer and
//! its device.

pub mod hand;

use crate::judge::Judge;
use crate::rig::peer::smcd::eid;
use crate::world::World;
use smc_proto::config::{Config, Offers};
use smc_proto::id::DeviceId;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::wire::types::{BufferSize, Chid, IsmGid, Mac, PeerId};
use smc_transport_sim::fabric::{FabricConfig, IsmConfig};
use smc_transport_sim::sim::{Simulation, SocketId, Transport};

/// The only ISM device of each host.
pub const DEVICE: DeviceId = DeviceId(0);

/// How the two hosts are to be.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Whether the devices of client and server map DMBs of the peer.
    pub attaches: [bool; 2],
    /// Channel of both devices.
    pub chid: Chid,
    /// What both hosts offer.
    pub offers: Offers,
    /// From a signal to its report.
    pub signal_latency: Duration,
    /// Most DMBs of each device.
    pub most_dmbs: usize,
    /// Buffers of both hosts.
    pub buffers: BufferSize,
    /// Tables of both hosts.
    pub limits: fn() -> Limits,
}

impl Setup {
    /// Emulated devices that speak version 2, with the smallest DMBs there are.
    #[must_use]
    pub const fn new(attaches: bool) -> Self {
        Self {
            attaches: [attaches; 2],
            chid: Chid::LOOPBACK,
            offers: Offers::SMCD,
            signal_latency: Duration::from_micros(2),
            most_dmbs: 1888,
            buffers: BufferSize::K16,
            limits: || Limits::for_connections(8),
        }
    }

    /// Both hosts, with nothing between them yet.
    #[must_use]
    pub fn build(self) -> World {
        let seed = 7;
        let mut sim = Simulation::new(FabricConfig::default(), seed);
        let judge = Judge::watch(&mut sim);
        let hosts = [("client", 1_u8), ("server", 2)].map(|(name, number)| {
            let mac = Mac([2, 0, 0, 0, 0, number]);
            let mut config = Config::new(PeerId::new(number.into(), mac));
            config.offers = self.offers;
            config.receive_buffer = self.buffers;
            config.send_buffer = self.buffers;
            config.v2.ueids.push(eid()).expect("the first one");
            let host = sim.add_host(name, config, (self.limits)(), &[]);
            let attaches = self.attaches[usize::from(number - 1)];
            sim.add_ism(host, self.device(number, attaches));
            host
        });
        World::of(sim, hosts, judge, seed)
    }

    fn device(&self, number: u8, attaches: bool) -> IsmConfig {
        let gid = IsmGid {
            gid: 0x1000 + u64::from(number),
            gid_ext: if self.chid.is_emulated() { 9 } else { 0 },
            chid: self.chid,
        };
        IsmConfig {
            attaches,
            most_dmbs: self.most_dmbs,
            signal_latency: self.signal_latency,
            ..IsmConfig::new(DEVICE, gid)
        }
    }
}

impl World {
    /// A connection that SMC-D carries 10 ms later: its ends at client and server.
    #[track_caller]
    pub fn connect(&mut self) -> [SocketId; 2] {
        let (near, far) = self.sim.connect(self.client, self.server);
        self.run(Duration::from_millis(10));
        for end in [near, far] {
            if self.transport(end) != Transport::Smc {
                self.fail(format_args!("{end:?} is not carried by SMC-D"));
            }
        }
        [near, far]
    }

    /// Writes bytes at one end, lets time pass and reads them at the other.
    pub fn carry(&mut self, from: SocketId, to: SocketId, bytes: &[u8]) -> Vec<u8> {
        self.sim.write(from, bytes);
        self.run(Duration::from_millis(50));
        self.sim.read(to)
    }
}
