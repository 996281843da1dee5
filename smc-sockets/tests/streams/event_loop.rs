//! Programs with an event loop of their own: one descriptor for all streams over SMC.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Random, many_descriptors, octets, pair, settings, stack};
use rustix::event::{PollFd, PollFlags, poll};
use smc_sockets::{EventLoop, Ready, SmcListener, SmcStream, Stack, Wait};

const LONG: Duration = Duration::from_secs(20);

/// An event loop that never polls without being woken.
fn sleepy() -> Stack {
    let mut settings = settings();
    settings.spin = Duration::ZERO;
    Stack::with(settings).unwrap()
}

/// Waits until the loop lists something, at most [`LONG`].
#[track_caller]
fn next(events: &mut EventLoop) -> Vec<Ready> {
    let (mut ready, end) = (Vec::new(), Instant::now() + LONG);
    while ready.is_empty() {
        if events.wait().unwrap() == Wait::Sleep {
            let left = end.saturating_duration_since(Instant::now());
            let left = rustix::time::Timespec::try_from(left).unwrap();
            let woken = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&left)).unwrap();
            assert!(woken > 0, "no stream became ready");
        }
        events.drive(&mut ready).unwrap();
    }
    ready
}

/// Reads until it would wait: the bytes, and how it went on.
fn drain(mut stream: &SmcStream) -> (Vec<u8>, std::io::Result<()>) {
    let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return (all, Ok(())),
            Ok(len) => all.extend_from_slice(&chunk[..len]),
            Err(error) => return (all, Err(error)),
        }
    }
}

fn would_block(outcome: &std::io::Result<()>) -> bool {
    matches!(outcome, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// A connection whose server is on `server` and does not block.
fn connection(server: &Stack, client: &Stack) -> (SmcStream, SmcStream) {
    let listener = SmcListener::bind_on(server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = SmcStream::connect_on(client, address).unwrap();
    let (server, _) = listener.accept().unwrap();
    assert!(server.carrier().is_smc(), "{}", server.carrier());
    server.set_nonblocking(true).unwrap();
    (server, client)
}

#[test]
fn every_byte_of_many_clients_comes_back_over_one_descriptor() {
    const CLIENTS: usize = 40;
    many_descriptors();
    let server = stack();
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let clients = stack();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let stack = clients.clone();
            std::thread::spawn(move || {
                let mut stream = SmcStream::connect_on(&stack, address).unwrap();
                let mut random = Random::new(number as u64);
                let sent = octets(100_000 + number);
                let mut received = vec![0; sent.len()];
                let mut at = 0;
                while at < sent.len() {
                    let len = (1 + random.next() as usize % 9_000).min(sent.len() - at);
                    stream.write_all(&sent[at..at + len]).unwrap();
                    stream.read_exact(&mut received[at..at + len]).unwrap();
                    at += len;
                }
                assert_eq!(received, sent);
            })
        })
        .collect();
    let mut streams: Vec<SmcStream> = (0..CLIENTS).map(|_| listener.accept().unwrap().0).collect();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let mut events = EventLoop::new(&server).unwrap();
    for (token, stream) in streams.iter().enumerate() {
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        stream.set_nonblocking(true).unwrap();
        events.register(stream, token).unwrap();
    }
    // Other tests of this process open and close some.
    assert!(descriptors() < before + CLIENTS / 2, "one for each stream");
    let (mut unsent, mut open) = (vec![Vec::new(); CLIENTS], CLIENTS);
    while open > 0 {
        for ready in next(&mut events) {
            let unsent = &mut unsent[ready.token];
            let (bytes, outcome) = drain(&streams[ready.token]);
            unsent.extend(bytes);
            open -= usize::from(outcome.is_ok());
            while !unsent.is_empty() {
                match streams[ready.token].write(unsent) {
                    Ok(len) => drop(unsent.drain(..len)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
}

/// Whichever side falls asleep at whatever moment: the other wakes it.
#[test]
fn no_wake_up_is_lost_between_two_loops_that_sleep_at_once() {
    const ROUNDS: u32 = 5_000;
    let (server, client) = (sleepy(), sleepy());
    let (far, near) = connection(&server, &client);
    near.set_nonblocking(true).unwrap();
    let echo = std::thread::spawn(move || {
        let mut events = EventLoop::new(&server).unwrap();
        events.register(&far, 0).unwrap();
        loop {
            next(&mut events);
            let (bytes, outcome) = drain(&far);
            (&far).write_all(&bytes).unwrap();
            if outcome.is_ok() {
                return;
            }
        }
    });
    let mut events = EventLoop::new(&client).unwrap();
    events.register(&near, 0).unwrap();
    for round in 0..ROUNDS {
        (&near).write_all(&round.to_ne_bytes()).unwrap();
        let mut answer = Vec::new();
        while answer.len() < 4 {
            next(&mut events);
            answer.extend(drain(&near).0);
        }
        assert_eq!(answer, round.to_ne_bytes());
    }
    near.shutdown(std::net::Shutdown::Write).unwrap();
    echo.join().unwrap();
}

#[test]
fn a_stream_is_listed_when_it_is_registered_and_then_when_something_happens() {
    let (server, client) = (stack(), stack());
    let (far, mut near) = connection(&server, &client);
    let mut events = EventLoop::new(&server).unwrap();
    events.register(&far, 5).unwrap();
    let first = next(&mut events);
    assert_eq!(first.len(), 1);
    assert!(first[0].token == 5 && first[0].readable && first[0].writable);
    assert!(would_block(&drain(&far).1));

    near.write_all(b"one").unwrap();
    assert!(next(&mut events).iter().all(|ready| ready.readable));
    // A second message is listed although the first was not read.
    near.write_all(b", two").unwrap();
    next(&mut events);
    assert_eq!(drain(&far).0, b"one, two");

    events.register(&far, 6).unwrap();
    assert_eq!(next(&mut events)[0].token, 6);
    near.write_all(b"three").unwrap();
    assert_eq!(next(&mut events)[0].token, 6);
    assert_eq!(drain(&far).0, b"three");

    events.deregister(&far).unwrap();
    near.write_all(b"four").unwrap();
    far.set_nonblocking(false).unwrap();
    (&far).read_exact(&mut [0; 4]).unwrap();
    assert_eq!(events.drive(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn room_to_write_is_listed_once_a_write_found_none() {
    let (server, client) = (stack(), stack());
    let (far, near) = connection(&server, &client);
    let mut events = EventLoop::new(&server).unwrap();
    events.register(&far, 0).unwrap();
    next(&mut events);
    let sent = octets(5 << 20);
    let expected = sent.clone();
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; expected.len()];
        (&near).read_exact(&mut received).unwrap();
        assert!(received == expected);
    });
    let mut at = 0;
    while at < sent.len() {
        match (&far).write(&sent[at..]) {
            Ok(len) => at += len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                while !next(&mut events).iter().any(|ready| ready.writable) {}
            }
        }
    }
    reader.join().unwrap();
}

#[test]
fn ends_of_connections_are_listed_while_the_loop_sleeps() {
    let (server, client) = (sleepy(), sleepy());
    let mut events = EventLoop::new(&server).unwrap();
    for abort in [false, true] {
        let (far, near) = connection(&server, &client);
        events.register(&far, 0).unwrap();
        next(&mut events);
        while events.wait().unwrap() == Wait::Poll {
            events.drive(&mut Vec::new()).unwrap();
        }
        if abort {
            near.set_linger(Some(Duration::ZERO)).unwrap();
        }
        drop(near);
        let outcome = loop {
            next(&mut events);
            match drain(&far).1 {
                waits if would_block(&waits) => {}
                outcome => break outcome,
            }
        };
        assert_eq!(outcome.is_err(), abort, "{outcome:?}");
    }
}

/// The driver thread has handed the device to a loop that does not run: connections are made
/// and end all the same, and threads that wait are woken.
#[test]
fn a_loop_that_never_runs_holds_up_nothing_but_its_own_streams() {
    let (server, client) = (stack(), stack());
    let idle = [&server, &client].map(|stack| EventLoop::new(stack).unwrap());
    for round in 0..50_u32 {
        let (far, mut near) = connection(&server, &client);
        far.set_nonblocking(false).unwrap();
        let echo = std::thread::spawn(move || {
            let mut far = far;
            let mut bytes = [0; 4];
            far.read_exact(&mut bytes).unwrap();
            far.write_all(&bytes).unwrap();
            assert_eq!(far.read(&mut bytes).unwrap(), 0);
        });
        near.write_all(&round.to_ne_bytes()).unwrap();
        let mut answer = [0; 4];
        near.read_exact(&mut answer).unwrap();
        assert_eq!(answer, round.to_ne_bytes());
        drop(near);
        echo.join().unwrap();
    }
    drop(idle);
}

#[test]
fn a_loop_that_ends_leaves_its_streams_to_the_driver() {
    let (server, client) = (stack(), stack());
    let (far, mut near) = connection(&server, &client);
    let mut events = EventLoop::new(&server).unwrap();
    events.register(&far, 0).unwrap();
    next(&mut events);
    while events.wait().unwrap() == Wait::Poll {
        events.drive(&mut Vec::new()).unwrap();
    }
    drop(events);
    let long = rustix::time::Timespec::try_from(LONG).unwrap();
    for _ in 0..3 {
        near.write_all(b"there").unwrap();
        let mut polled = [PollFd::new(&far, PollFlags::IN)];
        assert_eq!(
            poll(&mut polled, Some(&long)).unwrap(),
            1,
            "by its descriptor"
        );
        assert_eq!(drain(&far).0, b"there");
    }
}

#[test]
fn two_loops_of_one_stack_list_their_own_streams() {
    let (server, client) = (stack(), stack());
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (far, mut near) = connection(&server, &client);
            let server = server.clone();
            let over = Arc::new(AtomicBool::new(false));
            let ends = over.clone();
            let looping = std::thread::spawn(move || {
                let mut events = EventLoop::new(&server).unwrap();
                events.register(&far, 1).unwrap();
                loop {
                    next(&mut events);
                    let (bytes, outcome) = drain(&far);
                    (&far).write_all(&bytes).unwrap();
                    if outcome.is_ok() {
                        assert!(ends.load(Ordering::Relaxed));
                        return;
                    }
                }
            });
            std::thread::spawn(move || {
                let mut answer = [0; 8];
                for round in 0..2_000_u64 {
                    near.write_all(&round.to_ne_bytes()).unwrap();
                    near.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, round.to_ne_bytes());
                }
                over.store(true, Ordering::Relaxed);
                drop(near);
                looping.join().unwrap();
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn streams_of_tcp_and_of_other_stacks_are_refused() {
    let (far, near) = pair();
    let events = EventLoop::new(&stack()).unwrap();
    let refused = |stream: &SmcStream| {
        let error = events.register(stream, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    };
    refused(&far);
    refused(&near);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    refused(&SmcStream::from(tcp));
}

/// Lets a loop fall asleep, with nothing left that could wake it.
fn fall_asleep(events: &mut EventLoop) {
    loop {
        while events.wait().unwrap() == Wait::Poll {
            events.drive(&mut Vec::new()).unwrap();
        }
        if !is_woken(events, Duration::from_millis(200)) {
            return;
        }
        events.drive(&mut Vec::new()).unwrap();
    }
}

/// Whether the descriptor of a loop becomes readable in this time.
fn is_woken(events: &EventLoop, within: Duration) -> bool {
    let within = rustix::time::Timespec::try_from(within).unwrap();
    poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&within)).unwrap() > 0
}

/// Waits until the end of a stream was seen.
fn read_to_end(mut stream: &SmcStream) {
    let end = Instant::now() + LONG;
    while matches!(stream.read(&mut [0; 1]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
        assert!(Instant::now() < end, "it does not end");
    }
}

/// The event loop is asleep; a read on another thread, which does not wait, polls the device itself.
#[test]
fn a_stream_that_is_not_registered_is_read_while_a_loop_sleeps() {
    let (server, client) = (stack(), stack());
    let (mut far, mut near) = connection(&server, &client);
    let mut events = EventLoop::new(&server).unwrap();
    fall_asleep(&mut events);
    for _ in 0..5 {
        near.write_all(b"there").unwrap();
        let end = Instant::now() + LONG;
        let mut bytes = [0; 5];
        while let Err(error) = far.read(&mut bytes) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(Instant::now() < end, "nothing to read");
        }
        assert_eq!(&bytes, b"there");
    }
}

/// A thread sleeps on the futex words of the peers known so far; a later peer's messages come over
/// a socket, which the loop does not read.
#[test]
fn threads_are_woken_by_a_later_peer_beside_a_loop_that_does_not_run() {
    let (server, first, second) = (stack(), stack(), stack());
    let idle = EventLoop::new(&server).unwrap();
    let (mut one, first) = connection(&server, &first);
    one.set_nonblocking(false).unwrap();
    let leads = std::thread::spawn(move || one.read(&mut [0; 1]).unwrap());
    std::thread::sleep(Duration::from_millis(100));
    let (mut two, mut second) = connection(&server, &second);
    two.set_nonblocking(false).unwrap();
    two.set_read_timeout(Some(LONG)).unwrap();
    let (read, reads) = std::sync::mpsc::channel();
    let waits = std::thread::spawn(move || {
        for _ in 0..5 {
            two.read_exact(&mut [0; 5]).unwrap();
            read.send(()).unwrap();
        }
    });
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(50));
        second.write_all(b"there").unwrap();
        // Well before the time-out, at which a thread polls by itself.
        reads.recv_timeout(LONG / 4).expect("it is woken");
    }
    waits.join().unwrap();
    drop(first);
    assert_eq!(leads.join().unwrap(), 0);
    drop(idle);
}

/// Dropping a stream polls the device: threads that are asleep must be woken afterwards.
#[test]
fn the_drop_of_a_stream_that_has_ended_leaves_a_sleeping_loop_wakeable() {
    let (server, client) = (stack(), stack());
    let (far, mut near) = connection(&server, &client);
    let mut events = EventLoop::new(&server).unwrap();
    events.register(&far, 2).unwrap();
    for _ in 0..3 {
        let (ended, reset) = connection(&server, &client);
        reset.set_linger(Some(Duration::ZERO)).unwrap();
        drop(reset);
        read_to_end(&ended);
        fall_asleep(&mut events);
        drop(ended);
        near.write_all(b"!").unwrap();
        assert!(is_woken(&events, LONG / 4), "it sleeps on");
        events.drive(&mut Vec::new()).unwrap();
        assert!(would_block(&drain(&far).1));
    }
}

#[test]
fn the_drop_of_a_stream_that_has_ended_leaves_a_sleeping_thread_wakeable() {
    let (server, client) = (stack(), stack());
    let (mut far, mut near) = connection(&server, &client);
    far.set_nonblocking(false).unwrap();
    far.set_read_timeout(Some(LONG)).unwrap();
    let (ended, reset) = connection(&server, &client);
    reset.set_linger(Some(Duration::ZERO)).unwrap();
    drop(reset);
    read_to_end(&ended);
    let (read, reads) = std::sync::mpsc::channel();
    let waits = std::thread::spawn(move || {
        far.read_exact(&mut [0; 1]).unwrap();
        read.send(()).unwrap();
    });
    std::thread::sleep(Duration::from_millis(300));
    drop(ended);
    near.write_all(b"!").unwrap();
    reads.recv_timeout(LONG / 4).expect("it is woken");
    waits.join().unwrap();
}

#[test]
fn a_stream_is_listed_no_more_once_it_is_dropped_or_deregistered() {
    let (server, client) = (stack(), stack());
    let (far, mut near) = connection(&server, &client);
    let mut events = EventLoop::new(&server).unwrap();
    let mut ready = Vec::new();
    events.register(&far, 5).unwrap();
    events.deregister(&far).unwrap();
    assert_eq!(events.drive(&mut ready).unwrap(), 0, "it was listed before");
    events.register(&far, 5).unwrap();
    next(&mut events);
    near.write_all(b"unread").unwrap();
    drop(far);
    read_to_end(&near);
    drop(near);
    fall_asleep(&mut events);
    assert_eq!(events.drive(&mut ready).unwrap(), 0, "{ready:?}");
}

/// Another descriptor of the program wakes the loop, which decides again without driving.
#[test]
fn a_loop_that_decides_several_times_to_sleep_leaves_nothing_behind() {
    let (server, client) = (stack(), stack());
    let (mut far, mut near) = connection(&server, &client);
    let mut events = EventLoop::new(&server).unwrap();
    for _ in 0..10 {
        fall_asleep(&mut events);
    }
    drop(events);
    // Without a loop, a read that does not wait finds what was written before.
    for _ in 0..200 {
        near.write_all(b"there").unwrap();
        far.read_exact(&mut [0; 5]).unwrap();
    }
}

/// A program that connects to itself has both ends in one event loop.
#[test]
fn both_ends_of_a_connection_are_in_one_loop() {
    let stack = stack();
    let (far, near) = connection(&stack, &stack);
    near.set_nonblocking(true).unwrap();
    let mut events = EventLoop::new(&stack).unwrap();
    events.register(&far, 0).unwrap();
    events.register(&near, 1).unwrap();
    for round in 0..200_u32 {
        for (from, to, token) in [(&near, &far, 0), (&far, &near, 1)] {
            let (mut from, mut received) = (from, Vec::new());
            from.write_all(&round.to_ne_bytes()).unwrap();
            while received.len() < 4 {
                let ready = next(&mut events);
                if ready.iter().any(|at| at.token == token) {
                    received.extend(drain(to).0);
                }
            }
            assert_eq!(received, round.to_ne_bytes());
        }
    }
    for end in [&far, &near] {
        events.deregister(end).unwrap();
    }
}
