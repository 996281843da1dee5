//! `axum::serve` over an [`SmcListener`].

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::{SmcListener, SmcStream};

/// Time until the next attempt after an error that is not one of a connection, such as a lack
/// of descriptors: as axum waits for TCP.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves with axum:
///
/// ```
/// use axum::{Router, routing::get};
/// use smc_sockets::tokio::SmcListener;
///
/// # async fn serve() -> std::io::Result<()> {
/// let router = Router::new().route("/", get(|| async { "Hello, world!" }));
/// let listener = SmcListener::bind("127.0.0.1:0").await?;
/// axum::serve(listener, router).await
/// # }
/// ```
impl axum::serve::Listener for SmcListener {
    type Io = SmcStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (SmcStream, SocketAddr) {
        loop {
            match Self::accept(self).await {
                Ok(accepted) => return accepted,
                Err(error) if is_of_connection(&error) => {}
                Err(_) => ::tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}

/// Whether an error of accepting concerns one connection only.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
