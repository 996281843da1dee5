//! Both ends and what is between them.

use core::fmt::Display;

use smc_proto::endpoint::ConnOptions;
use smc_proto::event::Event;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::clc::Subnets;

use super::app::byte;
use super::failure::Late;
use super::{App, Host};

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// RNIC ports of each side.
    pub ports: [u8; 2],
    /// Most links of the group.
    pub links: u8,
    /// Receive buffer of each side, in bytes.
    pub receive: [u32; 2],
    /// Send buffer of each side, in bytes.
    pub send: [u32; 2],
    /// Most connections.
    pub connections: usize,
    /// Elements of each RMB.
    pub elements: u8,
    /// Whether RMB elements have eye catchers.
    pub eye_catcher: bool,
    /// Whether urgent bytes are read in their place.
    pub urgent_inline: bool,
    /// Whether writes are never held back.
    pub nodelay: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            ports: [2, 2],
            links: 2,
            receive: [16 << 10; 2],
            send: [16 << 10; 2],
            connections: 2,
            elements: 1,
            eye_catcher: false,
            urgent_inline: true,
            nodelay: true,
        }
    }
}

/// Two hosts; 0 is the client.
#[derive(Clone, Debug)]
pub struct World {
    /// The hosts.
    pub hosts: [Host; 2],
    /// The time given to the engines.
    pub now: Instant,
    /// Links of either side on which nothing passes any more.
    pub cut: Vec<(usize, LinkId)>,
    /// What happens on a queue pair that is given up.
    pub late: Late,
    /// Whether `QpDrained` is reported only when nothing else moves.
    pub slow_drain: bool,
    /// Queue pairs given up for which it was not reported.
    pub(super) draining: Vec<(usize, LinkId)>,
    /// Whether each WRITE is compared with what was granted.
    pub checking: bool,
    /// Whose turn it is.
    pub(super) turn: usize,
    /// A failure may take as long as LLC takes to find it.
    pub patient: bool,
    /// What was wrong.
    pub errors: Vec<String>,
    /// Events, if they are recorded.
    pub log: Option<Vec<String>>,
    /// Commands and messages since the world began.
    pub steps: u64,
}

impl World {
    /// Two hosts whose ports are all up.
    #[must_use]
    pub fn new(shape: &Shape) -> Self {
        let mut world = Self {
            hosts: [Host::new(1, shape), Host::new(2, shape)],
            now: Instant::from_nanos(1_000_000),
            cut: Vec::new(),
            late: Late::Nothing,
            slow_drain: false,
            draining: Vec::new(),
            checking: true,
            turn: 0,
            patient: false,
            errors: Vec::new(),
            log: None,
            steps: 0,
        };
        for side in 0..2 {
            for port in 0..world.hosts[side].paths.len() {
                world.hosts[side].port_up(world.now, port);
            }
        }
        world
    }

    /// Two hosts with a group of as many links as the shape allows and one
    /// connection, over which `offsets` bytes have gone each way.
    #[must_use]
    pub fn connected(shape: &Shape, offsets: [u64; 2]) -> Self {
        let mut world = Self::new(shape);
        world.open(shape);
        world.form();
        for (side, bytes) in offsets.into_iter().enumerate() {
            world.carry(side, bytes);
        }
        world
    }

    /// Starts the rendezvous of a connection; it has the same index at both ends.
    pub fn open(&mut self, shape: &Shape) -> (ConnId, ConnId) {
        let mut options = ConnOptions::new(Subnets::default());
        options.urgent_inline = shape.urgent_inline;
        options.nodelay = shape.nodelay;
        let paths = self.hosts[0].paths.clone();
        let a = self.hosts[0]
            .endpoint
            .connect(self.now, options.clone(), &paths)
            .expect("a free slot");
        let b = self.hosts[1]
            .endpoint
            .listen(self.now, options)
            .expect("a free slot");
        assert_eq!(a.index(), b.index());
        self.hosts[0].apps.push(App::new(a));
        self.hosts[1].apps.push(App::new(b));
        (a, b)
    }

    /// Lets the group come up with all its links.
    fn form(&mut self) {
        let wanted = usize::from(self.hosts[0].endpoint.config().max_links)
            .min(self.hosts[0].paths.len().max(self.hosts[1].paths.len()));
        for _ in 0..200 {
            self.calm();
            let up = |events: &[Event]| {
                events
                    .iter()
                    .filter(|e| matches!(e, Event::LinkUp { .. }))
                    .count()
            };
            if (0..2).all(|side| up(&self.hosts[side].events) >= wanted) {
                return;
            }
            assert!(
                self.advance(Duration::from_millis(100)),
                "no timer, no group"
            );
        }
        panic!("the group does not come up: {:?}", self.hosts[0].events);
    }

    /// Sends bytes of connection 0 from one side to the other.
    fn carry(&mut self, from: usize, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let n = self.commit(
                from,
                0,
                u32::try_from(left.min(4096)).expect("small"),
                false,
            );
            left -= u64::from(n);
            self.calm();
            self.read(1 - from, 0, u32::MAX);
            self.calm();
        }
        self.advance(Duration::from_millis(5));
        self.calm();
    }

    /// Posts, delivers and completes everything there is, without time or
    /// applications.
    pub fn calm(&mut self) {
        loop {
            let mut idle = true;
            for side in 0..2 {
                idle &= !self.clc(side);
                while self.post(side) {
                    idle = false;
                }
                while self.deliver(side) {
                    idle = false;
                }
                while self.complete(side) {
                    idle = false;
                }
                idle &= !self.collect(side);
            }
            if idle {
                return;
            }
        }
    }

    /// Moves the time to the next timer of either side if that is not further off.
    pub fn advance(&mut self, most: Duration) -> bool {
        let next = self
            .hosts
            .iter_mut()
            .filter_map(|host| host.endpoint.poll_timeout())
            .min();
        let Some(next) = next.filter(|next| *next <= self.now.after(most)) else {
            return false;
        };
        self.now = self.now.max(next);
        self.note(|| format!("  time {:?}", next.since(Instant::ZERO)));
        for host in &mut self.hosts {
            host.endpoint.handle_timeout(self.now);
        }
        true
    }

    /// Commits up to `len` bytes of a connection's stream.
    pub fn commit(&mut self, side: usize, app: usize, len: u32, urgent: bool) -> u32 {
        let now = self.now;
        let host = &mut self.hosts[side];
        let conn = host.apps[app].conn;
        let Some(space) = host.endpoint.conn(conn).and_then(|c| c.send_space()) else {
            return 0;
        };
        let len = len.min(space.len());
        if len == 0 {
            return 0;
        }
        let from = host.apps[app].committed;
        let bytes: Vec<u8> = (from..from + u64::from(len))
            .map(|n| byte(side, app, n))
            .collect();
        host.put(space.buffer, &space.segments, &bytes);
        let mut connection = host.endpoint.conn(conn).expect("just seen");
        let result = if urgent {
            connection.commit_urgent(now, len)
        } else {
            connection.commit(now, len)
        };
        if let Err(error) = result {
            self.error(format!("commit of {len}: {error:?}"));
            return 0;
        }
        let app = &mut self.hosts[side].apps[app];
        app.committed += u64::from(len);
        if urgent {
            app.urgent.push(app.committed - 1);
        }
        let what = if urgent { " urgent" } else { "" };
        self.note(|| format!("{} commits {len}{what}, from {from}", name(side)));
        len
    }

    /// Notes what is wrong.
    pub fn error(&mut self, what: impl Display) {
        let what = what.to_string();
        self.note(|| format!("  WRONG: {what}"));
        self.errors.push(what);
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(what());
        }
    }
}

pub(super) fn name(side: usize) -> char {
    ['A', 'B'][side]
}
