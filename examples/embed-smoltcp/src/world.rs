//! Two hosts, and the time that passes for both.

use smc_proto::time::Instant;
use smoltcp::wire::Ipv4Address;

use crate::driver::{Connection, Host, Transport, tcp_time};
use crate::rnic::Network;
use crate::stack::Stack;

/// Two hosts and what is between them.
pub(crate) struct World {
    hosts: [Host; 2],
    network: Network,
    now: Instant,
}

/// The host that opens connections.
pub(crate) const CLIENT: usize = 0;
/// The host that accepts them.
pub(crate) const SERVER: usize = 1;

impl World {
    pub(crate) fn new() -> Self {
        let addresses = [Ipv4Address::new(10, 0, 0, 1), Ipv4Address::new(10, 0, 0, 2)];
        let [a, b] = Stack::pair(addresses);
        let hosts = [
            Host::new(CLIENT, "client", addresses[CLIENT], a),
            Host::new(SERVER, "server", addresses[SERVER], b),
        ];
        let gids = [&hosts[0], &hosts[1]].map(|host| host.path.expect("just made").gid);
        Self {
            hosts,
            network: Network::new(gids),
            now: Instant::ZERO,
        }
    }

    /// Takes the RNIC from a host: connections it carries live on, new ones
    /// cannot use it.
    pub(crate) fn withhold_rnic(&mut self, host: usize) {
        self.hosts[host].path = None;
    }

    /// Makes a host leave the SMC option out of its SYN-ACKs.
    pub(crate) fn speak_plain_tcp(&mut self, host: usize) {
        self.hosts[host].stack.offer_smc(false);
    }

    /// Bytes that a host wrote into the memory of the other.
    pub(crate) fn bytes_written(&mut self, host: usize) -> (u64, u64) {
        let rnic = self.network.rnic(host);
        (rnic.writes, rnic.bytes_written)
    }

    /// Opens a TCP connection: the number it has at both hosts.
    pub(crate) fn open(&mut self) -> usize {
        let number = self.hosts[CLIENT].connections.len();
        let [client, server] = &mut self.hosts;
        let socket = server.stack.listen();
        server.add_connection(socket, false);
        let port = 50_000 + number as u16;
        let socket = client.stack.connect(server.address, port);
        client.add_connection(socket, true);
        number
    }

    pub(crate) fn end(&self, host: usize, number: usize) -> &Connection {
        &self.hosts[host].connections[number]
    }

    pub(crate) fn transports(&self, number: usize) -> [Transport; 2] {
        [CLIENT, SERVER].map(|host| self.end(host, number).transport)
    }

    /// Runs both hosts until a condition holds. It is tested whenever one of them
    /// did something; time passes only when neither has anything to do.
    pub(crate) fn run_until(&mut self, mut condition: impl FnMut(&mut Self) -> bool) {
        for _ in 0..100_000 {
            let mut moved = false;
            for host in 0..2 {
                let host = &mut self.hosts[host];
                moved |= host.inputs(self.now);
                moved |= host.outputs(self.now, &mut self.network);
                if condition(self) {
                    return;
                }
            }
            if !moved {
                self.sleep();
            }
        }
        panic!("what was waited for does not come");
    }

    /// Lets time pass until a timer or an arrival is due. A real stack sleeps
    /// until then, or until a packet or a completion arrives.
    fn sleep(&mut self) {
        let mut next = None;
        for host in &mut self.hosts {
            let tcp = host.stack.poll_at(tcp_time(self.now));
            let tcp = tcp.map(|at| Instant::from_nanos(at.total_micros() as u64 * 1000));
            for deadline in [host.engine.poll_timeout(), tcp].into_iter().flatten() {
                next = Some(next.map_or(deadline, |other: Instant| other.min(deadline)));
            }
        }
        let soonest = Instant::from_nanos(self.now.as_nanos() + 1000);
        self.now = next.map_or(soonest, |next| next.max(soonest));
    }

    // ---- what the application does -------------------------------------------

    /// Sends bytes: how many there was room for.
    pub(crate) fn write(&mut self, host: usize, number: usize, data: &[u8]) -> usize {
        let rnic = self.network.rnic(host);
        self.hosts[host].write(self.now, rnic, number, data)
    }

    /// Takes received bytes: how many there were.
    pub(crate) fn read(&mut self, host: usize, number: usize, data: &mut [u8]) -> usize {
        let rnic = self.network.rnic(host);
        self.hosts[host].read(self.now, rnic, number, data)
    }

    /// Closes one end in order.
    pub(crate) fn close(&mut self, host: usize, number: usize) {
        self.hosts[host].close(self.now, number);
    }

    /// Whether the TCP connection of an end is over.
    pub(crate) fn is_tcp_closed(&mut self, host: usize, number: usize) -> bool {
        self.hosts[host].is_tcp_closed(number)
    }
}
