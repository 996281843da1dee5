//! The thread of an endpoint that waits for what no other thread waits for: completions of
//! the device, timers, new connections, and TCP.

mod calls;
mod draining;
mod newcomers;
mod promises;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::RawFd;
use std::sync::{Arc, Weak};
use std::time::Instant;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use smc_proto::id::ConnId;
use smc_transport_ism::shared::Gids;
use smc_transport_ism::shared::pairing::{self, Answer, Outcome, Peer, Progress};

use crate::carrier::{Carrier, Cause, Limit};
use crate::discovery::{OptionNotSent, blame_own_user, is_near, most_specific_cause};
use crate::listening::{Arrival, Destination, HandedOver, Listening};
use crate::shard::{Place, Shard};
use crate::socket::Socket;
use calls::Calls;
use draining::Draining;
use newcomers::Newcomer;
pub(crate) use newcomers::Stage;
use promises::{Promise, Promises};

/// Connections accepted from one listener before others are served.
const AT_ONCE: usize = 16;

/// Data of events of the driver's poller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Device,
    Rnics,
    Timer,
    Doorbell,
    Listener(u32),
    Rendezvous(u32),
    Answer(u32),
    Promise(u32),
    Draining(u32),
    Unattended(RawFd),
    Conn(ConnId),
}

/// Event of the driver's poller, decoded from a [`Token`].
enum Ready {
    Doorbell,
    Device,
    Rnics,
    Timer,
    Listener(u32),
    Rendezvous(u32),
    Answer(u32),
    Promise(u32),
    Draining(u32),
    Unattended(RawFd),
    Conn { index: u32, generation: u32 },
}

const CONN: u64 = 1 << 63;
const LISTENER: u64 = 1 << 32;
const ANSWER: u64 = 2 << 32;
const PROMISE: u64 = 4 << 32;
const RENDEZVOUS: u64 = 8 << 32;
const DRAINING: u64 = 16 << 32;
const UNATTENDED: u64 = 32 << 32;
/// All of these.
const KINDS: u64 = LISTENER | ANSWER | PROMISE | RENDEZVOUS | DRAINING | UNATTENDED;

impl Token {
    pub(crate) fn data(self) -> EventData {
        EventData::new_u64(match self {
            Self::Device => 0,
            Self::Timer => 1,
            Self::Doorbell => 2,
            Self::Rnics => 3,
            Self::Listener(key) => LISTENER | u64::from(key),
            Self::Rendezvous(key) => RENDEZVOUS | u64::from(key),
            Self::Answer(key) => ANSWER | u64::from(key),
            Self::Promise(key) => PROMISE | u64::from(key),
            Self::Draining(key) => DRAINING | u64::from(key),
            Self::Unattended(tcp) => UNATTENDED | u64::from(tcp.cast_unsigned()),
            Self::Conn(conn) => CONN | u64::from(conn.index()) << 32 | u64::from(conn.generation()),
        })
    }
}

impl Ready {
    fn by(data: u64) -> Self {
        let low = data as u32;
        if data & CONN != 0 {
            return Self::Conn {
                index: ((data ^ CONN) >> 32) as u32,
                generation: low,
            };
        }
        match (data & KINDS, low) {
            (LISTENER, key) => Self::Listener(key),
            (RENDEZVOUS, key) => Self::Rendezvous(key),
            (ANSWER, key) => Self::Answer(key),
            (PROMISE, key) => Self::Promise(key),
            (DRAINING, key) => Self::Draining(key),
            (UNATTENDED, tcp) => Self::Unattended(tcp.cast_signed()),
            (_, 0) => Self::Device,
            (_, 1) => Self::Timer,
            (_, 3) => Self::Rnics,
            _ => Self::Doorbell,
        }
    }
}

/// Drives an endpoint until it has neither handles nor connections.
pub(crate) fn run(shard: &Arc<Shard>) {
    let mut driver = Driver::new(shard);
    while driver.turn().is_ok_and(|goes_on| goes_on) {}
}

struct Driver {
    shard: Arc<Shard>,
    /// Pairings in flight, by the low half of the number of their tickets.
    answers: HashMap<u32, Pairing>,
    /// Connections whose clients have promised CLC and sent none yet, likewise.
    promises: Promises,
    /// Newcomers that wait until others are decided, one of each listener at most.
    held: VecDeque<Newcomer>,
    calls: Calls,
    draining: Draining,
}

/// A client that was asked to go on.
struct Pairing {
    answer: Answer,
    tcp: Arc<TcpStream>,
    arrival: Arrival,
    option_sent: Result<(), OptionNotSent>,
    port: u16,
    until: Instant,
}

impl Driver {
    fn new(shard: &Arc<Shard>) -> Self {
        Self {
            shard: shard.clone(),
            answers: HashMap::new(),
            promises: Promises::default(),
            held: VecDeque::new(),
            calls: Calls::default(),
            draining: Draining::new(shard.most_draining),
        }
    }

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
            match Ready::by(data.u64()) {
                Ready::Listener(key) => self.accept(key),
                Ready::Rendezvous(key) => self.take_calls(key),
                Ready::Answer(key) => self.go_on(key),
                Ready::Promise(key) => self.on_promise_readable(key),
                Ready::Draining(key) => self.on_draining_readable(key),
                Ready::Unattended(tcp) => shard.unattended.go_on(tcp),
                Ready::Conn { index, generation } => {
                    let mut state = shard.lock();
                    if let Some(conn) = state.conn_at(index, generation) {
                        state.peek_tcp(conn, shard.now());
                        state.drop_strays(conn);
                    }
                }
                Ready::Timer => shard.lock().timeout(&shard),
                Ready::Doorbell => shard.driver_waker.clear(),
                Ready::Device => {
                    let mut state = shard.lock();
                    if state.keeps_driver(&shard) {
                        state.transports.ism.device_mut().note_readable();
                    }
                }
                Ready::Rnics => {
                    shard.lock().poll_rnics(&shard, shard.now());
                }
            }
        }
        if shard.driver_waker.take_call() {
            for key in shard.listener_keys() {
                if let Some(listening) = shard.listener(key) {
                    listening.accept_ahead(true, &shard);
                }
                self.accept(key);
            }
        }
        for handed_over in shard.take_handed_over() {
            match handed_over {
                HandedOver::New(listening, tcp, address) => {
                    if let Some(listening) = listening.upgrade() {
                        self.begin(&listening, tcp, address);
                    }
                }
                HandedOver::Undecided(to, tcp, address, stage) => {
                    self.arrive(&to, tcp, address, stage);
                }
            }
        }
        let now = Instant::now();
        let late = |pairing: &Pairing| pairing.until <= now;
        let late: Vec<_> = self.answers.iter().filter(|(_, at)| late(at)).collect();
        let late: Vec<_> = late.into_iter().map(|(key, _)| *key).collect();
        late.into_iter().for_each(|key| self.go_on(key));
        self.promises_due(now);
        let held = self.admit_held(now);
        self.draining_due(now);
        let calls = self.calls_due(now);
        let mut state = shard.lock();
        let now = shard.now();
        state.defer_timer();
        if state.engine.poll_timeout().is_some_and(|at| at <= now) {
            state.engine.handle_timeout(now);
        }
        state.finish_driver_turn(&shard, now);
        state.take_over_late_handshakes(&shard, now);
        state.urge_closing(&shard, now);
        let answers = self.answers.values().map(|pairing| pairing.until);
        let others = calls.into_iter().chain(held).chain(self.promises.next());
        let others = others.chain(self.draining.next());
        if let Some(until) = answers.chain(others).min() {
            state.wake_at(&shard, shard.at(until), now);
        }
        let is_over = state.is_over(&shard, now);
        state.set_deferred_timer(&shard, now);
        drop(state);
        // No stream is dropped after the last handle of the stack.
        let drains = self.drain_dropped(Instant::now());
        Ok(!is_over || drains)
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
            match listening.accept_tcp() {
                Ok(Some((tcp, address))) => self.begin(&listening, tcp, address),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !listening.has_calls() {
                        listening.accept_ahead(false, &self.shard);
                    }
                    return;
                }
                // Without a listener this one is not seen again.
                Err(error) => drop(listening.push(Err(error))),
            }
        }
    }

    /// Asks the client of a connection to go on, if it is one to pair with.
    fn begin(&mut self, listening: &Arc<Listening>, tcp: TcpStream, address: SocketAddr) {
        let shard = self.shard.clone();
        let Some(tcp) = listening.accept_announced(&shard, tcp, address) else {
            return;
        };
        let mut rendezvous = listening.rendezvous();
        let policy = &shard.opt_in.policy;
        let permitted = policy.accepting(listening.port(), address.ip()).is_ok();
        let full = (!shard.has_place()).then_some(shard.limit);
        let asks = |_: &&mut _| permitted && full.is_none();
        let answer = rendezvous.as_mut().filter(asks).and_then(|rendezvous| {
            let reach = |peer: &_| shard.lock().transports.ism.device_mut().reach(peer);
            rendezvous.answer(&tcp, reach, &shard.pairing_timeouts)
        });
        drop(rendezvous);
        self.calls_taken();
        let listener = (listening.port(), listening.option_sent());
        let stage = match answer {
            Some(answer) => Ok(Stage::Pairing(answer)),
            None => first_stage(&shard, &tcp, address, listener, listening.gids()),
        };
        match stage {
            Ok(stage) => {
                let to: Weak<dyn Destination> = Arc::downgrade(listening) as _;
                self.arrive(&to, tcp.into(), address, stage);
            }
            Err(cause) => plain(&shard, tcp.into(), listening.arrival(address, None), cause),
        }
    }

    /// Asks a client that was admitted.
    fn ask(&mut self, key: u32, pairing: Pairing) {
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        for socket in pairing.answer.sockets() {
            // Without it, the pairing goes on when its time is up.
            let _ = epoll::add(&self.shard.poller, socket, Token::Answer(key).data(), flags);
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
                    // A client that could not be called at once has a socket since.
                    if epoll::modify(&self.shard.poller, socket, data, flags) == Err(Errno::NOENT) {
                        let _ = epoll::add(&self.shard.poller, socket, data, flags);
                    }
                }
                pairing.until = until;
                self.answers.insert(key, pairing);
            }
            Progress::Done(outcome) => {
                if let Some(promise) = self.paired(pairing.into_parts(), outcome, None) {
                    self.promise(key, promise);
                }
            }
        }
    }

    /// What a pairing has come to: a connection whose client has promised CLC, or one that is
    /// handed out as plain TCP. With a cause, that is why.
    fn paired(&self, parts: Parts, outcome: Outcome, cause: Option<Cause>) -> Option<Promise> {
        let (tcp, arrival, listener) = parts;
        let shard = &self.shard;
        match outcome {
            Outcome::Paired(paired) => {
                let peer = paired.peer;
                // Without a channel to it, the engine declines.
                let _ = shard.lock().transports.ism.device_mut().admit(paired);
                Some(Promise::new(tcp, arrival, None, Some(peer)))
            }
            Outcome::Plain => {
                let unpaired = UnpairedClient {
                    listener,
                    full: None,
                    called: true,
                };
                match declines(shard, &tcp, arrival.address(), unpaired) {
                    Ok(declines) => Some(Promise::new(tcp, arrival, declines, None)),
                    Err(found) => {
                        plain(shard, tcp, arrival, cause.unwrap_or(found));
                        None
                    }
                }
            }
        }
    }
}

/// A connection that is being paired, and its listener's port and option.
type Parts = (Arc<TcpStream>, Arrival, (u16, Result<(), OptionNotSent>));

impl Pairing {
    /// Ends it now.
    fn give_up(&mut self) -> Outcome {
        self.answer.give_up()
    }

    fn into_parts(self) -> Parts {
        (self.tcp, self.arrival, (self.port, self.option_sent))
    }
}

/// A client that does not pair.
struct UnpairedClient {
    /// Port of the listener, and whether its SYN-ACKs have SMC's TCP option.
    listener: (u16, Result<(), OptionNotSent>),
    /// Why it could not pair: the limit that was reached.
    full: Option<Limit>,
    /// Whether it has called, or was called, and pairing failed.
    called: bool,
}

/// Why a client that does not pair, and speaks SMC, is to be declined, if it is.
///
/// # Errors
/// The client is not known to speak SMC: why the connection is TCP.
fn declines(
    shard: &Shard,
    tcp: &TcpStream,
    client: SocketAddr,
    unpaired: UnpairedClient,
) -> Result<Option<Cause>, Cause> {
    let (port, option_sent) = unpaired.listener;
    let verdict = shard.opt_in.accepted(tcp, port, client.ip(), option_sent);
    match verdict.discovery {
        Ok(_) => Ok(verdict.declines),
        Err(cause) => {
            let local = tcp.local_addr();
            let near = local.is_ok_and(|at| is_near(at.ip(), client.ip()));
            let full = unpaired.full.or(shard.memory_limit());
            let cause = most_specific_cause(cause, full, unpaired.called, near);
            Err(blame_own_user(cause, near && shard.pairs))
        }
    }
}

/// The first stage of a connection whose client has not called: pairing if the client can be called
/// back, or else CLC over TCP if it speaks SMC. `listener` is the port, and whether SYN-ACKs have
/// SMC's TCP option. Never waits.
///
/// # Errors
/// Why the connection is TCP. The client does not wait for a call any more.
pub(crate) fn first_stage(
    shard: &Shard,
    tcp: &TcpStream,
    client: SocketAddr,
    listener: (u16, Result<(), OptionNotSent>),
    gids: Option<&Gids>,
) -> Result<Stage, Cause> {
    let policy = &shard.opt_in.policy;
    let permitted = policy.accepting(listener.0, client.ip()).is_ok();
    let full = (!shard.has_place()).then_some(shard.limit);
    let may_call = permitted && full.or(shard.memory_limit()).is_none();
    let answer = gids.filter(|_| may_call).and_then(|gids| {
        let reach = |peer: &_| shard.lock().transports.ism.device_mut().reach(peer);
        Answer::call_back(tcp, gids, reach, &shard.pairing_timeouts)
    });
    if let Some(answer) = answer {
        return Ok(Stage::Pairing(answer));
    }
    let unpaired = UnpairedClient {
        listener,
        full,
        called: false,
    };
    let spoken = declines(shard, tcp, client, unpaired).map(Stage::Promised);
    if spoken.is_err() {
        let _ = pairing::let_go(tcp);
    }
    spoken
}

/// Hands out a connection that is plain TCP.
fn plain(shard: &Shard, tcp: Arc<TcpStream>, arrival: Arrival, cause: Cause) {
    let _ = pairing::let_go(&tcp);
    let carrier = Some(Carrier::tcp(cause));
    let socket = Arc::new(Socket::new(tcp, carrier, shard.spin));
    arrival.deliver(socket);
}

/// Lets the engine decide what carries a connection whose client speaks CLC.
fn serve(
    shard: &Arc<Shard>,
    tcp: Arc<TcpStream>,
    arrival: Arrival,
    place: Place,
    peer: Option<Peer>,
) {
    let mut state = shard.lock();
    let socket = Arc::new(Socket::new(tcp, None, shard.spin));
    socket.status().place = Some(place);
    let peer_address = arrival.address().ip();
    let local = socket.tcp.local_addr().map_or(peer_address, |at| at.ip());
    let options = state.options(local, peer_address, &socket.tcp);
    match state.engine.listen(shard.now(), options) {
        Ok(conn) => {
            if let Some(ticket) = &arrival.ticket {
                ticket.negotiates(conn);
            }
            state.enter_accepted(conn, socket.clone(), peer, arrival);
            shard.watch(conn, &socket);
            state.peek_tcp(conn, shard.now());
        }
        // There is a place for each. But bytes of CLC must not be given to the application.
        Err(_) => {
            let _ = rustix::net::connect_unspec(&socket.tcp);
        }
    }
}

#[cfg(test)]
mod tests;
