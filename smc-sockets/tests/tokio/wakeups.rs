//! Which tasks are woken, where several of them wait.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::common::stack;
use crate::support::{
    Apart, LONG, SHORT, futures_block_on, listener, pair, pair_of_process, polled,
};

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
