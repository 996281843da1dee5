//! SMC-R between two endpoints of the direct pair.

use std::time::{Duration, Instant};

use conformance::direct::Pair;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::ConnOptions;
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::BufferSize;

use crate::{Measured, Produce};

fn options(ring: usize) -> ConnOptions {
    let size = BufferSize::at_least(ring as u32);
    assert_eq!(size.octets() as usize, ring);
    let mut options = ConnOptions::new(Subnets::default());
    options.receive_buffer = Some(size);
    options.send_buffer = Some(size);
    options
}

/// Two endpoints with a connection.
pub(crate) struct Endpoints {
    pair: Pair,
    ends: [ConnId; 2],
    ring: usize,
}

impl Endpoints {
    pub(crate) fn new(ring: usize) -> Self {
        let mut pair = Pair::new(4);
        let (a, b) = pair.open_with(options(ring), options(ring));
        Self {
            pair,
            ends: [a, b],
            ring,
        }
    }

    /// Lets one side send what it has, and the other receive it.
    #[inline]
    fn deliver(&mut self, from: usize) {
        self.pair.pump_data(from);
        let to = &mut self.pair.hosts[1 - from].endpoint;
        while to.poll_event().is_some() {}
    }

    #[inline]
    fn read(&mut self, side: usize, bytes: &mut [u8]) -> usize {
        let now = self.pair.now;
        self.pair.hosts[side].read(now, self.ends[side], bytes)
    }

    #[inline]
    fn write(&mut self, side: usize, bytes: &[u8]) -> usize {
        let now = self.pair.now;
        self.pair.hosts[side].write(now, self.ends[side], bytes)
    }

    /// Sends bytes that are in the send buffer.
    #[inline]
    fn commit(&mut self, side: usize, most: usize) -> usize {
        let now = self.pair.now;
        let endpoint = &mut self.pair.hosts[side].endpoint;
        let mut connection = endpoint.conn(self.ends[side]).unwrap();
        let space = connection.send_space().unwrap().len() as usize;
        let sent = space.min(most);
        if sent > 0 {
            connection.commit(now, sent as u32).unwrap();
        }
        sent
    }
}

impl Measured for Endpoints {
    fn ping_pong(&mut self, size: usize, rounds: usize) -> Duration {
        let data = vec![7u8; size];
        let mut bytes = vec![0u8; size];
        let start = Instant::now();
        for _ in 0..rounds {
            for from in [0, 1] {
                self.write(from, &data);
                self.deliver(from);
                assert_eq!(self.read(1 - from, &mut bytes), size);
            }
        }
        start.elapsed()
    }

    fn stream(&mut self, write: usize, total: usize, produce: Produce) -> Duration {
        let data = vec![7u8; write];
        let mut bytes = vec![0u8; write];
        let start = Instant::now();
        let (mut sent, mut received) = (0, 0);
        while received < total {
            let left = (write - sent % write).min(total - sent);
            sent += match produce {
                Produce::CopyIn => self.write(0, &data[..left]),
                Produce::InPlace => self.commit(0, left),
            };
            self.deliver(0);
            loop {
                let n = self.read(1, &mut bytes);
                if n == 0 {
                    break;
                }
                received += n;
            }
            self.deliver(1);
        }
        start.elapsed()
    }

    fn connect_and_close(&mut self, rounds: usize) -> Duration {
        let start = Instant::now();
        for _ in 0..rounds {
            let pair = &mut self.pair;
            let (a, b) = pair.open_with(options(self.ring), options(self.ring));
            let now = pair.now;
            for (side, conn) in [(0, a), (1, b)] {
                let mut connection = pair.hosts[side].endpoint.conn(conn).unwrap();
                connection.shutdown(now, Shutdown::Both);
            }
            pair.pump();
            for host in &mut pair.hosts {
                assert!(matches!(host.events.last(), Some(Event::Closed { .. })));
                host.events.clear();
                host.tcp.clear();
            }
        }
        start.elapsed()
    }
}
