//! Runtimes that end, that have no I/O, that a child inherits, and none at all.

use std::io::ErrorKind;
use std::time::Duration;

use smc_sockets::tokio::{SmcListener, SmcStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::common::{children, stack};
use crate::support::{Apart, LONG, futures_block_on, pair, polled};

/// A child shares the poller of the parent's runtime: what it drops or takes apart, the
/// parent's tasks still wait for.
#[test]
fn what_a_forked_child_drops_the_parents_tasks_still_wait_for() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(SmcListener::bind_on(&stack(), "127.0.0.1:0"));
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let connected = runtime.block_on(async {
        let client = SmcStream::connect_on(&stack(), address).await?;
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
        let connects = tokio::spawn(async move { SmcStream::connect_on(&stack(), address).await });
        let accepted = timeout(LONG, listener.accept()).await;
        let (server, _) = accepted.expect("it is never woken").unwrap();
        assert!(server.carrier().is_smc(), "{}", server.carrier());
        connects.await.unwrap().unwrap();
    });
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
