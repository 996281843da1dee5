//! The thread of an endpoint that waits for what nobody else waits for: completions of
//! the device, timers, new connections, and TCP.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::{Answer, Outcome, Paired, Progress, Rendezvous};

use crate::carrier::{Carrier, Cause, Limit};
use crate::discovery::{is_near, unmet};
use crate::listening::{Arrival, Listening, UNDECIDED};
use crate::shard::{Place, Shard};
use crate::socket::Socket;

/// Connections accepted from one listener before others have their turn.
const AT_ONCE: usize = 16;

/// How soon to look first whether those who called and did not connect have gone, and at
/// the latest.
const SWEEP: Duration = Duration::from_millis(250);
const SWEEP_AT_MOST: Duration = Duration::from_secs(60);

/// What the driver's poller tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Device,
    Rnics,
    Timer,
    Bell,
    Listener(u32),
    Answer(u32),
    Conn(ConnId),
}

/// The same as it comes back.
enum Told {
    Bell,
    Device,
    Rnics,
    Timer,
    Listener(u32),
    Answer(u32),
    Conn { index: u32, generation: u32 },
}

const CONN: u64 = 1 << 63;
const LISTENER: u64 = 1 << 32;
const ANSWER: u64 = 2 << 32;

impl Token {
    pub(crate) fn data(self) -> EventData {
        EventData::new_u64(match self {
            Self::Device => 0,
            Self::Timer => 1,
            Self::Bell => 2,
            Self::Rnics => 3,
            Self::Listener(key) => LISTENER | u64::from(key),
            Self::Answer(key) => ANSWER | u64::from(key),
            Self::Conn(conn) => CONN | u64::from(conn.index()) << 32 | u64::from(conn.generation()),
        })
    }
}

impl Told {
    fn by(data: u64) -> Self {
        let low = data as u32;
        if data & CONN != 0 {
            return Self::Conn {
                index: ((data ^ CONN) >> 32) as u32,
                generation: low,
            };
        }
        match (data & (LISTENER | ANSWER), low) {
            (LISTENER, key) => Self::Listener(key),
            (ANSWER, key) => Self::Answer(key),
            (_, 0) => Self::Device,
            (_, 1) => Self::Timer,
            (_, 3) => Self::Rnics,
            _ => Self::Bell,
        }
    }
}

/// Drives an endpoint until it has neither handles nor connections.
pub(crate) fn run(shard: &Arc<Shard>) {
    let mut driver = Driver {
        shard: shard.clone(),
        answers: HashMap::new(),
        last: 0,
        sweep: None,
    };
    while driver.turn().is_ok_and(|goes_on| goes_on) {}
}

struct Driver {
    shard: Arc<Shard>,
    /// Pairings under way.
    answers: HashMap<u32, Pairing>,
    last: u32,
    /// When to look for callers that have gone, and how long that was put off.
    sweep: Option<(Instant, Duration)>,
}

/// A client that was asked to go on.
struct Pairing {
    answer: Answer,
    tcp: OwnedFd,
    arrival: Arrival,
    place: Place,
    until: Instant,
}

impl Driver {
    /// Waits for something and sees to it; whether there is more to wait for.
    fn turn(&mut self) -> io::Result<bool> {
        let mut events = [MaybeUninit::<Event>::uninit(); 64];
        let events = match epoll::wait(&self.shard.poller, &mut events, None) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let shard = self.shard.clone();
        for event in events.iter() {
            // The kernel packs these; each is copied out.
            let data = event.data;
            match Told::by(data.u64()) {
                Told::Listener(key) => self.accept(key),
                Told::Answer(key) => self.go_on(key),
                Told::Conn { index, generation } => {
                    let mut state = shard.lock();
                    if let Some(conn) = state.conn_at(index, generation) {
                        state.look_at_tcp(conn, shard.now());
                    }
                }
                Told::Timer => shard.lock().timeout(&shard),
                Told::Bell => {
                    let _ = rustix::io::read(&shard.bell, &mut [0; 8]);
                }
                Told::Device => shard.lock().transports.ism.device_mut().heed(),
                Told::Rnics => {
                    shard.lock().hear_rnics(&shard, shard.now());
                }
            }
        }
        let now = Instant::now();
        let late = |pairing: &Pairing| pairing.until <= now;
        let late: Vec<_> = self.answers.iter().filter(|(_, at)| late(at)).collect();
        let late: Vec<_> = late.into_iter().map(|(key, _)| *key).collect();
        late.into_iter().for_each(|key| self.go_on(key));
        if let Some((_, wait)) = self.sweep.filter(|(at, _)| *at <= now) {
            let wait = (wait * 2).min(SWEEP_AT_MOST);
            self.sweep = shard.sweep_calls().then_some((now + wait, wait));
        }
        let mut state = shard.lock();
        let now = shard.now();
        if state.engine.poll_timeout().is_some_and(|at| at <= now) {
            state.engine.handle_timeout(now);
        }
        state.rest(&shard, now);
        let answers = self.answers.values().map(|pairing| pairing.until);
        let sweep = self.sweep.map(|(at, _)| at);
        if let Some(until) = answers.chain(sweep).min() {
            state.wake_at(&shard, shard.at(until), now);
        }
        Ok(!state.is_over(&shard, now))
    }

    /// Takes new connections in.
    fn accept(&mut self, key: u32) {
        let Some(listening) = self.shard.listener(key) else {
            return;
        };
        for _ in 0..AT_ONCE {
            if !listening.takes_more(&self.shard) {
                return;
            }
            match rustix::net::acceptfrom_with(listening.tcp(), SocketFlags::CLOEXEC) {
                Ok((tcp, address)) => {
                    let address = address.and_then(|at| SocketAddr::try_from(at).ok());
                    if let Some(address) = address {
                        self.begin(&listening, tcp, address);
                    }
                }
                Err(Errno::AGAIN) => return,
                // Of a connection that has gone meanwhile.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                // Without a listener this one is not seen again.
                Err(error) => drop(listening.arrived(Err(error.into()))),
            }
        }
    }

    /// Asks the client of a connection to go on, if it is one to pair with.
    fn begin(&mut self, listening: &Arc<Listening>, tcp: OwnedFd, address: SocketAddr) {
        let shard = &self.shard;
        let rendezvous = listening.rendezvous.lock();
        let mut rendezvous = rendezvous.unwrap_or_else(PoisonError::into_inner);
        let crowded = listening.is_crowded();
        let policy = &shard.asking.policy;
        let permitted = policy.accepting(listening.port(), address.ip()).is_ok();
        let asks = |_: &&mut _| permitted && !crowded;
        let asked = rendezvous.as_mut().filter(asks).and_then(|rendezvous| {
            let place = shard.place()?;
            let joined = |peer: &_| shard.lock().transports.ism.device().is_joined(peer);
            let answer = rendezvous.answer(&tcp, joined, &shard.patience)?;
            Some((answer, place))
        });
        if rendezvous.as_ref().is_some_and(Rendezvous::is_called) {
            self.sweep.get_or_insert((Instant::now() + SWEEP, SWEEP));
        }
        let arrival = listening.coming(address);
        let Some((answer, place)) = asked else {
            let full = crowded.then_some(Limit::Undecided(UNDECIDED));
            unpaired(shard, tcp, arrival, Met::Not(full));
            return;
        };
        self.last = self.last.wrapping_add(1);
        let pairing = Pairing {
            answer,
            tcp,
            arrival,
            place,
            until: Instant::now(),
        };
        let key = self.last;
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        for socket in pairing.answer.sockets() {
            // Without it, the pairing goes on when its time is up.
            let _ = epoll::add(&shard.poller, socket, Token::Answer(key).data(), flags);
        }
        self.answers.insert(key, pairing);
        self.go_on(key);
    }

    /// Goes on with a pairing.
    fn go_on(&mut self, key: u32) {
        let Some(mut pairing) = self.answers.remove(&key) else {
            return;
        };
        match pairing.answer.poll(Instant::now()) {
            Progress::Pending { until } => {
                let flags = EventFlags::IN | EventFlags::ONESHOT;
                for socket in pairing.answer.sockets() {
                    let data = Token::Answer(key).data();
                    let _ = epoll::modify(&self.shard.poller, socket, data, flags);
                }
                pairing.until = until;
                self.answers.insert(key, pairing);
            }
            Progress::Done(Outcome::Plain) => {
                let met = Met::InVain(pairing.place);
                unpaired(&self.shard, pairing.tcp, pairing.arrival, met);
            }
            Progress::Done(Outcome::Paired(paired)) => {
                let Pairing {
                    tcp,
                    arrival,
                    place,
                    ..
                } = pairing;
                serve(&self.shard, tcp, arrival, (place, None), Some(paired));
            }
        }
    }
}

/// How a client that is not paired was met.
enum Met {
    /// It did not call; or nobody listened to it, because of a limit.
    Not(Option<Limit>),
    /// It called, and did not go on. It has this place.
    InVain(Place),
}

/// A connection whose client is not on this host, or does not use this crate: it may speak
/// SMC nevertheless.
fn unpaired(shard: &Arc<Shard>, tcp: OwnedFd, arrival: Arrival, met: Met) {
    let (port, client) = (arrival.port, arrival.address().ip());
    let asking = &shard.asking;
    let verdict = asking.accepted(&tcp, port, client, arrival.asked);
    let (place, full, called) = match met {
        Met::InVain(place) => (Some(place), None, true),
        Met::Not(full) => (shard.place().filter(|_| full.is_none()), full, false),
    };
    let full = place.is_none().then(|| full.unwrap_or(shard.limit));
    if let Err(cause) = verdict.speaks {
        let near = TcpStream::from(tcp);
        let local = near.local_addr().is_ok_and(|at| is_near(at.ip(), client));
        let cause = unmet(cause, full, called, local);
        plain(shard, near, arrival, cause);
        return;
    }
    // Who was promised CLC gets it, if only to be declined.
    let declines = verdict.declines.or(full.map(Cause::Limit));
    match place.or_else(|| shard.place_to_decline()) {
        Some(place) => serve(shard, tcp, arrival, (place, declines), None),
        None => {
            let _ = rustix::net::connect_unspec(&tcp);
        }
    }
}

/// Hands out a connection that is plain TCP.
fn plain(shard: &Shard, tcp: TcpStream, arrival: Arrival, cause: Cause) {
    let carrier = Some(Carrier::tcp(cause));
    let socket = Arc::new(Socket::new(tcp, carrier, shard.spin));
    arrival.deliver(socket);
}

/// Lets the engine decide what carries a connection whose client will speak CLC. With a
/// cause, it declines whatever is proposed.
fn serve(
    shard: &Arc<Shard>,
    tcp: OwnedFd,
    arrival: Arrival,
    (place, declines): (Place, Option<Cause>),
    paired: Option<Paired>,
) {
    let mut state = shard.lock();
    let peer = paired.map(|paired| {
        let peer = paired.peer.gid;
        // Without a channel to it, the engine declines.
        let _ = state.transports.ism.device_mut().admit(paired);
        peer
    });
    let socket = Arc::new(Socket::new(TcpStream::from(tcp), None, shard.spin));
    socket.status().place = Some(place);
    let peer_address = arrival.address().ip();
    let local = socket.tcp.local_addr().map_or(peer_address, |at| at.ip());
    let options = state.options(local, peer_address, &socket.tcp);
    match state.engine.listen(shard.now(), options) {
        Ok(conn) => {
            state.enter(conn, socket.clone(), peer, Some(arrival), declines);
            shard.watch(conn, &socket);
            state.look_at_tcp(conn, shard.now());
        }
        // There is a place for each. But who was promised CLC must not be given to the
        // application.
        Err(_) => {
            let _ = rustix::net::connect_unspec(&socket.tcp);
        }
    }
}
