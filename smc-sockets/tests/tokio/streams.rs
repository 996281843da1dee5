//! Streams and listeners on tokio, on runtimes of either kind.

use crate::common;
use crate::common::children;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::common::{many_descriptors, octets, settings, stack};
use smc_sockets::Stack;
use smc_sockets::tokio::{SmcListener, SmcSocket, SmcStream};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, Ready};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);

/// Runs a scenario on a runtime with one thread, and on one with several.
macro_rules! on_both {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test]
            async fn current_thread() {
                tokio::time::timeout(3 * super::LONG, super::$name()).await.unwrap();
            }
            #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
            async fn multi_thread() {
                tokio::time::timeout(3 * super::LONG, super::$name()).await.unwrap();
            }
        }
    )*};
}

on_both! {
    many_connections_are_echoed_at_once
    a_direction_ends_and_the_other_goes_on
    who_writes_waits_for_who_reads
    a_read_that_is_given_up_loses_nothing
    accepting_may_be_given_up
    connecting_may_be_given_up
    the_unspecified_address_reaches_a_server_of_this_host
    halves_go_to_different_tasks
    plain_tcp_peers_are_served
    looking_and_trying_take_no_more_than_there_is
    a_reset_is_reported
    slices_are_written_in_one_call
}

async fn listener() -> (SmcListener, SocketAddr) {
    // Connections of one process have both their ends here.
    many_descriptors();
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What becomes of a future that is polled so often at most, and then given up.
async fn polled<F: Future>(times: u32, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), times);
    std::future::poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn pair() -> (SmcStream, SmcStream) {
    let (listener, address) = listener().await;
    let stack = stack();
    let connecting = SmcStream::connect_on(&stack, address);
    let (client, accepted) = tokio::join!(connecting, listener.accept());
    let (client, (server, from)) = (client.unwrap(), accepted.unwrap());
    assert_eq!(client.local_addr().unwrap(), from);
    for end in [&client, &server] {
        assert_eq!(end.carrier().to_string(), "SMC-D v2.1");
    }
    (client, server)
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
    drop(server);
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "an answer");
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

async fn the_unspecified_address_reaches_a_server_of_this_host() {
    let (listener, address) = listener().await;
    let client = stack();
    let to = SocketAddr::from(([0, 0, 0, 0], address.port()));
    // The second one is announced to a server that is known.
    for _ in 0..2 {
        let connecting = SmcStream::connect_on(&client, to);
        let (stream, accepted) = tokio::join!(connecting, listener.accept());
        let stream = stream.unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        assert_eq!(stream.peer_addr().unwrap(), address);
        drop(accepted.unwrap());
    }
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

async fn plain_tcp_peers_are_served() {
    let (listener, address) = listener().await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    assert!(!server.carrier().is_smc());
    client.write_all(b"question").await.unwrap();
    let mut octets = [0; 8];
    server.read_exact(&mut octets).await.unwrap();
    server.write_all(b"answer").await.unwrap();
    server.shutdown().await.unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "answer");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stack = stack();
    let connecting = SmcStream::connect_on(&stack, address);
    let (client, server) = tokio::join!(connecting, listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
    assert!(!client.carrier().is_smc());
    server.write_all(b"greeting").await.unwrap();
    drop(server);
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "greeting");
    let error = SmcStream::connect_on(&stack, "127.0.0.1:1")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
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

/// A child shares the poller of the parent's runtime: what it drops or takes apart, the
/// parent's tasks still wait for.
#[test]
fn what_a_forked_child_drops_the_parents_tasks_still_wait_for() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(SmcListener::bind_on(&common::stack(), "127.0.0.1:0"));
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let connected = runtime.block_on(async {
        let client = SmcStream::connect_on(&common::stack(), address).await?;
        let (server, _) = listener.accept().await?;
        std::io::Result::Ok((client, server))
    });
    let (client, server) = connected.unwrap();
    assert!(client.carrier().is_smc());
    let mut all = Some((listener, client, server));
    children::fork(|| {
        let (listener, client, mut server) = all.take().unwrap();
        let own = tokio::runtime::Runtime::new().unwrap();
        let read = own.block_on(server.read(&mut [0; 1])).unwrap_err();
        assert_eq!(read.kind(), ErrorKind::Unsupported);
        let wrote = own.block_on(server.write(&[0; 1])).unwrap_err();
        assert_eq!(wrote.kind(), ErrorKind::Unsupported);
        let accepted = own.block_on(listener.accept()).unwrap_err();
        assert_eq!(accepted.kind(), ErrorKind::Unsupported);
        assert!(own.block_on(client.readable()).is_err());
        // The child may register the listener again; the two processes agree on which of them accepts.
        let inherited = listener.into_std().unwrap();
        own.block_on(async { SmcListener::from_std(inherited) })
            .unwrap();
        drop((client.into_std().unwrap(), server));
    })
    .succeeds();
    let (listener, mut client, mut server) = all.take().unwrap();
    runtime.block_on(async {
        let waits = tokio::spawn(async move {
            let mut read = [0; 6];
            server.read_exact(&mut read).await.map(|_| read)
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        client.write_all(b"parent").await.unwrap();
        let waited = timeout(LONG, waits).await.expect("it is never woken");
        assert_eq!(&waited.unwrap().unwrap(), b"parent");
        let connects =
            tokio::spawn(async move { SmcStream::connect_on(&common::stack(), address).await });
        let accepted = timeout(LONG, listener.accept()).await;
        let (server, _) = accepted.expect("it is never woken").unwrap();
        assert!(server.carrier().is_smc(), "{}", server.carrier());
        connects.await.unwrap().unwrap();
    });
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

/// A runtime that runs in a thread of its own until the test ends it.
struct Apart {
    handle: tokio::runtime::Handle,
    end: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Apart {
    fn begin() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let (end, ends) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                while ends.try_recv().is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        });
        Self {
            handle,
            end,
            thread,
        }
    }

    /// Ends it, its tasks with it.
    fn end(self) {
        self.end.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// The runtime that polled the device ends while a task of another one waits for a stream.
#[tokio::test]
async fn a_runtime_that_ends_leaves_no_task_of_another_waiting() {
    for _ in 0..20 {
        let first = Apart::begin();
        let (mut far, mut near) = first.handle.spawn(pair()).await.unwrap();
        // The first runtime polls for both ends.
        let begun = first.handle.spawn(async move {
            far.write_all(b"begun").await.unwrap();
            near.read_exact(&mut [0; 5]).await.unwrap();
            assert!(polled(1, near.read(&mut [0; 1])).await.is_none());
            (far, near)
        });
        let (mut far, mut near) = begun.await.unwrap();
        let reader = tokio::spawn(async move {
            let mut answer = [0; 6];
            near.read_exact(&mut answer).await.unwrap();
            answer
        });
        tokio::task::yield_now().await;
        first.end();
        far.write_all(b"answer").await.unwrap();
        assert_eq!(&timeout(LONG, reader).await.unwrap().unwrap(), b"answer");
    }
}

/// A stream is moved from runtime to runtime, and waits in each.
#[test]
fn a_stream_moves_between_runtimes() {
    let runtimes = [(); 3].map(|()| Apart::begin());
    let mut ends = futures_block_on(runtimes[0].handle.spawn(pair())).unwrap();
    for round in 0..60_u32 {
        let at = |shift: usize| &runtimes[(round as usize + shift) % 3].handle;
        let (mut far, mut near) = ends;
        let answers = at(0).spawn(async move {
            let mut bytes = [0; 4];
            timeout(LONG, far.read_exact(&mut bytes))
                .await
                .unwrap()
                .unwrap();
            far.write_all(&bytes).await.unwrap();
            far
        });
        let asks = at(1).spawn(async move {
            near.write_all(&round.to_ne_bytes()).await.unwrap();
            let mut bytes = [0; 4];
            timeout(LONG, near.read_exact(&mut bytes))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(bytes, round.to_ne_bytes());
            near
        });
        ends = (
            futures_block_on(answers).unwrap(),
            futures_block_on(asks).unwrap(),
        );
    }
    runtimes.into_iter().for_each(Apart::end);
}

/// Runs a future in this thread, which is not one of a runtime.
fn futures_block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Without a runtime the driver thread polls for a task.
#[test]
fn a_future_outside_of_any_runtime_is_woken() {
    let runtime = Apart::begin();
    let (mut far, mut near) = futures_block_on(runtime.handle.spawn(pair())).unwrap();
    runtime.end();
    let writer = std::thread::spawn(move || {
        for round in 0..300_u32 {
            let mut answer = [0; 4];
            futures_block_on(async {
                far.write_all(&round.to_ne_bytes()).await.unwrap();
                far.read_exact(&mut answer).await.unwrap();
            });
            assert_eq!(answer, round.to_ne_bytes());
        }
    });
    for _ in 0..300 {
        futures_block_on(async {
            let mut bytes = [0; 4];
            near.read_exact(&mut bytes).await.unwrap();
            near.write_all(&bytes).await.unwrap();
        });
    }
    writer.join().unwrap();
}

/// A runtime whose builder did not enable I/O has no descriptors: the driver thread polls.
#[test]
fn a_runtime_without_io_is_served_by_the_driver_thread() {
    let runtime = Apart::begin();
    let (mut far, mut near) = futures_block_on(runtime.handle.spawn(pair())).unwrap();
    runtime.end();
    let echo = std::thread::spawn(move || {
        futures_block_on(async {
            let mut bytes = [0; 4];
            while far.read_exact(&mut bytes).await.is_ok() {
                far.write_all(&bytes).await.unwrap();
            }
        });
    });
    let without_io = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    without_io.block_on(async {
        for round in 0..300_u32 {
            let mut answer = [0; 4];
            near.write_all(&round.to_ne_bytes()).await.unwrap();
            let read = timeout(LONG, near.read_exact(&mut answer)).await;
            read.expect("an answer").unwrap();
            assert_eq!(answer, round.to_ne_bytes());
        }
        drop(near);
    });
    echo.join().unwrap();
}

/// The driver thread wakes tasks outside of runtimes: a waker of the program that panics does
/// not end it.
#[test]
fn a_waker_that_panics_keeps_no_other_task_waiting() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let runtime = Apart::begin();
    let ends = async { [pair_of_process().await, pair_of_process().await] };
    let [(mut far, mut near), (mut other, mut writer)] =
        futures_block_on(runtime.handle.spawn(ends)).unwrap();
    runtime.end();
    let waker = Arc::new(Panics).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut byte = [0];
    let mut read = pin!(far.read(&mut byte));
    assert!(read.as_mut().poll(&mut context).is_pending());
    futures_block_on(near.write_all(b"!")).unwrap();
    let (done, reads) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..100 {
            futures_block_on(other.read_u8()).unwrap();
            done.send(()).unwrap();
        }
    });
    for round in 0..100 {
        futures_block_on(writer.write_all(b"!")).unwrap();
        let read = reads.recv_timeout(LONG);
        assert!(read.is_ok(), "read {round} was never woken");
    }
}

/// Tasks that wait for the same stream at the same time are all woken; one that gave up waits
/// no more.
#[tokio::test]
async fn all_tasks_that_wait_for_a_stream_are_woken() {
    let (far, mut near) = pair().await;
    let far = Arc::new(far);
    let mut waiting = JoinSet::new();
    for _ in 0..5 {
        let far = far.clone();
        waiting.spawn(async move { far.readable().await });
    }
    assert!(timeout(SHORT, far.readable()).await.is_err(), "nothing yet");
    near.write_all(b"!").await.unwrap();
    while let Some(woken) = timeout(LONG, waiting.join_next()).await.unwrap() {
        woken.unwrap().unwrap();
    }
}

/// A task polls for readability, another reads a part: the first is woken by what is left.
#[tokio::test]
async fn what_one_task_leaves_wakes_another() {
    for _ in 0..200 {
        let (far, mut near) = pair_of_process().await;
        let far = Arc::new(far);
        let other = far.clone();
        let waits = tokio::spawn(async move { other.readable().await });
        tokio::task::yield_now().await;
        near.write_all(b"two").await.unwrap();
        let mut first = [0; 1];
        while far.try_read(&mut first).is_err() {}
        timeout(LONG, waits)
            .await
            .expect("it is woken")
            .unwrap()
            .unwrap();
    }
}

/// Both ends on stacks that other connections of this test use as well.
async fn pair_of_process() -> (SmcStream, SmcStream) {
    use std::sync::OnceLock;
    static STACKS: OnceLock<[Stack; 2]> = OnceLock::new();
    let [server, client] = STACKS.get_or_init(|| [(); 2].map(|()| stack()));
    let listener = SmcListener::bind_on(server, "127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) =
        tokio::join!(SmcStream::connect_on(client, address), listener.accept());
    (accepted.unwrap().0, client.unwrap())
}

/// The task of a runtime keeps neither the stack nor a descriptor of it.
#[tokio::test]
async fn a_stack_ends_although_its_runtime_goes_on() {
    let stacks = [stack(), stack()];
    let [server, client] = &stacks;
    let listener = SmcListener::bind_on(server, "127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, accepted) = tokio::join!(SmcStream::connect_on(client, address), listener.accept());
    let (mut near, (mut far, _)) = (near.unwrap(), accepted.unwrap());
    near.write_all(b"!").await.unwrap();
    far.read_exact(&mut [0; 1]).await.unwrap();
    drop((near, far, listener));
    for stack in stacks {
        let ended = tokio::task::spawn_blocking(move || stack.end(LONG));
        assert!(timeout(LONG, ended).await.unwrap().unwrap());
    }
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

/// Sockets of which options are set before they listen and connect.
#[tokio::test]
async fn sockets_listen_and_connect() {
    let socket = SmcSocket::new_v4_on(&stack()).unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(16).unwrap();
    listener.set_ttl(17).unwrap();
    assert_eq!(listener.ttl().unwrap(), 17);
    let address = listener.local_addr().unwrap();
    let socket = SmcSocket::new_v4_on(&stack()).unwrap();
    let (client, accepted) = tokio::join!(socket.connect(address), listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), accepted.unwrap());
    assert!(client.carrier().is_smc(), "{}", client.carrier());
    client.write_all(b"!").await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'!');
}

/// A task peeks and leaves what wakes another one.
#[tokio::test]
async fn what_one_task_peeks_at_wakes_another() {
    for round in 0..200 {
        let (far, mut near) = pair_of_process().await;
        let far = Arc::new(far);
        let other = far.clone();
        let waits = tokio::spawn(async move { other.readable().await });
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        near.write_all(b"two").await.unwrap();
        let mut first = [0; 1];
        while polled(1, far.peek(&mut first)).await.is_none() {
            // The runtime has one thread: only so does it poll for the stream.
            tokio::task::yield_now().await;
        }
        let woken = timeout(LONG, waits).await.expect("it is woken");
        woken.unwrap().unwrap();
    }
}

/// The future of `block_on` polls for itself while it waits to write: what arrives then is of a
/// task that reads.
#[test]
fn a_root_that_waits_to_write_takes_nothing_from_a_task_that_reads() {
    const ROUNDS: u32 = 30_000;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (far, mut near) = pair().await;
        while far.try_write(&[0; 65_536]).is_ok() {}
        let (mut reads, mut writes) = far.into_split();
        let (ack, mut acks) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while reads.read_u8().await.is_ok() {
                ack.send(()).unwrap();
            }
        });
        let peer = tokio::spawn(async move {
            for round in 0..ROUNDS {
                near.write_all(b"!").await.unwrap();
                let read = timeout(LONG, acks.recv()).await;
                read.unwrap_or_else(|_| panic!("round {round} was never read"));
            }
            near
        });
        while !peer.is_finished() {
            std::future::poll_fn(|context| {
                let _ = std::pin::Pin::new(&mut writes).poll_write(context, b"no room");
                Poll::Ready(())
            })
            .await;
        }
        peer.await.unwrap();
    });
}

/// The future of `block_on` polls for itself while it waits for an answer: what it only peeks at
/// then is for the task that waits to read, too.
#[test]
fn what_a_root_peeks_at_while_it_polls_wakes_a_task() {
    use std::io::{Read, Write};

    const ROUNDS: u32 = 2_000;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (listener, address) = listener().await;
        let peer = std::thread::spawn(move || {
            let mut near = smc_sockets::SmcStream::connect_on(&stack(), address).unwrap();
            let mut byte = [0; 1];
            while near.read(&mut byte).unwrap() > 0 {
                near.write_all(&byte).unwrap();
            }
        });
        let far = Arc::new(listener.accept().await.unwrap().0);
        let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
        for round in 0..ROUNDS {
            let waits = tokio::spawn({
                let (far, begins) = (far.clone(), begins.clone());
                async move {
                    let mut ready = std::pin::pin!(far.readable());
                    std::future::poll_fn(|context| {
                        let polled = ready.as_mut().poll(context);
                        let _ = begins.send(());
                        polled
                    })
                    .await
                }
            });
            begun.recv().await.unwrap();
            assert_eq!(far.try_write(b"?").unwrap(), 1);
            let mut byte = [0; 1];
            let mut into = tokio::io::ReadBuf::new(&mut byte);
            let peeked = std::future::poll_fn(|context| far.poll_peek(context, &mut into));
            peeked.await.unwrap();
            let woken = timeout(LONG, waits).await;
            let woken = woken.unwrap_or_else(|_| panic!("round {round} wakes no task"));
            woken.unwrap().unwrap();
            assert_eq!(far.try_read(&mut [0; 1]).unwrap(), 1);
            while begun.try_recv().is_ok() {}
        }
        drop(far);
        tokio::task::spawn_blocking(|| peer.join().unwrap())
            .await
            .unwrap();
    });
}
