//! TCP between two sockets of smoltcp, over a device in memory.

use std::time::{Duration, Instant as Clock};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, Loopback, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use crate::wire::{Checksums, wires};
use crate::{Measured, Produce};

/// How the two sockets are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    /// Both belong to one interface on smoltcp's own loopback device.
    Loopback,
    /// Each belongs to an interface of its own; two queues of packets join these.
    Interfaces(Checksums),
}

/// When received bytes are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acks {
    AtOnce,
    /// After 10 ms at the latest, and with data before; smoltcp's default.
    Delayed,
}

/// Settings of the sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuning {
    /// Bytes of each of the four socket buffers.
    pub(crate) buffer: usize,
    acks: Acks,
}

impl Tuning {
    /// Returns the tunings to choose from.
    pub(crate) fn all(acks: Acks) -> impl Iterator<Item = Self> {
        [32, 64, 128, 256, 512].into_iter().map(move |kib| Self {
            buffer: kib << 10,
            acks,
        })
    }
}

const PORT: u16 = 1234;

struct Stack<D> {
    interface: Interface,
    device: D,
    sockets: SocketSet<'static>,
}

impl<D: Device> Stack<D> {
    fn new(mut device: D, number: u8) -> Self {
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(address(number), 24)).unwrap();
        });
        Self {
            interface,
            device,
            sockets: SocketSet::new(Vec::new()),
        }
    }

    fn add_socket(&mut self, tuning: Tuning) -> SocketHandle {
        let ring = || tcp::SocketBuffer::new(vec![0; tuning.buffer]);
        let mut socket = tcp::Socket::new(ring(), ring());
        socket.set_nagle_enabled(false);
        if tuning.acks == Acks::AtOnce {
            socket.set_ack_delay(None);
        }
        self.sockets.add(socket)
    }
}

fn address(number: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, number)
}

/// Two sockets, the client's first, and the stacks they belong to.
struct Sockets<D> {
    stacks: Vec<Stack<D>>,
    handles: [SocketHandle; 2],
    clock: i64,
    port: u16,
}

impl<D: Device> Sockets<D> {
    fn new(mut stacks: Vec<Stack<D>>, tuning: Tuning) -> Self {
        let client = stacks[0].add_socket(tuning);
        let server = stacks.last_mut().unwrap().add_socket(tuning);
        let mut sockets = Self {
            stacks,
            handles: [client, server],
            clock: 0,
            port: 50_000,
        };
        sockets.connect();
        sockets
    }

    fn stack(&mut self, side: usize) -> &mut Stack<D> {
        let index = side.min(self.stacks.len() - 1);
        &mut self.stacks[index]
    }

    #[inline]
    fn socket(&mut self, side: usize) -> &mut tcp::Socket<'static> {
        let handle = self.handles[side];
        self.stack(side).sockets.get_mut(handle)
    }

    /// Lets the stack of one side, then that of the other, send and receive; once
    /// if they are the same.
    #[inline]
    fn poll(&mut self, first: usize) {
        self.clock += 1;
        let now = Instant::from_micros(self.clock);
        let stacks = self.stacks.len();
        for side in [first, 1 - first].into_iter().take(stacks) {
            let stack = self.stack(side);
            stack
                .interface
                .poll(now, &mut stack.device, &mut stack.sockets);
        }
    }

    fn connect(&mut self) {
        let server = u8::try_from(self.stacks.len()).unwrap();
        self.port = 50_000 + (self.port + 1) % 10_000;
        let port = self.port;
        self.socket(1).listen(PORT).unwrap();
        let handle = self.handles[0];
        let stack = self.stack(0);
        stack
            .sockets
            .get_mut::<tcp::Socket>(handle)
            .connect(stack.interface.context(), (address(server), PORT), port)
            .unwrap();
        while !(self.socket(0).may_send() && self.socket(1).may_send()) {
            self.poll(0);
        }
    }

    fn close(&mut self) {
        self.socket(0).close();
        self.socket(1).close();
        let over = |state| matches!(state, tcp::State::Closed | tcp::State::TimeWait);
        while !(over(self.socket(0).state()) && over(self.socket(1).state())) {
            self.poll(0);
        }
        // No waiting in TIME-WAIT.
        self.socket(0).abort();
        self.socket(1).abort();
    }
}

impl<D: Device> Measured for Sockets<D> {
    fn ping_pong(&mut self, size: usize, rounds: usize) -> Duration {
        let data = vec![7u8; size];
        let mut bytes = vec![0u8; size];
        let start = Clock::now();
        for _ in 0..rounds {
            for from in [0, 1] {
                self.socket(from).send_slice(&data).unwrap();
                let mut received = 0;
                while received < size {
                    self.poll(from);
                    received += self.socket(1 - from).recv_slice(&mut bytes).unwrap();
                }
            }
        }
        start.elapsed()
    }

    fn stream(&mut self, write: usize, total: usize, produce: Produce) -> Duration {
        let data = vec![7u8; write];
        let mut bytes = vec![0u8; write];
        let start = Clock::now();
        let (mut sent, mut received) = (0, 0);
        while received < total {
            let left = (write - sent % write).min(total - sent);
            let socket = self.socket(0);
            sent += match produce {
                Produce::CopyIn => socket.send_slice(&data[..left]).unwrap(),
                Produce::InPlace => {
                    // One piece up to the end of the ring, one from its start.
                    let mut rest = left;
                    for _ in 0..2 {
                        rest -= socket
                            .send(|free| {
                                let n = free.len().min(rest);
                                (n, n)
                            })
                            .unwrap();
                    }
                    left - rest
                }
            };
            self.poll(0);
            loop {
                let n = self.socket(1).recv_slice(&mut bytes).unwrap();
                if n == 0 {
                    break;
                }
                received += n;
            }
        }
        start.elapsed()
    }

    fn connect_and_close(&mut self, rounds: usize) -> Duration {
        self.close();
        let start = Clock::now();
        for _ in 0..rounds {
            self.connect();
            self.close();
        }
        let time = start.elapsed();
        self.connect();
        time
    }
}

/// Two connected sockets.
pub(crate) fn sockets(joined: Joined, tuning: Tuning) -> Box<dyn Measured> {
    match joined {
        Joined::Loopback => {
            let stack = Stack::new(Loopback::new(Medium::Ip), 1);
            Box::new(Sockets::new(vec![stack], tuning))
        }
        Joined::Interfaces(checksums) => {
            let [a, b] = wires(checksums);
            let stacks = vec![Stack::new(a, 1), Stack::new(b, 2)];
            Box::new(Sockets::new(stacks, tuning))
        }
    }
}
