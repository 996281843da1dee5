//! Reading and writing streams, whole and in halves.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use smc_sockets::tokio::SmcStream;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, Ready};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::{octets, stack};
use crate::support::{LONG, SHORT, listener, on_both, pair};

on_both! {
    many_connections_are_echoed_at_once
    a_direction_ends_and_the_other_goes_on
    who_writes_waits_for_who_reads
    halves_go_to_different_tasks
    looking_and_trying_take_no_more_than_there_is
    a_reset_is_reported
    slices_are_written_in_one_call
}

async fn many_connections_are_echoed_at_once() {
    const CONNECTIONS: usize = 100;
    let (listener, address) = listener().await;
    let serving = tokio::spawn(async move {
        let mut clients = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (mut stream, _) = listener.accept().await.unwrap();
            clients.spawn(async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                writer.shutdown().await.unwrap();
            });
        }
        clients.join_all().await;
    });
    let (stack, sent) = (stack(), Arc::new(octets(20_000)));
    let mut clients = JoinSet::new();
    for at in 0..CONNECTIONS {
        let (stack, sent) = (stack.clone(), sent.clone());
        clients.spawn(async move {
            let stream = SmcStream::connect_on(&stack, address).await.unwrap();
            assert!(stream.carrier().is_smc(), "{}", stream.carrier());
            let (mut reader, mut writer) = stream.into_split();
            let words = sent.clone();
            let writing = tokio::spawn(async move {
                for piece in words[at..].chunks(777 + at) {
                    writer.write_all(piece).await.unwrap();
                }
            });
            let mut received = Vec::new();
            reader.read_to_end(&mut received).await.unwrap();
            writing.await.unwrap();
            assert!(received == sent[at..]);
        });
    }
    clients.join_all().await;
    serving.await.unwrap();
}

async fn a_direction_ends_and_the_other_goes_on() {
    let (mut client, mut server) = pair().await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut all = String::new();
    server.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "question");
    let error = client.write(b"x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    for piece in ["an ", "answer"] {
        server.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.shutdown().await.unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "an answer");
    // Both have ended: as with tokio's own stream, that is no error.
    for end in [&mut client, &mut server] {
        end.shutdown().await.unwrap();
    }
}

async fn who_writes_waits_for_who_reads() {
    let (mut client, mut server) = pair().await;
    let sent = octets(3 << 20);
    let mut written = 0;
    // Only a part of it fits into the peer's buffer.
    while let Ok(len) = timeout(SHORT, client.write(&sent[written..])).await {
        written += len.unwrap();
        assert!(written < sent.len());
    }
    assert!(written > 0);
    let rest = sent[written..].to_vec();
    let writing = tokio::spawn(async move {
        client.write_all(&rest).await.unwrap();
    });
    let mut received = vec![0; sent.len()];
    let (first, others) = received.split_at_mut(1000);
    server.read_exact(first).await.unwrap();
    assert!(!writing.is_finished());
    server.read_exact(others).await.unwrap();
    writing.await.unwrap();
    assert!(received == sent);
}

async fn halves_go_to_different_tasks() {
    let (client, server) = pair().await;
    let (mut reader, mut writer) = client.into_split();
    let (other, other_writer) = server.into_split();
    let error = reader.reunite(other_writer).unwrap_err();
    let mut server = other.reunite(error.1).unwrap();
    reader = error.0;
    let writing = tokio::spawn(async move {
        writer.write_all(b"to the other side").await.unwrap();
        // Dropping it is the end of what it says.
    });
    let mut all = String::new();
    server.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "to the other side");
    writing.await.unwrap();
    server.write_all(b"and back").await.unwrap();
    drop(server);
    let mut all = String::new();
    reader.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "and back");
    let (client, mut server) = pair().await;
    let (reader, writer) = client.into_split();
    writer.forget();
    let reading = timeout(SHORT, server.read(&mut [0; 1])).await;
    assert!(reading.is_err());
    drop(reader);
    assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0);
}

async fn looking_and_trying_take_no_more_than_there_is() {
    let (client, server) = pair().await;
    let mut octets = [0; 16];
    let error = server.try_read(&mut octets).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    client.writable().await.unwrap();
    assert_eq!(client.try_write(b"octets").unwrap(), 6);
    assert_eq!(server.peek(&mut octets).await.unwrap(), 6);
    server.readable().await.unwrap();
    assert_eq!(server.try_read(&mut octets[..2]).unwrap(), 2);
    assert_eq!(server.try_read(&mut octets).unwrap(), 4);
    let large = vec![7; 1 << 20];
    let mut written = 0;
    // Until there is no room any more, also none whose readiness is reported late.
    while timeout(SHORT, client.writable()).await.is_ok() {
        match client.try_write(&large) {
            Ok(len) => written += len,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(written > 0);
    let std = server.into_std().unwrap();
    std.set_nonblocking(false).unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        std::io::Read::read_exact(&mut &std, &mut vec![0; written]).unwrap();
        std
    });
    let std = reading.await.unwrap();
    timeout(LONG, client.writable()).await.unwrap().unwrap();
    drop(std);
}

async fn a_reset_is_reported() {
    let (mut client, server) = pair().await;
    client.write_all(b"this is not read").await.unwrap();
    server.readable().await.unwrap();
    let reading = tokio::spawn(async move {
        let error = client.read(&mut [0; 8]).await.unwrap_err();
        (client, error.kind())
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(server);
    let (mut client, kind) = reading.await.unwrap();
    assert_eq!(kind, ErrorKind::ConnectionReset);
    let error = client.write(b"x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

async fn slices_are_written_in_one_call() {
    let (mut client, mut server) = pair().await;
    assert!(client.is_write_vectored(), "writers are to use them");
    let slices = [&b"one "[..], b"", b"call"].map(std::io::IoSlice::new);
    assert_eq!(client.write_vectored(&slices).await.unwrap(), 8);
    let mut text = [0; 8];
    server.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"one call");
}

/// What is ready is named; one that waits for both is woken by either.
#[tokio::test]
async fn readiness_names_the_directions() {
    let (far, mut near) = pair().await;
    let both = Interest::READABLE | Interest::WRITABLE;
    assert_eq!(far.ready(both).await.unwrap(), Ready::WRITABLE);
    assert!(timeout(SHORT, far.ready(Interest::READABLE)).await.is_err());
    let blocked = far.try_io(Interest::READABLE, || {
        Err::<(), _>(ErrorKind::WouldBlock.into())
    });
    assert_eq!(blocked.unwrap_err().kind(), ErrorKind::WouldBlock);
    near.write_all(b"!").await.unwrap();
    let ready = far.ready(Interest::READABLE).await.unwrap();
    assert!(ready.is_readable());
    assert_eq!(
        far.ready(both).await.unwrap(),
        Ready::READABLE | Ready::WRITABLE
    );
    let mut first = [0; 1];
    let mut peeked = tokio::io::ReadBuf::new(&mut first);
    std::future::poll_fn(|context| far.poll_peek(context, &mut peeked))
        .await
        .unwrap();
    assert_eq!(peeked.filled(), b"!");
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stack, address) = (stack(), plain.local_addr().unwrap());
    let tcp = SmcStream::connect_on(&stack, address).await.unwrap();
    assert_eq!(tcp.ready(both).await.unwrap(), Ready::WRITABLE);
}
