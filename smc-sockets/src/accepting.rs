//! Connections that a program has accepted by itself, from a kernel listener.

mod letting_go;
mod single;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::pairing;
use smc_view::ConnectionRow;

use crate::carrier::{Cause, Limit};
use crate::opening::Opening;
use crate::process::PerProcess;
use crate::stack::Stack;
use crate::stream::SmcStream;
use crate::system;
use crate::viewing;
use crate::waiters::{ReadyList, Watch};
use crate::waiting::Direction;

pub(crate) use letting_go::drop_proposal;

use single::{Outcome, Single};

/// Pause between two calls of [`Accepting::finish`] where no descriptor is left to poll.
const PAUSE: Duration = Duration::from_millis(1);

/// The cookie and the user of the client's socket if that takes calls, and whether the client speaks
/// CLC over TCP.
type Client = (Option<(u64, u32)>, bool);

/// A connection that a program has accepted from a listener of its own, and of which it is not
/// decided yet what carries it: [`Stack::accepted`].
///
/// Nothing is begun before the first call of [`Self::finish`] or [`Self::wait`], or the first use
/// of its descriptor ([`AsFd`]). The process that does it goes on with the connection: the one
/// that accepted, or a child made by `fork` since. Every other process drops it, which then does
/// nothing but close the descriptor. Meanwhile the client waits, half a second at most; a program
/// that lets more pass has a connection over TCP.
///
/// When its descriptor is readable, [`Self::finish`] has the stream; the program drops this then,
/// as it has a descriptor of the TCP connection as well. Dropping it before closes the
/// connection, if this process has begun: the client is answered, and then reads the end.
pub struct Accepting {
    stack: Stack,
    /// Shared with the driver, and with the socket that is made of it.
    tcp: Arc<TcpStream>,
    /// Addresses of this end and of the client.
    ends: (SocketAddr, SocketAddr),
    /// The client's socket, by cookie and user, if it takes calls.
    of: Option<(u64, u32)>,
    /// The client speaks CLC over TCP: it sent SMC's TCP option, or the policy assumes it.
    speaks: bool,
    /// A [`State`]. A child begins with its parent's.
    state: AtomicU8,
    here: PerProcess<Here>,
}

/// How far an accepted connection has come, in this process and those from which it was forked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No process has begun.
    New,
    /// A process has begun, or is about to let the client go.
    Begun,
    /// The client was let go: TCP carries the connection.
    LetGo,
    /// The process that has begun has made a stream of it.
    Finished,
}

impl State {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::New,
            1 => Self::Begun,
            2 => Self::LetGo,
            _ => Self::Finished,
        }
    }
}

/// A listening kernel socket that this process publishes, as long as the value lives:
/// [`Stack::publish_listener`].
#[derive(Debug)]
pub struct PublishedListener {
    _row: ConnectionRow,
}

/// How far this process has come.
#[derive(Default)]
struct Here {
    /// Whether this process has begun, or taken the connection for TCP. The thread that does so holds
    /// the lock.
    has_begun: Mutex<bool>,
    single: OnceLock<Arc<Single>>,
}

impl Here {
    fn has_begun(&self) -> MutexGuard<'_, bool> {
        self.has_begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stack {
    /// Lets connections of a listening kernel socket be paired by whichever process accepts them:
    /// this one, or one that inherits the socket, of whatever user. Each of them gives what it has
    /// accepted to [`Self::accepted`] before it reads a byte or writes one. Does nothing where the
    /// policy forbids SMC at the port.
    ///
    /// The kernel keeps this with the socket, and no thread accepts from it. Without it, clients
    /// send plain TCP.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::InvalidInput`] for a socket without a port.
    pub fn announce_listener(&self, listener: impl AsFd) -> io::Result<()> {
        let listening = self.listening(&listener)?;
        if listening.is_some_and(|(stack, _)| stack.gids().is_some()) {
            pairing::mark_listener(listener)?;
        }
        Ok(())
    }

    /// Has the SYN-ACKs of a socket that is bound, and does not listen yet, carry SMC's TCP option, by
    /// which clients on other hosts know that the server speaks SMC. Each process that accepts from
    /// the listener has to give what it has accepted to [`Self::accepted`]: a client that sent the
    /// option, too, begins with a message of CLC. Children made by `fork` may be among them, programs
    /// that are executed may not.
    ///
    /// Nothing is done where [`Settings::policy`](crate::Settings::policy) forbids SMC at the port or
    /// the option, or there is no RNIC to offer.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a socket of another family than IPv4 and IPv6; those of
    /// [`Self::with_late_thread`] in a child made by `fork`.
    pub fn announce_before_listen(&self, socket: impl AsFd) -> io::Result<()> {
        let address = SocketAddr::try_from(rustix::net::getsockname(&socket)?);
        let address = address.map_err(|_| io::ErrorKind::InvalidInput)?;
        let stack = self.idle()?;
        // Without the option, clients connect over TCP.
        let _ = stack.shard().opt_in.before_listen(socket, address.port());
        Ok(())
    }

    /// The stack of this process and a listener's address, where the policy permits SMC at its port.
    fn listening(&self, listener: impl AsFd) -> io::Result<Option<(Stack, SocketAddr)>> {
        let address = SocketAddr::try_from(rustix::net::getsockname(listener)?);
        let address = address.map_err(|_| io::ErrorKind::InvalidInput)?;
        let stack = self.idle()?;
        let policy = &stack.shard().opt_in.policy;
        let permitted = policy.listening(address.port()).is_ok();
        Ok(permitted.then_some((stack, address)))
    }

    /// Lists a listening kernel socket that was announced ([`Self::announce_listener`]) among what
    /// this process publishes, until the value is dropped. `None` where the policy forbids SMC at
    /// the port, and in a process that publishes nothing.
    #[must_use]
    pub fn publish_listener(&self, listener: impl AsFd) -> Option<PublishedListener> {
        let (_, address) = self.listening(&listener).ok()??;
        let row = viewing::listener(address, listener)?;
        Some(PublishedListener { _row: row })
    }

    /// Takes back what [`Self::announce_listener`] did, for every process that shares the socket.
    ///
    /// # Errors
    /// The operating system's.
    pub fn withdraw_listener(&self, listener: impl AsFd) -> io::Result<()> {
        pairing::unmark_listener(listener)
    }

    /// A connection that this process has accepted by itself from a listener that was announced
    /// ([`Self::announce_listener`], [`Self::announce_before_listen`]). A question to the kernel,
    /// and one more where there are RNICs: it neither waits nor begins anything.
    ///
    /// # Errors
    /// The connection itself: it is plain TCP from its first byte, as the client neither pairs nor
    /// speaks CLC, the policy forbids it, or there is no room. A client that waits for an answer is let go.
    pub fn accepted(&self, tcp: TcpStream) -> Result<Accepting, TcpStream> {
        let (near, far) = match (tcp.local_addr(), tcp.peer_addr()) {
            (Ok(near), Ok(far)) => (near, far),
            _ => {
                let _ = letting_go::drop_left_over(self.shard(), tcp.as_fd());
                return Err(tcp);
            }
        };
        match self.may_pair(&tcp, near, far) {
            Ok((of, speaks)) => Ok(Accepting {
                ends: (near, far),
                stack: self.clone(),
                tcp: Arc::new(tcp),
                of,
                speaks,
                state: AtomicU8::new(State::New as u8),
                here: PerProcess::new(),
            }),
            Err(cause) => {
                let _ = pairing::let_go(&tcp);
                if let Some(cause) = cause {
                    viewing::plain(cause, &tcp);
                }
                Err(tcp)
            }
        }
    }

    /// Lets the client of a connection go that this process has accepted, and cannot give to
    /// [`Self::accepted`], for want of a descriptor: it uses TCP from then on, and does not wait.
    ///
    /// A client that speaks CLC is declined. Its first message is dropped, as what follows is the
    /// application's; it is waited for, for the time of `timeout` at most, and the connection is
    /// reset if it does not come.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionReset`]: the connection was reset. Otherwise the operating system's;
    /// the client goes on by itself then, when its time is up.
    pub fn let_go(&self, accepted: impl AsFd, timeout: Duration) -> io::Result<()> {
        let marked = pairing::let_go(&accepted);
        letting_go::let_go(self.shard(), accepted.as_fd(), timeout)?;
        marked
    }

    /// The client's socket of an accepted connection if it takes calls, and whether the client speaks
    /// CLC over TCP. Otherwise why the connection is plain TCP, if that is known.
    fn may_pair(
        &self,
        tcp: &TcpStream,
        near: SocketAddr,
        far: SocketAddr,
    ) -> Result<Client, Option<Cause>> {
        let idle = self.idle();
        // Which clients speak CLC, a child that can have no stack of its own knows by its parent's.
        let opt_in = &idle.as_ref().unwrap_or(self).shard().opt_in;
        // Its first bytes are a Proposal then, whatever is permitted.
        let verdict = opt_in.accepted(tcp, near.port(), far.ip(), Ok(()));
        let speaks = verdict.discovery.is_ok();
        let client = idle.as_ref().map_err(|_| None);
        match client.and_then(|stack| calling_client(stack, near, far)) {
            Ok(client) => Ok((Some(client), speaks)),
            Err(_) if speaks => Ok((None, true)),
            Err(cause) => Err(cause),
        }
    }
}

/// The cookie and the user of a client's socket on this host that takes calls. Otherwise why there is
/// nothing to pair, if that is known.
fn calling_client(
    stack: &Stack,
    near: SocketAddr,
    far: SocketAddr,
) -> Result<(u64, u32), Option<Cause>> {
    let shard = stack.shard();
    let permitted = shard.opt_in.policy.accepting(near.port(), far.ip());
    permitted.map_err(|rule| Some(Cause::Policy(rule)))?;
    if !shard.has_place() {
        return Err(Some(Cause::Limit(shard.limit)));
    }
    pairing::own_user().map_err(|_| None)?;
    let can_pair = stack.gids().is_some();
    let client = can_pair.then(|| shard.lock().calling_client(near, far));
    client.flatten().ok_or(Some(Cause::NotOffered))
}

impl Accepting {
    /// The stream, when it is decided what carries it: SMC, or TCP. Does not wait. The first call
    /// begins.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: not yet. Otherwise the end of the connection, the operating
    /// system's, [`io::ErrorKind::NotConnected`] for one that has been finished, and
    /// [`io::ErrorKind::Unsupported`] in a child that was forked after another process had begun.
    pub fn finish(&self) -> io::Result<SmcStream> {
        let single = match self.begin() {
            Ok(single) => single,
            Err(error) => return self.decline().ok_or(error),
        };
        match single.take() {
            Outcome::NotYet => Err(io::ErrorKind::WouldBlock.into()),
            Outcome::Over | Outcome::Closed(_) => Err(io::ErrorKind::NotConnected.into()),
            Outcome::Decided(socket) => {
                self.set_state(State::Finished);
                Ok(SmcStream::new(single.stack.clone(), socket?))
            }
        }
    }

    /// The stream over TCP of a client that speaks CLC, in a process that can have no stack, and if
    /// none has begun: the client is declined.
    fn decline(&self) -> Option<SmcStream> {
        if !self.speaks || !self.take(State::Finished) {
            return None;
        }
        let _ = pairing::let_go(&self.tcp);
        let shard = self.stack.shard();
        let cause = match self.stack.is_inherited() {
            true => Cause::Inherited,
            false => Cause::Limit(Limit::Undecided(shard.undecided().most())),
        };
        let socket = shard.decline(self.tcp.clone(), cause, Opening::Promised);
        Some(SmcStream::without_stack(socket))
    }

    /// The stream, when it is decided what carries it. A client answers within half a second, or
    /// the connection is TCP; one that has answered has six seconds for each message of CLC.
    ///
    /// # Errors
    /// Errors of [`Self::finish`], but never [`io::ErrorKind::WouldBlock`].
    pub fn wait(&self) -> io::Result<SmcStream> {
        loop {
            match self.finish() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            if !self.can_be_polled() {
                std::thread::sleep(PAUSE);
                continue;
            }
            let mut polled = [PollFd::new(self, PollFlags::IN)];
            match rustix::event::poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a descriptor is left for who polls for it: otherwise [`Self::finish`] has to be called
    /// now and then, and the descriptor not to be asked for. Begins, as [`Self::finish`] does.
    #[must_use]
    pub fn can_be_polled(&self) -> bool {
        self.begin().is_ok_and(|single| single.descriptor().is_ok())
    }

    /// The TCP connection, for a program that hands it to something that does not pair: the client is
    /// let go, and uses TCP, as by [`Self::let_go`].
    ///
    /// # Errors
    /// The connection itself, if a process has begun.
    pub fn give_up(self, timeout: Duration) -> Result<TcpStream, Self> {
        match self.tcp.try_clone() {
            Ok(tcp) if self.let_go(timeout) => Ok(tcp),
            _ => Err(self),
        }
    }

    /// Lets the client go, which uses TCP then, for a program that has a descriptor of the
    /// connection; false if a process has begun. Takes no descriptor and gives none back. What is
    /// left of the value is to be dropped; called again, it returns true, so that a child that
    /// shares the memory of its parent (`vfork`) may call it, and its parent drops the value.
    ///
    /// A client that speaks CLC is declined. Its first message is dropped, as what follows is the
    /// application's; it is waited for, for the time of `timeout` at most. If it does not come, the
    /// connection is reset, and reads from it fail.
    #[must_use]
    pub fn let_go(&self, timeout: Duration) -> bool {
        if !self.take(State::Begun) {
            return self.state() == State::LetGo;
        }
        let _ = pairing::let_go(&self.tcp);
        if self.speaks {
            let (shard, code) = (self.stack.shard(), DiagnosisCode::PEER_NO_SMC);
            // What was reset is the program's as well.
            let _ = letting_go::decline(shard, self.tcp.as_fd(), code, timeout);
        }
        self.set_state(State::LetGo);
        true
    }

    /// Whether [`Self::let_go`] waits for a message of the client: the client speaks CLC, and no process
    /// has begun.
    #[must_use]
    pub fn waits_to_let_go(&self) -> bool {
        self.speaks && self.state() == State::New
    }

    /// Waits for the message for which [`Self::let_go`] waits, for the time of `timeout` at most, and
    /// reads nothing. `tcp` is any descriptor of the connection: no value is needed meanwhile, nor a lock
    /// that guards one. [`Self::let_go`] has to wait no more then.
    pub fn wait_for_message(tcp: impl AsFd, timeout: Duration) {
        letting_go::wait_for_message(tcp.as_fd(), timeout);
    }

    /// The TCP socket. Nothing is begun by this, and as long as nothing is, none of its bytes are to
    /// be read or written.
    #[must_use]
    pub fn tcp(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }

    /// The address of the client.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.ends.1
    }

    /// The address of this end.
    ///
    /// # Errors
    /// None so far.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.ends.0)
    }

    /// How far this process has come, made when it is first asked for.
    fn here(&self) -> io::Result<&Here> {
        self.here.get_or_make(|| Ok(Here::default()))
    }

    fn state(&self) -> State {
        State::of(self.state.load(Ordering::Acquire))
    }

    fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Takes the connection for TCP, and sets the state; false if a process has begun. No thread of
    /// this process begins afterwards.
    fn take(&self, state: State) -> bool {
        // To make it cannot fail.
        let Ok(here) = self.here() else {
            return false;
        };
        let mut has_begun = here.has_begun();
        let is_first = self.state() == State::New;
        if is_first {
            self.set_state(state);
            *has_begun = true;
        }
        is_first
    }

    /// In a child that was forked after another process had begun: closes this process's copies of the
    /// TCP socket, of which the parent's driver may have one, so that the client reads the end of the
    /// stream when the parent closes it. So does dropping the value.
    ///
    /// Does nothing in the process that has begun, before any has, nor once the connection is finished
    /// or its client was let go.
    //= SHM-061
    pub fn close_inherited(&self) {
        let began_here = self.here.get().is_some_and(|here| *here.has_begun());
        if !began_here && self.state() == State::Begun {
            system::replace_inherited(&self.tcp, &self.stack.shard().poller);
        }
    }

    /// Begins, unless this process has.
    //= SHM-079
    fn begin(&self) -> io::Result<&Arc<Single>> {
        let here = self.here()?;
        let mut has_begun = here.has_begun();
        if let Some(single) = here.single.get() {
            return Ok(single);
        }
        if self.state() != State::New {
            let reason = "the process that this one was forked from has begun with it";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        let single = Arc::new(Single::new(
            self.stack.current()?,
            self.ends.0.port(),
            self.speaks,
        ));
        self.set_state(State::Begun);
        *has_begun = true;
        single.begin(self);
        Ok(here.single.get_or_init(|| single))
    }

    /// Has an event loop list it once [`Self::finish`] goes on. Begins, as that does.
    pub(crate) fn watch(&self, watch: Arc<Watch>) -> io::Result<()> {
        let single = self.begin()?;
        let outcome = single.outcome();
        let before = single.waiters.watch(watch.clone());
        if !matches!(*outcome, Outcome::NotYet) {
            watch.notify(Direction::Read);
        }
        drop(outcome);
        drop(before);
        Ok(())
    }

    /// Has an event loop list it no more.
    pub(crate) fn unwatch(&self, ready: &Arc<ReadyList>) {
        if let Some(single) = self.here.get().and_then(|here| here.single.get()) {
            let before = single.waiters.unwatch(ready);
            drop(before);
        }
    }
}

/// Readable once [`Accepting::finish`] has the stream, or an error. Begins, as that does.
impl AsFd for Accepting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // What cannot begin is readable, or will be, and fails when it is finished.
        let Ok(single) = self.begin() else {
            return self.tcp.as_fd();
        };
        single.descriptor().unwrap_or_else(|error| {
            // Without a descriptor, it is decided: it has failed.
            single.set(Err(error));
            self.tcp.as_fd()
        })
    }
}

/// The descriptor of [`AsFd`].
impl AsRawFd for Accepting {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        match self.here.get().and_then(|here| here.single.get()) {
            Some(single) => single.give_up(),
            None => self.close_inherited(),
        }
    }
}

impl fmt::Debug for Accepting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepting")
            .field("client", &self.ends.1)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::{Policy, Settings};

    /// A thread begins, and has not said so yet.
    #[test]
    fn a_connection_that_a_thread_begins_with_is_not_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let policy = format!(
            "assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{}] }}]",
            address.port()
        );
        let settings = Settings {
            policy: Policy::parse(&policy).unwrap(),
            ..Settings::default()
        };
        let stack = Stack::with(settings).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let accepting = stack.accepted(listener.accept().unwrap().0).unwrap();
        let here = accepting.here().unwrap();
        std::thread::scope(|scope| {
            let beginning = here.has_begun();
            let let_go = scope.spawn(|| accepting.let_go(Duration::ZERO));
            let declined = scope.spawn(|| accepting.decline().is_some());
            std::thread::sleep(Duration::from_millis(100));
            accepting.set_state(State::Begun);
            drop(beginning);
            assert!(!let_go.join().unwrap());
            assert!(!declined.join().unwrap());
        });
    }
}
