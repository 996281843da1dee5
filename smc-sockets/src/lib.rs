//! Sockets like those of TCP, whose data goes through shared memory or over RDMA where the
//! other end can, and over TCP where not.
//!
//! ```text
//!   application threads      event loops               driver thread (one a stack)
//!   SmcStream: read, write   EventLoop, tokio's task   timers, accepting, TCP, RNICs;
//!          │                 poll shared memory        shared memory if no loop does
//!          │        ┌──────────────┴─────────────────────────┘
//!          ▼        ▼
//!   ┌─ one lock ─────────────────────────────────────┐
//!   │ smc-proto's Endpoint ◄─► Bindings of devices   │──► the peer's memory
//!   └────────────────────────────────────────────────┘
//! ```
//!
//! [`SmcListener`] and [`SmcStream`] are used as std's `TcpListener` and `TcpStream`
//! are. Each connection begins as TCP. If both processes are on one host, and both use
//! this crate, they find that out before either sends an octet, agree on SMC-D over the
//! TCP connection, and move their octets straight into each other's memory. With peers on
//! other hosts, Linux's among them, it is SMC-R over RNICs: those of the host with the
//! feature `rdma`, or [`Rnics`] that a program brings. In every
//! other case the connection is plain TCP from its first octet; a peer that knows
//! nothing of SMC never sees any of it. [`SmcStream::carrier`] tells which it is, and
//! why; [`why`] tells it beforehand. A [`Policy`] says where SMC may be used at all.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpListener;
//! use smc_sockets::{SmcListener, SmcStream, Stack};
//!
//! // Two stacks, as if they were two processes.
//! let server = Stack::open()?;
//! let listener = SmcListener::on(&server, TcpListener::bind("127.0.0.1:0")?)?;
//! let address = listener.local_addr()?;
//! let serving = std::thread::spawn(move || -> std::io::Result<()> {
//!     let (mut stream, _) = listener.accept()?;
//!     let mut question = String::new();
//!     stream.read_to_string(&mut question)?;
//!     stream.write_all(question.to_uppercase().as_bytes())
//! });
//!
//! let mut stream = SmcStream::connect_on(&Stack::open()?, address)?;
//! println!("carried by {}", stream.carrier()); // SMC-D v2.1
//! stream.write_all(b"hello")?;
//! stream.shutdown(std::net::Shutdown::Write)?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "HELLO");
//! serving.join().unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What is as with TCP
//!
//! - A blocking write returns when all octets are under way; a read when there is one.
//! - Timeouts, peeking, vectored reading and writing, clones, urgent octets, corks, and
//!   what lingers; an error of the connection is told once.
//! - Half close, and the end of the stream; a stream dropped with unread octets is a
//!   reset for the peer.
//! - What a process wrote before it ended, however it ended, can be read; over RNICs, if
//!   it had arrived and was read before the link was lost.
//! - `poll`, `select` and `epoll` report both directions of a stream ([`AsFd`]), its end and
//!   its reset, and new connections of a listener, level- or edge-triggered.
//!
//! # What is not
//!
//! - A process that ends without closing its streams is a reset for their peers, after
//!   everything it wrote, and not the end of the stream.
//! - What is written behind an urgent octet waits until the peer has read all that is
//!   before it, and its descriptor tells of one by being readable, not by `POLLPRI`.
//! - The descriptor is for polling only, and clones of a stream share it.
//! - After `fork`, SMC connections stay with the parent. In the child, stacks begin anew,
//!   inherited listeners accept plain TCP, using an inherited SMC stream is
//!   [`Unsupported`](std::io::ErrorKind::Unsupported), and dropping it does nothing.
//! - A signal handler does not cut a connect short, and a read or a write only if the program
//!   asks for it ([`SmcStream::set_interruptible`]).
//!
//! Linux only, so far.
//!
//! [`AsFd`]: std::os::fd::AsFd
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod asking;
mod building;
mod carrier;
mod connecting;
mod discovery;
mod driver;
mod event_loop;
mod listener;
mod listening;
mod opening;
pub mod policy;
mod readiness;
mod rnics;
mod shard;
mod shared_memory;
mod shunned;
mod socket;
mod stack;
mod stream;
mod system;
pub mod tcp_option;
#[cfg(feature = "tokio")]
pub mod tokio;
mod undecided;
mod waiters;
mod waiting;
pub mod why;

use smc_transport_ism::process;

#[cfg(test)]
#[path = "../tests/common/children.rs"]
#[allow(unsafe_code)]
mod children;

pub use building::SmcSocket;
pub use carrier::{Carrier, Cause, Limit, OptionMissing, Side, WhyTcp};
pub use connecting::Connecting;
pub use event_loop::{EventLoop, Ready, Wait};
pub use listener::SmcListener;
pub use policy::Policy;
pub use rnics::Rnics;
pub use shared_memory::SharedMemory;
pub use stack::{Settings, Stack};
pub use stream::{CallFlags, SmcStream};

pub use smc_proto::event::FallbackReason;
pub use smc_proto::version::Terms;
pub use smc_transport_ism::shared::pairing::Patience;
