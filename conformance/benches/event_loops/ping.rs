//! Round trips on tokio: a question, the same bytes back.

use std::time::{Duration, Instant};

use smc_sockets::Stack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::transport::{Listener, Stream, Transport};

pub(crate) async fn serve(transport: Transport, stack: Option<Stack>, bytes: usize) {
    let listener = Listener::bind(transport, stack.as_ref())
        .await
        .expect("a listener");
    loop {
        let mut stream = listener.accept().await.expect("a connection");
        let mut chunk = vec![0; bytes];
        tokio::spawn(async move {
            while stream.read_exact(&mut chunk).await.is_ok() {
                if stream.write_all(&chunk).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Microseconds of a round trip, without the pauses.
pub(crate) async fn client(
    transport: Transport,
    stack: Option<Stack>,
    address: String,
    bytes: usize,
    pause: Duration,
    count: usize,
) -> f64 {
    let stream = Stream::connect(transport, stack.as_ref(), &address).await;
    let mut stream = stream.expect("a connection");
    let (sent, mut received) = (vec![7; bytes], vec![0; bytes]);
    let mut total = Duration::ZERO;
    // The first tenth warms up.
    for round in 0..count + count / 10 {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let begin = Instant::now();
        stream.write_all(&sent).await.expect("a question");
        stream.read_exact(&mut received).await.expect("an answer");
        if round >= count / 10 {
            total += begin.elapsed();
        }
    }
    assert_eq!(received, sent);
    total.as_secs_f64() * 1e6 / count as f64
}
