//! Futures that are dropped before they are ready: nothing is lost, and nothing is kept.

use std::time::Duration;

use smc_sockets::Stack;
use smc_sockets::tokio::SmcStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::common::{octets, settings, stack};
use crate::support::{LONG, SHORT, listener, on_both, pair, polled};

on_both! {
    a_read_that_is_given_up_loses_nothing
    accepting_may_be_given_up
    connecting_may_be_given_up
}

async fn a_read_that_is_given_up_loses_nothing() {
    let (mut client, mut server) = pair().await;
    let sent = octets(50_000);
    let words = sent.clone();
    let writing = tokio::spawn(async move {
        for piece in words.chunks(500) {
            client.write_all(piece).await.unwrap();
            tokio::time::sleep(Duration::from_micros(700)).await;
        }
        client
    });
    let mut received = Vec::new();
    let mut given_up = 0;
    while received.len() < sent.len() {
        let reading = server.read_buf(&mut received);
        match timeout(Duration::from_micros(300), reading).await {
            Ok(len) => assert!(len.unwrap() > 0),
            Err(_) => given_up += 1,
        }
    }
    assert!(received == sent && given_up > 0);
    drop(writing.await.unwrap());
}

async fn accepting_may_be_given_up() {
    const CONNECTIONS: usize = 20;
    let (listener, address) = listener().await;
    let client = stack();
    let connecting = tokio::spawn(async move {
        for at in 0..CONNECTIONS {
            let mut stream = SmcStream::connect_on(&client, address).await.unwrap();
            stream.write_all(&[at as u8]).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
        }
    });
    let mut seen = 0;
    while seen < CONNECTIONS {
        // At first nothing has come; another task reads it later.
        if let Some(accepted) = polled(1, listener.accept()).await {
            let (mut stream, _) = accepted.unwrap();
            assert_eq!(usize::from(stream.read_u8().await.unwrap()), seen);
            seen += 1;
        }
        tokio::task::yield_now().await;
    }
    connecting.await.unwrap();
}

async fn connecting_may_be_given_up() {
    let (listener, address) = listener().await;
    // With few places: what kept one when it was given up would be missed.
    let mut settings = settings();
    settings.connections = 4;
    let client = Stack::with(settings).unwrap();
    let (mut given_up, end) = (0, std::time::Instant::now() + LONG);
    for at in 0.. {
        let connecting = SmcStream::connect_on(&client, address);
        given_up += u32::from(polled(1 + at / 10 % 4, connecting).await.is_none());
        // Without a place, a connection is TCP at once and cannot be given up.
        if at >= 40 && given_up > 0 {
            break;
        }
        assert!(std::time::Instant::now() < end, "all were made at once");
    }
    // Connections that were made are accepted, and end.
    while let Ok(accepted) = timeout(SHORT, listener.accept()).await {
        let (mut stream, _) = accepted.unwrap();
        // The connection may have been reset.
        let _ = timeout(LONG, stream.read(&mut [0; 1])).await.unwrap();
    }
    let mut kept = Vec::new();
    for _ in 0..4 {
        let connecting = SmcStream::connect_on(&client, address);
        let (stream, accepted) = tokio::join!(connecting, listener.accept());
        let stream = stream.unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        kept.push((stream, accepted.unwrap()));
    }
}
