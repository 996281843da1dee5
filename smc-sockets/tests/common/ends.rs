//! An end of a connection of either kind, for scenarios that are the same over both.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use rustix::time::Timespec;
use smc_sockets::SmcStream;

use super::pair;
use super::rnics::Hosts;

/// Longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(5);

/// What std's stream has.
pub(crate) trait End: AsFd + Send + Sync + Sized + 'static {
    fn pair() -> (Self, Self);
    fn connect_in(to: &SocketAddr, time: Duration) -> io::Result<Self>;
    fn get(&self, into: &mut [u8]) -> io::Result<usize>;
    fn put(&self, octets: &[u8]) -> io::Result<usize>;
    fn get_slices(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn put_slices(&self, octets: &[IoSlice<'_>]) -> io::Result<usize>;
    fn peek(&self, into: &mut [u8]) -> io::Result<usize>;
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()>;
    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()>;
    fn read_timeout(&self) -> io::Result<Option<Duration>>;
    fn write_timeout(&self) -> io::Result<Option<Duration>>;
    fn set_nodelay(&self, nodelay: bool) -> io::Result<()>;
    fn nodelay(&self) -> io::Result<bool>;
    fn set_ttl(&self, ttl: u32) -> io::Result<()>;
    fn ttl(&self) -> io::Result<u32>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    fn try_clone(&self) -> io::Result<Self>;
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    // What std leaves to others.
    fn set_linger(&self, linger: Option<Duration>) -> io::Result<()>;
    fn linger(&self) -> io::Result<Option<Duration>>;
    fn set_cork(&self, cork: bool) -> io::Result<()>;
    fn cork(&self) -> io::Result<bool>;
    fn send_urgent(&self, octets: &[u8]) -> io::Result<usize>;
    fn receive_urgent(&self) -> io::Result<u8>;
    fn peek_urgent(&self) -> io::Result<u8>;
    fn set_urgent_inline(&self, inline: bool) -> io::Result<()>;
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// One over RNICs in software, with the stacks of both ends, which are kept.
pub(crate) struct OverRnics(SmcStream, Arc<Hosts>);

impl OverRnics {
    pub(crate) fn stream(&self) -> &SmcStream {
        &self.0
    }
}

impl AsFd for OverRnics {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn pair_over_rnics() -> (OverRnics, OverRnics) {
    let hosts = Arc::new(Hosts::new());
    let (client, server) = hosts.pair();
    (OverRnics(client, hosts.clone()), OverRnics(server, hosts))
}

fn itself<T>(of: &T) -> &T {
    of
}

fn over_rnics(of: &OverRnics) -> &SmcStream {
    &of.0
}

macro_rules! end {
    ($kind:ty, $pair:ident, $stream:ident; $($name:ident($($arg:ident: $of:ty),*) -> $result:ty;)*; $($own:tt)*) => {
        impl End for $kind {
            fn pair() -> (Self, Self) {
                $pair()
            }
            fn get(&self, into: &mut [u8]) -> io::Result<usize> {
                (&*$stream(self)).read(into)
            }
            fn put(&self, octets: &[u8]) -> io::Result<usize> {
                (&*$stream(self)).write(octets)
            }
            fn get_slices(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&*$stream(self)).read_vectored(into)
            }
            fn put_slices(&self, octets: &[IoSlice<'_>]) -> io::Result<usize> {
                (&*$stream(self)).write_vectored(octets)
            }
            $(fn $name(&self, $($arg: $of),*) -> io::Result<$result> {
                $stream(self).$name($($arg),*)
            })*
            $($own)*
        }
    };
    ($kind:ty, $pair:ident, $stream:ident: $($own:tt)*) => {
        end! { $kind, $pair, $stream;
            peek(into: &mut [u8]) -> usize;
            shutdown(how: Shutdown) -> ();
            set_nonblocking(nonblocking: bool) -> ();
            set_read_timeout(time: Option<Duration>) -> ();
            set_write_timeout(time: Option<Duration>) -> ();
            read_timeout() -> Option<Duration>;
            write_timeout() -> Option<Duration>;
            set_nodelay(nodelay: bool) -> ();
            nodelay() -> bool;
            set_ttl(ttl: u32) -> ();
            ttl() -> u32;
            take_error() -> Option<io::Error>;
            peer_addr() -> SocketAddr;
            local_addr() -> SocketAddr;
            ; $($own)*
        }
    };
}

end! { TcpStream, tcp_pair, itself:
    fn connect_in(to: &SocketAddr, time: Duration) -> io::Result<Self> {
        TcpStream::connect_timeout(to, time)
    }
    fn try_clone(&self) -> io::Result<Self> {
        TcpStream::try_clone(self)
    }
    fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, linger)?)
    }
    fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(sockopt::socket_linger(self)?)
    }
    fn set_cork(&self, cork: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_cork(self, cork)?)
    }
    fn cork(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_cork(self)?)
    }
    fn send_urgent(&self, octets: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self, octets, SendFlags::OOB)?)
    }
    fn receive_urgent(&self) -> io::Result<u8> {
        let mut octet = [0];
        rustix::net::recv(self, &mut octet, RecvFlags::OOB)?;
        Ok(octet[0])
    }
    fn peek_urgent(&self) -> io::Result<u8> {
        let mut octet = [0];
        rustix::net::recv(self, &mut octet, RecvFlags::OOB | RecvFlags::PEEK)?;
        Ok(octet[0])
    }
    fn set_urgent_inline(&self, inline: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_oobinline(self, inline)?)
    }
}

macro_rules! smc {
    ($kind:ty, $pair:ident, $stream:ident: { $($own:tt)* }
     $($name:ident($($arg:ident: $of:ty),*) -> $result:ty;)*) => {
        end! { $kind, $pair, $stream:
            $($own)*
            $(fn $name(&self, $($arg: $of),*) -> io::Result<$result> {
                $stream(self).$name($($arg),*)
            })*
        }
    };
    ($kind:ty, $pair:ident, $stream:ident: $($own:tt)*) => {
        smc! { $kind, $pair, $stream: { $($own)* }
            set_linger(linger: Option<Duration>) -> ();
            linger() -> Option<Duration>;
            set_cork(cork: bool) -> ();
            cork() -> bool;
            send_urgent(octets: &[u8]) -> usize;
            receive_urgent() -> u8;
            peek_urgent() -> u8;
            set_urgent_inline(inline: bool) -> ();
        }
    };
}

smc! { SmcStream, pair, itself:
    fn connect_in(to: &SocketAddr, time: Duration) -> io::Result<Self> {
        SmcStream::connect_timeout(to, time)
    }
    fn try_clone(&self) -> io::Result<Self> {
        SmcStream::try_clone(self)
    }
}

smc! { OverRnics, pair_over_rnics, over_rnics:
    fn connect_in(to: &SocketAddr, time: Duration) -> io::Result<Self> {
        let hosts = Arc::new(Hosts::new());
        Ok(Self(SmcStream::connect_timeout(to, time)?, hosts))
    }
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?, self.1.clone()))
    }
}

/// Runs a test over all of them.
macro_rules! over_all {
    ($($name:ident)*) => {$(
        mod $name {
            #[test]
            fn smc() {
                super::$name::<smc_sockets::SmcStream>();
            }
            #[test]
            fn smc_r() {
                super::$name::<super::common::ends::OverRnics>();
            }
            #[test]
            fn tcp() {
                super::$name::<std::net::TcpStream>();
            }
        }
    )*};
}
pub(crate) use over_all;

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}

pub(crate) fn poll(of: impl AsFd, flags: PollFlags, time: Duration) -> PollFlags {
    let mut polled = [PollFd::new(&of, flags)];
    rustix::event::poll(&mut polled, Some(&timespec(time))).unwrap();
    polled[0].revents()
}

/// Whether there is something to read within a time.
pub(crate) fn is_readable(of: impl AsFd, time: Duration) -> bool {
    poll(of, PollFlags::IN, time).contains(PollFlags::IN)
}
