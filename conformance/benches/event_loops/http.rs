//! HTTP on axum and hyper.

use std::io;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use smc_sockets::Stack;

use crate::transport::{Listener, Stream, Transport};

impl axum::serve::Listener for Listener {
    type Io = Stream;
    type Addr = ();

    async fn accept(&mut self) -> (Stream, ()) {
        loop {
            match Self::accept(self).await {
                Ok(stream) => return (stream, ()),
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) async fn serve(transport: Transport, stack: Option<Stack>) {
    let listener = Listener::bind(transport, stack.as_ref())
        .await
        .expect("a listener");
    let router = Router::new().route("/", get(|| async { "Hello, world!" }));
    axum::serve(listener, router).await.expect("a server");
}

type Client = SendRequest<Empty<Bytes>>;

async fn connect(transport: Transport, stack: Option<&Stack>, address: &str) -> Client {
    let stream = Stream::connect(transport, stack, address).await;
    let (client, connection) = handshake(TokioIo::new(stream.expect("a connection")))
        .await
        .expect("a client");
    tokio::spawn(connection);
    client
}

async fn fetch(client: &mut Client) {
    let request = hyper::Request::get("/")
        .header("host", "localhost")
        .body(Empty::new())
        .expect("a request");
    client.ready().await.expect("room for a request");
    let response = client.send_request(request).await.expect("a response");
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.expect("a body");
    assert_eq!(body.to_bytes(), "Hello, world!");
}

/// Milliseconds for GETs one after another over one connection.
pub(crate) async fn keep_alive(
    transport: Transport,
    stack: Option<Stack>,
    address: String,
    count: usize,
) -> f64 {
    let mut client = connect(transport, stack.as_ref(), &address).await;
    for _ in 0..count / 10 {
        fetch(&mut client).await;
    }
    let begin = Instant::now();
    for _ in 0..count {
        fetch(&mut client).await;
    }
    begin.elapsed().as_secs_f64() * 1e3
}

/// Milliseconds for clients that connect all at once, each with its GETs.
pub(crate) async fn crowd(
    transport: Transport,
    stack: Option<Stack>,
    address: String,
    clients: usize,
    gets: usize,
) -> f64 {
    // Both processes have met before.
    fetch(&mut connect(transport, stack.as_ref(), &address).await).await;
    let begin = Instant::now();
    let all: Vec<_> = (0..clients)
        .map(|_| {
            let (stack, address) = (stack.clone(), address.clone());
            tokio::spawn(async move {
                let mut client = connect(transport, stack.as_ref(), &address).await;
                for _ in 0..gets {
                    fetch(&mut client).await;
                }
            })
        })
        .collect();
    for client in all {
        client.await.expect("a client");
    }
    begin.elapsed().as_secs_f64() * 1e3
}
