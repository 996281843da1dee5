//! The client's way to a stream, in its own thread.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use smc_proto::path::Paths;
use smc_transport_ism::device::IsmDevice;
use smc_transport_ism::shared::pairing::{Call, Outcome, Paired};

use crate::carrier::Carrier;
use crate::shard::{self, Place, Shard, timespec};
use crate::socket::Socket;

/// How long to sleep at TCP before looking whether a timer has decided.
const TICK: Duration = Duration::from_millis(50);
/// The same while part of a message is there.
const PART: Duration = Duration::from_millis(1);

/// Connects to an address, and finds out what carries the connection.
pub(crate) fn connect(shard: &Arc<Shard>, to: SocketAddr) -> io::Result<Arc<Socket>> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let tcp = rustix::net::socket_with(family, kind, flags, None)?;
    let place = shard.place();
    let gid = shard.lock().ism.device().facts().gid;
    let announced = place.and_then(|place| {
        let call = Call::announce(&tcp, to, gid, shard.patience);
        Some((call.ok()??, place))
    });
    connect_tcp(&tcp, to)?;
    let tcp = TcpStream::from(tcp);
    if let Some((call, place)) = announced {
        let joined = |peer: &_| shard.lock().ism.device().is_joined(peer);
        if let Ok(Outcome::Paired(paired)) = call.finish(&tcp, joined) {
            return decide(shard, tcp, to, place, paired);
        }
    }
    Ok(Arc::new(Socket::new(tcp, Some(Carrier::PLAIN), shard.spin)))
}

/// Connects the socket; a signal does not cut that short.
fn connect_tcp(tcp: impl AsFd, to: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(&tcp, &to) {
        Err(Errno::INTR) => {
            let mut polled = [PollFd::new(&tcp, PollFlags::OUT)];
            while let Err(Errno::INTR) = rustix::event::poll(&mut polled, None) {}
            let outcome = rustix::net::sockopt::socket_error(&tcp)?;
            Ok(outcome?)
        }
        outcome => Ok(outcome?),
    }
}

/// Lets the engine decide what carries a connection whose server will speak CLC.
fn decide(
    shard: &Arc<Shard>,
    tcp: TcpStream,
    to: SocketAddr,
    place: Place,
    paired: Paired,
) -> io::Result<Arc<Socket>> {
    let peer = paired.peer.gid;
    let socket = Arc::new(Socket::new(tcp, None, shard.spin));
    socket.status().place = Some(place);
    let mut state = shard.lock();
    // Without a channel to it, the server declines.
    let _ = state.ism.device_mut().admit(paired);
    let ism = [state.path()];
    let paths = Paths {
        rnics: &[],
        ism: &ism,
    };
    // There is a place for each.
    let conn = state
        .engine
        .connect(shard.now(), shard::options(to), paths)
        .map_err(io::Error::other)?;
    state.enter(conn, socket.clone(), peer, None);
    loop {
        state.settle(shard, shard.now());
        let (carrier, closed) = {
            let status = socket.status();
            (status.carrier, status.closed)
        };
        match (carrier, closed) {
            (Some(carrier), _) => {
                if carrier.is_smc() {
                    shard.watch(conn, &socket);
                }
                return Ok(socket);
            }
            (None, Some(reason)) => {
                let kind = io::ErrorKind::ConnectionReset;
                return Err(io::Error::new(kind, reason.to_string()));
            }
            (None, None) => {}
        }
        drop(state);
        let begin = Instant::now();
        let mut polled = [PollFd::new(&socket.tcp, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&timespec(TICK))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        state = shard.lock();
        state.look_at_tcp(conn, shard.now());
        state.settle(shard, shard.now());
        let waits = socket.status().carrier.is_none();
        if waits && begin.elapsed() < PART {
            drop(state);
            std::thread::sleep(PART);
            state = shard.lock();
        }
    }
}
