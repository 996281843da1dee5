//! Sockets like those of TCP, whose data goes through shared memory or over RDMA where the
//! other end can, and over TCP where not.
//!
//! ```text
//!   application threads      event loops               driver thread (one a stack)
//!   SmcStream: read, write   EventLoop, tokio's task   timers, calls, TCP, RNICs;
//!      │   │                 poll shared memory        shared memory if no loop does
//!      │   │        ┌──────────────┴─────────────────────────┘
//!      │   ▼        ▼
//!      │  ┌─ one lock ─────────────────────────────────────┐
//!      │  │ smc-proto's Endpoint ◄─► Bindings of devices   │──► the peer's memory
//!      │  └───────┬────────────────────────────────────▲───┘          ▲
//!      │          │ lends the data path of one         │ takes it     │
//!      ▼          ▼ connection                         │ back         │
//!   ┌─ a lock of this connection ──────────────────────┴───┐          │
//!   │ LentConnection: cursors and window, no table, no I/O │──────────┘
//!   └──────────────────────────────────────────────────────┘
//! ```
//!
//! A blocking stream over SMC-D reads and writes under the lock of its connection alone, so that
//! threads with a connection each have none in common, and a page fault in one thread's memory
//! stops no other connection. The lock of a connection is taken first, then the endpoint's; who
//! holds the endpoint's takes a connection back only if no thread uses it, and otherwise again
//! some milliseconds later. Whatever is not only about bytes is done at the endpoint: the end of
//! a connection, urgent bytes, and waiting. There, under its lock, streams are read and written
//! that do not block, that an event loop or a task waits for, or that RNICs carry.
//!
//! [`SmcListener`] and [`SmcStream`] are used as std's `TcpListener` and `TcpStream`
//! are. Each connection begins as TCP. If both processes are on one host, and both use
//! this crate, they find that out before either sends an octet, agree on SMC-D over the
//! TCP connection, and move their bytes straight into each other's memory. With peers on
//! other hosts, Linux's among them, it is SMC-R over RNICs: those of the host with the
//! feature `rdma`, or [`Rnics`] that a program brings. In every
//! other case the connection is plain TCP from its first octet; a peer that knows
//! nothing of SMC never sees any of it. [`SmcStream::carrier`] shows which it is, and
//! why; [`why`] predicts it. A [`Policy`] defines where SMC may be used at all.
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
//! - A blocking write returns when all bytes are under way; a read when there is one.
//! - Timeouts, peeking, vectored reading and writing, clones, urgent bytes, corks, and
//!   what lingers; an error of the connection is reported once.
//! - Half close, and the end of the stream; a stream dropped with unread bytes is a
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
//!   before it, and its descriptor reports one by being readable, not by `POLLPRI`.
//! - The descriptor is for polling only, and clones of a stream share it.
//! - After `fork`, SMC connections stay with the parent. In the child, stacks begin anew,
//!   inherited listeners accept for the child, using an inherited SMC stream is
//!   [`Unsupported`](std::io::ErrorKind::Unsupported), and dropping it does nothing.
//! - A signal handler does not cut a connect short, and a read or a write only if the program
//!   asks for it ([`SmcStream::set_interruptible`]).
//!
//! # Logging
//!
//! With the feature `tracing`, subscribers of the crate `tracing` get an event of the target
//! `smc_sockets` and the level `INFO` for each connection: SMC, or TCP and the reason. The target
//! `smc_sockets::engine` has the events of the engine: `WARN` for what broke, `DEBUG` for messages
//! and states, `TRACE` for bytes, buffers and timers. They are made only while a subscriber wants
//! `DEBUG` of that target, and bytes take a slower path meanwhile. A subscriber is called with the
//! stack locked: it must not use streams of that stack.
//!
//! # Other systems than Linux
//!
//! There this crate compiles, and every connection is TCP: [`SmcListener`], [`SmcStream`], their
//! likes for tokio, and [`Stack`] are there, with what std's and tokio's sockets have.
//!
//! [`AsFd`]: std::os::fd::AsFd
#![deny(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    allow(rustdoc::broken_intra_doc_links, reason = "of what is on Linux only")
)]

#[cfg(target_os = "linux")]
mod accepting;
#[cfg(target_os = "linux")]
mod building;
#[cfg(target_os = "linux")]
mod carrier;
#[cfg(target_os = "linux")]
mod connecting;
#[cfg(target_os = "linux")]
mod discovery;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod event_loop;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod interrupts;
#[cfg(target_os = "linux")]
mod lane;
#[cfg(target_os = "linux")]
mod listener;
#[cfg(target_os = "linux")]
mod listening;
#[cfg(target_os = "linux")]
mod opening;
#[cfg(target_os = "linux")]
mod opt_in;
#[cfg(target_os = "linux")]
pub mod policy;
#[cfg(target_os = "linux")]
mod readiness;
#[cfg(target_os = "linux")]
mod rnics;
#[cfg(target_os = "linux")]
mod shard;
#[cfg(target_os = "linux")]
mod shared_memory;
#[cfg(target_os = "linux")]
mod shunned;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod stack;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod subscribed;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
pub mod tcp_option;
#[cfg(target_os = "linux")]
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(target_os = "linux")]
mod tracing;
#[cfg(target_os = "linux")]
mod undecided;
#[cfg(target_os = "linux")]
mod viewing;
#[cfg(target_os = "linux")]
mod waiters;
#[cfg(target_os = "linux")]
mod waiting;
#[cfg(target_os = "linux")]
pub mod why;

#[cfg(target_os = "linux")]
use smc_transport_ism::process;

#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use smc_transport_ism::descriptors;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use smc_transport_ism::shared::pairing::{destination, unbound_destination};

#[cfg(target_os = "linux")]
#[cfg(test)]
#[path = "../tests/common/children.rs"]
#[allow(unsafe_code)]
mod children;

#[cfg(target_os = "linux")]
pub use accepting::{Accepting, PublishedListener};
#[cfg(target_os = "linux")]
pub use building::SmcSocket;
#[cfg(target_os = "linux")]
pub use carrier::{Carrier, Cause, Limit, OptionMissing, Side, WhyTcp};
#[cfg(target_os = "linux")]
pub use connecting::Connecting;
#[cfg(target_os = "linux")]
pub use event_loop::{EventLoop, Ready, Wait};
#[cfg(target_os = "linux")]
pub use listener::SmcListener;
#[cfg(target_os = "linux")]
pub use policy::Policy;
#[cfg(target_os = "linux")]
pub use rnics::Rnics;
#[cfg(target_os = "linux")]
pub use shared_memory::SharedMemory;
#[cfg(target_os = "linux")]
pub use stack::{Settings, Stack};
#[cfg(target_os = "linux")]
pub use stream::{CallFlags, PollState, SmcStream};

#[cfg(target_os = "linux")]
pub use smc_proto::event::FallbackReason;
#[cfg(target_os = "linux")]
pub use smc_proto::version::{Technology, Terms};
#[cfg(target_os = "linux")]
pub use smc_transport_ism::shared::pairing::PairingTimeouts;
/// Old name of [`PairingTimeouts`].
#[cfg(target_os = "linux")]
#[deprecated(note = "renamed to `PairingTimeouts`")]
pub type Patience = PairingTimeouts;

#[cfg(any(not(target_os = "linux"), test))]
#[cfg_attr(
    target_os = "linux",
    allow(dead_code, unreachable_pub, reason = "tested where it is not used")
)]
mod tcp_only;
#[cfg(all(not(target_os = "linux"), feature = "hyper-util-0_1"))]
use tcp_only as stack;
#[cfg(all(not(target_os = "linux"), feature = "tokio"))]
pub use tcp_only::tokio;
#[cfg(not(target_os = "linux"))]
pub use tcp_only::{Carrier, Stack, WhyTcp, listener::SmcListener, stream::SmcStream};
