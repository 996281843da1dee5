//! Sockets for programs on tokio: [`SmcStream`] and [`SmcListener`] are used as
//! tokio's `TcpStream` and `TcpListener` are.
//!
//! The tasks that wait for streams over SMC are woken by a task of their own runtime, which
//! polls the shared memory of all peers and needs one descriptor for all of them; a stream
//! needs none but that of its TCP connection. Connecting and accepting may be given up at any
//! time: a connection that was not handed out is ended, or handed to the next that accepts.
//!
//! ```
//! use smc_sockets::Stack;
//! use smc_sockets::tokio::{SmcListener, SmcStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! // Two stacks, as if they were two processes.
//! let listener = SmcListener::bind_on(&Stack::open()?, "127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//! tokio::spawn(async move {
//!     let (mut stream, _) = listener.accept().await?;
//!     let (mut reader, mut writer) = stream.split();
//!     tokio::io::copy(&mut reader, &mut writer).await
//! });
//!
//! let mut stream = SmcStream::connect_on(&Stack::open()?, address).await?;
//! stream.write_all(b"there and back").await?;
//! stream.shutdown().await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "there and back");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(feature = "axum-0_8")]
mod axum;
mod driver;
mod driver_task;
#[cfg(feature = "hyper-util-0_1")]
mod hyper_util;
mod in_place;
mod listener;
mod registered;
mod runtimes;
mod slow;
mod socket;
mod split;
mod stream;
mod transport;

#[cfg(feature = "hyper-util-0_1")]
pub use hyper_util::SmcConnector;
pub(crate) use in_place::SpinOutcome;
pub use listener::SmcListener;
pub(crate) use runtimes::Runtimes;
pub use socket::SmcSocket;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stream::SmcStream;
