//! When the device is parked, and by which thread.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::{SmcListener, SmcStream, Stack};

/// Whether the peers have to wake the device.
fn is_parked(stack: &Stack) -> bool {
    let state = stack.shard().lock();
    state.transports.ism.device().is_parked()
}

/// A device that is awake without need is parked by the driver, which its timer wakes: no
/// thread of the program has to do anything.
#[test]
fn a_device_that_falls_idle_is_parked_by_the_driver() {
    let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut near = SmcStream::connect_on(&client, address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc(), "{}", near.carrier());
    near.set_nonblocking(true).unwrap();
    let mut was_awake = false;
    for _ in 0..20 {
        far.write_all(b"there").unwrap();
        near.write_all(b"and back").unwrap();
        let mut read = 0;
        while read < 5 {
            read += near.read(&mut [0; 5]).unwrap_or(0);
        }
        far.read_exact(&mut [0; 8]).unwrap();
        // A read in vain polls the device, which stays awake.
        assert!(near.read(&mut [0; 5]).is_err());
        was_awake |= !is_parked(&client);
        let end = Instant::now() + Duration::from_secs(2);
        while !is_parked(&client) {
            assert!(Instant::now() < end, "it stays awake");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(was_awake, "nothing was to be parked");
}

/// While a connection is negotiated everything that happens to it is awaited at once; from
/// then on, what its stream asks for.
#[test]
fn nothing_is_urgent_once_a_connection_is_decided() {
    let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = SmcStream::connect_on(&client, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc() && far.carrier().is_smc());
    let is_urgent = |stack: &Stack| stack.shard().lock().polling.is_urgent();
    assert_eq!([&server, &client].map(is_urgent), [false; 2]);
    // The ends of both are awaited at once, and then nothing any more.
    drop((near, far));
    let end = Instant::now() + Duration::from_secs(5);
    while [&server, &client].map(is_urgent) != [false; 2] {
        assert!(Instant::now() < end, "something is still awaited");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An idle link group ends after a while: nothing but the timer can wake the driver for
/// that.
#[test]
fn the_timer_of_an_idle_driver_is_set_for_the_engines_next_deadline() {
    let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = SmcStream::connect_on(&client, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc() && far.carrier().is_smc());
    drop((near, far));
    let is_set = |stack: &Stack| {
        let mut state = stack.shard().lock();
        let deadline = state.engine.poll_timeout();
        let parked = state.transports.ism.device().is_parked();
        parked && deadline.is_some_and(|at| state.armed.is_some_and(|armed| armed <= at))
    };
    let end = Instant::now() + Duration::from_secs(5);
    while !is_set(&server) || !is_set(&client) {
        assert!(Instant::now() < end, "no timer for the deadline");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that polls keeps the device awake although a loop sleeps, and passes on what came
/// for that; so does the driver if the thread does not come back.
#[test]
fn a_thread_polls_for_a_loop_that_sleeps() {
    const LONG: Duration = Duration::from_secs(20);
    let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connection = || {
        let near = SmcStream::connect_on(&client, address).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc() && far.carrier().is_smc());
        (near, far)
    };
    let ((mut near, mut far), (of_loop, mut writer)) = (connection(), connection());
    of_loop.set_nonblocking(true).unwrap();
    let mut events = crate::EventLoop::new(&client).unwrap();
    events.register(&of_loop, 7).unwrap();
    let mut was_awake = false;
    for round in 0..100 {
        let mut ready = Vec::new();
        while events.wait().unwrap() == crate::Wait::Poll {
            events.drive(&mut ready).unwrap();
        }
        ready.clear();
        for _ in 0..3 {
            far.write_all(b"!").unwrap();
            near.read_exact(&mut [0; 1]).unwrap();
            was_awake |= !is_parked(&client);
        }
        writer.write_all(b"!").unwrap();
        if round % 2 == 0 {
            far.write_all(b"!").unwrap();
            near.read_exact(&mut [0; 1]).unwrap();
        }
        let mut polled = [PollFd::new(&events, PollFlags::IN)];
        let time = rustix::time::Timespec::try_from(LONG).unwrap();
        assert_eq!(
            rustix::event::poll(&mut polled, Some(&time)),
            Ok(1),
            "round {round}"
        );
        let end = Instant::now() + LONG;
        while ready.is_empty() {
            assert!(Instant::now() < end, "round {round}");
            events.drive(&mut ready).unwrap();
        }
        assert_eq!(ready[0].token, 7);
        assert_eq!((&of_loop).read(&mut [0; 8]).unwrap(), 1);
    }
    assert!(was_awake, "each read parked the device");
}

#[test]
fn a_loop_that_decides_twice_to_sleep_is_counted_once() {
    let stack = Stack::open().unwrap();
    let mut events = crate::EventLoop::new(&stack).unwrap();
    for _ in 0..3 {
        while events.wait().unwrap() == crate::Wait::Poll {
            events.drive(&mut Vec::new()).unwrap();
        }
    }
    drop(events);
    let state = stack.shard().lock();
    assert_eq!(state.polling.parked_loops, 0);
}
