//! Clients of hyper-util over [`SmcStream`]s.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;

use super::SmcStream;
use crate::stack::Stack;

/// Connects clients of hyper-util:
///
/// ```
/// use http_body_util::Empty;
/// use hyper::body::Bytes;
/// use hyper_util::client::legacy::Client;
/// use hyper_util::rt::TokioExecutor;
/// use smc_sockets::tokio::SmcConnector;
///
/// let client = Client::builder(TokioExecutor::new()).build(SmcConnector::new());
/// # let _: Client<_, Empty<Bytes>> = client;
/// ```
///
/// Only the scheme `http` is supported: TLS goes on top of the stream.
#[derive(Clone, Debug, Default)]
pub struct SmcConnector {
    stack: Option<Stack>,
}

impl SmcConnector {
    /// A connector with the [stack of this process](Stack::of_process).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A connector with this stack.
    #[must_use]
    pub fn on(stack: &Stack) -> Self {
        let stack = Some(stack.clone());
        Self { stack }
    }
}

impl tower_service::Service<Uri> for SmcConnector {
    type Response = TokioIo<SmcStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<SmcStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let stack = self.stack.clone();
        Box::pin(async move {
            let host = to.host().ok_or_else(|| invalid("the URI has no host"))?;
            let default = match to.scheme_str() {
                None | Some("http") => 80,
                Some(_) => return Err(invalid("the scheme is not http")),
            };
            // An IPv6 address is in brackets.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let port = to.port_u16().unwrap_or(default);
            let stack = match stack {
                Some(stack) => stack,
                None => Stack::of_process()?,
            };
            let stream = SmcStream::connect_on(&stack, (host, port)).await?;
            Ok(TokioIo::new(stream))
        })
    }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

impl Connection for SmcStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
