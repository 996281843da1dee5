//! The engine allocates nothing: neither when data flows, nor, once its tables
//! exist, when connections and link groups come and go.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[allow(dead_code, unreachable_pub, reason = "the proof uses more of it")]
#[path = "../no-std-proof/src/ism_pair.rs"]
mod ism_pair;
#[path = "../no-std-proof/src/unobserved.rs"]
mod observed;

use conformance::direct::{DEVICE, Pair};
use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, TcpEvent};
use smc_proto::event::Event;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::path::LocalPath;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::types::{Gid, Mac, PeerId, Qpn, RKey, RToken};

/// Counts what the current thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|n| n.set(n.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator; the counter is
// constant-initialised and needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(old, layout, size) }
    }
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations while `work` runs.
fn allocations<R>(work: impl FnOnce() -> R) -> (u64, R) {
    let before = ALLOCATIONS.with(Cell::get);
    let result = work();
    (ALLOCATIONS.with(Cell::get) - before, result)
}

#[test]
fn the_counter_counts() {
    let (n, _) = allocations(|| Box::new(1));
    assert_eq!(n, 1);
    let (n, ()) = allocations(|| ());
    assert_eq!(n, 0);
}

#[test]
fn data_flows_without_allocation() {
    let mut pair = Pair::new(4);
    let (a, b) = pair.open();
    let data = vec![7u8; 64 << 10];
    let mut bytes = vec![0u8; 64 << 10];
    let (n, received) = allocations(|| {
        let now = pair.now;
        let mut received = 0;
        for size in [1, 64, 4096, 65_536].into_iter().cycle().take(2000) {
            for (from, writer, reader) in [(0, a, b), (1, b, a)] {
                pair.hosts[from].write(now, writer, &data[..size]);
                pair.pump_data(from);
                while pair.hosts[1 - from].endpoint.poll_event().is_some() {}
                received += pair.hosts[1 - from].read(now, reader, &mut bytes);
                pair.pump_data(1 - from);
                while pair.hosts[from].endpoint.poll_event().is_some() {}
                pair.hosts[from].endpoint.handle_timeout(now);
            }
        }
        received
    });
    assert!(received > 64 << 20, "{received}");
    assert_eq!(n, 0);
}

#[test]
fn smc_d_allocates_nothing_from_the_first_byte_to_the_last_dmb() {
    let mut pair = Box::new(ism_pair::IsmPair::new());
    let data = [7; 16_000];
    let mut bytes = [0; 16_384];
    for maps in [true, false] {
        pair.restart(1, [maps; 2]);
        let (n, carried) = allocations(|| {
            let mut carried = 0;
            for round in 0..20 {
                pair.connect().unwrap();
                for size in [1, 64, 4096, 16_000] {
                    for (from, to) in [(0, 1), (1, 0)] {
                        pair.write(from, &data[..size], false).unwrap();
                        pair.pump().unwrap();
                        carried += pair.read(to, &mut bytes).unwrap();
                        pair.pump().unwrap();
                    }
                }
                let now = pair.now;
                for side in [round % 2, (round + 1) % 2] {
                    let end = pair.side(side).0;
                    let conn = end.conn.unwrap();
                    end.endpoint
                        .conn(conn)
                        .unwrap()
                        .shutdown(now, Shutdown::Both);
                    pair.pump().unwrap();
                }
                assert!(pair.ends.iter().all(|end| end.closed.is_some()));
            }
            let idle = pair.now.after(Duration::from_secs(700));
            pair.wait(idle).unwrap();
            carried
        });
        assert!(carried > 600_000, "{carried}");
        assert_eq!(n, 0);
        for end in &mut pair.ends {
            assert_eq!(end.endpoint.usage().groups, 0);
        }
    }
}

/// Two endpoints without any memory behind their buffers: nothing here but the
/// engines could allocate.
struct Bare {
    ends: [Endpoint<Owned>; 2],
    paths: [LocalPath; 2],
    /// Links by the number of their queue pair, and the one each is bound to.
    links: [[Option<LinkId>; 32]; 2],
    bound: [[usize; 32]; 2],
    now: Instant,
    /// Events and commands by kind, to see that things happened.
    seen: Seen,
}

#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    established: u32,
    first_contacts: u32,
    fell_back: u32,
    closed: u32,
    groups_down: u32,
    tcp_closed: u32,
    tcp_reset: u32,
}

impl Bare {
    fn new(connections: usize) -> Self {
        let paths = [1, 2].map(|number| {
            let mut gid = [0; 16];
            gid[15] = number;
            let mut path = LocalPath::new(DEVICE, 1, Gid(gid), Mac([2, 0, 0, 0, 0, number]));
            path.subnet_match = true;
            path
        });
        Self {
            ends: paths.map(|path| {
                Endpoint::new(
                    Config::new(PeerId::new(1, path.mac)),
                    u64::from(path.mac.0[5]),
                    Owned::new(Limits::for_connections(connections)),
                )
            }),
            paths,
            links: [[None; 32]; 2],
            bound: [[0; 32]; 2],
            now: Instant::ZERO,
            seen: Seen::default(),
        }
    }

    fn open(&mut self, server_has_rnic: bool) -> (ConnId, ConnId) {
        let options = || ConnOptions::new(Subnets::default());
        let path = self.paths[0];
        let a = self.ends[0].connect(self.now, options(), &[path]).unwrap();
        let b = self.ends[1].listen(self.now, options()).unwrap();
        self.run_until_idle(server_has_rnic);
        (a, b)
    }

    /// Lets time pass and timers fire.
    fn wait(&mut self, time: Duration) {
        let until = self.now.after(time);
        loop {
            let next = self
                .ends
                .iter_mut()
                .filter_map(Endpoint::poll_timeout)
                .min();
            self.now = next.map_or(until, |next| next.min(until)).max(self.now);
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
            self.run_until_idle(true);
            if self.now == until {
                return;
            }
        }
    }

    fn run_until_idle(&mut self, server_has_rnic: bool) {
        let mut message = [0; MAX_LENGTH];
        loop {
            let mut idle = true;
            for side in 0..2 {
                while let Some((conn, len)) =
                    self.ends[side].poll_clc(self.now, &mut message).unwrap()
                {
                    idle = false;
                    // Opened in step, the connection has the same handle at both ends.
                    let progress = self.ends[1 - side].handle_clc(self.now, conn, &message[..len]);
                    assert!(
                        matches!(progress, Ok(ClcProgress::Consumed { .. })),
                        "{progress:?}"
                    );
                }
                while let Some((_, command)) = self.ends[side].poll_tcp() {
                    match command {
                        TcpCommand::HandOver { .. } => {}
                        TcpCommand::Close => self.seen.tcp_closed += 1,
                        TcpCommand::Reset => self.seen.tcp_reset += 1,
                    }
                }
                while let Some(command) = self.ends[side].poll_rdma(self.now, DEVICE) {
                    idle = false;
                    self.execute(side, command);
                }
                while let Some(event) = self.ends[side].poll_event() {
                    self.on_event(side, event, server_has_rnic);
                    idle = false;
                }
            }
            if idle {
                return;
            }
        }
    }

    fn on_event(&mut self, side: usize, event: Event, server_has_rnic: bool) {
        match event {
            Event::Proposed { conn } => {
                let paths = &self.paths[side..=side][..usize::from(server_has_rnic)];
                self.ends[side].accept(self.now, conn, paths).unwrap();
            }
            Event::Established { first_contact, .. } => {
                self.seen.established += 1;
                self.seen.first_contacts += u32::from(first_contact);
            }
            Event::FellBack { .. } => self.seen.fell_back += 1,
            Event::Closed { .. } => self.seen.closed += 1,
            Event::GroupDown { .. } => self.seen.groups_down += 1,
            Event::Readable { conn } => {
                let mut connection = self.ends[side].conn(conn).unwrap();
                let length = connection.readable().map_or(0, |spans| spans.len());
                connection.consume(self.now, length).unwrap();
            }
            _ => {}
        }
    }

    fn execute(&mut self, side: usize, command: RdmaCommand) {
        let completion = match command {
            RdmaCommand::CreateQp { link, .. } => {
                self.links[side][link.index() as usize] = Some(link);
                RdmaCompletion::QpCreated {
                    link,
                    qpn: Qpn::new(link.index()),
                }
            }
            RdmaCommand::ConnectQp { link, peer, .. } => {
                self.bound[side][link.index() as usize] = peer.qpn.value() as usize;
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, .. } => RdmaCompletion::QpActive { link },
            RdmaCommand::QpToError { link } => RdmaCompletion::QpDrained { link },
            RdmaCommand::DestroyQp { link } => RdmaCompletion::QpDestroyed { link },
            RdmaCommand::AllocBuffer { buffer, .. } => RdmaCompletion::BufferAllocated { buffer },
            RdmaCommand::RegisterBuffer { buffer, link } => RdmaCompletion::BufferRegistered {
                buffer,
                link,
                rtoken: RToken {
                    rkey: RKey(buffer.index() + 1),
                    address: 0x1000,
                },
            },
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => RdmaCompletion::BufferFreed { buffer },
            RdmaCommand::ClearElement { buffer, offset, .. } => {
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::Write { .. } | RdmaCommand::SendLarge { .. } => return,
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => {
                let to = self.bound[side][link.index() as usize];
                if let Some(to) = self.links[1 - side][to] {
                    let received = RdmaCompletion::Received {
                        link: to,
                        payload: &payload,
                    };
                    self.ends[1 - side].handle_rdma(self.now, received);
                }
                RdmaCompletion::Sent { link, wr_id }
            }
        };
        self.ends[side].handle_rdma(self.now, completion);
    }
}

#[test]
fn connections_and_link_groups_come_and_go_without_allocation() {
    const ROUNDS: u32 = 5;
    const CONNECTIONS: usize = 12;
    let mut bare = Bare::new(CONNECTIONS);
    let (n, seen) = allocations(|| {
        for _ in 0..ROUNDS {
            // A first contact, and connections that join its link group.
            let mut open = [None; CONNECTIONS];
            for slot in &mut open {
                *slot = Some(bare.open(true));
                bare.wait(Duration::from_millis(10));
            }
            // Data both ways.
            for (a, b) in open.into_iter().flatten() {
                for (side, conn) in [(0, a), (1, b)] {
                    let mut connection = bare.ends[side].conn(conn).unwrap();
                    connection.commit(bare.now, 1000).unwrap();
                    bare.run_until_idle(true);
                }
            }
            // A server without RNIC, a client that gives up in the rendezvous.
            bare.open(false);
            let path = bare.paths[0];
            let options = || ConnOptions::new(Subnets::default());
            let given_up = bare.ends[0].connect(bare.now, options(), &[path]).unwrap();
            let left = bare.ends[1].listen(bare.now, options()).unwrap();
            bare.ends[0].conn(given_up).unwrap().abort(bare.now);
            bare.ends[1].handle_tcp(bare.now, left, TcpEvent::PeerReset);
            bare.run_until_idle(true);
            // One is aborted, the others close in order.
            for (i, (a, b)) in open.into_iter().flatten().enumerate() {
                if i == 0 {
                    bare.ends[0].conn(a).unwrap().abort(bare.now);
                } else {
                    for (side, conn) in [(0, a), (1, b)] {
                        let mut connection = bare.ends[side].conn(conn).unwrap();
                        connection.shutdown(bare.now, Shutdown::Both);
                    }
                }
                bare.run_until_idle(true);
            }
            // The group is not used any more.
            bare.wait(Duration::from_secs(1500));
        }
        bare.seen
    });
    let connections = ROUNDS * CONNECTIONS as u32;
    assert_eq!(n, 0);
    assert_eq!(seen.established, 2 * connections, "{seen:?}");
    assert_eq!(seen.first_contacts, 2 * ROUNDS, "{seen:?}");
    assert_eq!(seen.fell_back, 2 * ROUNDS, "{seen:?}");
    assert_eq!(seen.closed, 2 * (connections + ROUNDS), "{seen:?}");
    assert_eq!(seen.groups_down, 2 * ROUNDS, "{seen:?}");
}
