//! Flags of single calls, signals, and streams that become descriptors; over SMC and over TCP.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{pair, stack};
use smc_sockets::{CallFlags, SmcListener, SmcStream};

const LONG: Duration = Duration::from_secs(20);

/// Both ends of a connection that TCP carries, as the client knows nothing of SMC.
fn tcp_pair() -> (SmcStream, TcpStream) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = SmcListener::on(&stack(), tcp).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    assert!(!server.carrier().is_smc());
    (server, client)
}

fn flags_hold_for_one_call(mut this: SmcStream, mut peer: impl Read + Write + Send + 'static) {
    let (now, peek) = (CallFlags::new().nonblocking(), CallFlags::new().peek());
    let mut bytes = [0; 8];
    // The stream waits, these calls do not.
    for flags in [now, now.peek()] {
        let error = this.read_with(&mut bytes, flags).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    peer.write_all(b"abc").unwrap();
    assert_eq!(this.read_with(&mut bytes, peek).unwrap(), 3);
    assert_eq!(this.read_with(&mut bytes[..2], peek).unwrap(), 2);
    assert_eq!(&bytes[..3], b"abc");
    assert_eq!(this.read_with(&mut bytes[..1], now).unwrap(), 1);
    assert_eq!(this.read_with(&mut bytes, CallFlags::new()).unwrap(), 2);
    assert_eq!(&bytes[..2], b"bc");

    let error = this.write_with(b"?", peek).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let (chunk, mut written) = ([7; 65_536], 0);
    let full = loop {
        match this.write_with(&chunk, now) {
            Ok(len) => written += len,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    let mut received = vec![0; written];
    peer.read_exact(&mut received).unwrap();
    assert!(received.iter().all(|byte| *byte == 7));
    // Meanwhile the stream still waits.
    let answers = std::thread::spawn(move || {
        peer.write_all(b"later").unwrap();
        peer
    });
    this.read_exact(&mut bytes[..5]).unwrap();
    assert_eq!(&bytes[..5], b"later");
    answers.join().unwrap();
}

#[test]
fn flags_hold_for_one_call_over_smc() {
    let (this, peer) = pair();
    flags_hold_for_one_call(this, peer);
}

#[test]
fn flags_hold_for_one_call_over_tcp() {
    let (this, peer) = tcp_pair();
    flags_hold_for_one_call(this, peer);
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Signals come until the thread ends, which it does only if the stream is interruptible.
#[test]
fn a_signal_ends_a_read_that_may_be_interrupted() {
    // SAFETY: all zeros are a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // SAFETY: the handler does nothing but count.
    let installed = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
    assert_eq!(installed, 0, "{}", Error::last_os_error());
    for timeout in [None, Some(LONG)] {
        let (mut this, mut peer) = pair();
        this.set_read_timeout(timeout).unwrap();
        let reads = |mut stream: SmcStream| {
            std::thread::spawn(move || (stream.read(&mut [0; 1]).map_err(|at| at.kind()), stream))
        };
        let signal = |thread: &std::thread::JoinHandle<_>| {
            // SAFETY: it was not joined yet.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
            std::thread::sleep(Duration::from_millis(1));
        };
        let thread = reads(this);
        let before = HANDLED.load(Ordering::Relaxed);
        while HANDLED.load(Ordering::Relaxed) < before + 50 {
            signal(&thread);
        }
        assert!(!thread.is_finished(), "it goes on");
        peer.write_all(b"!").unwrap();
        let outcome;
        (outcome, this) = thread.join().unwrap();
        assert_eq!(outcome, Ok(1));

        this.set_interruptible(true);
        let thread = reads(this);
        let end = Instant::now() + LONG;
        while !thread.is_finished() {
            assert!(Instant::now() < end, "no signal ends it");
            signal(&thread);
        }
        let (outcome, _) = thread.join().unwrap();
        assert_eq!(outcome, Err(ErrorKind::Interrupted));
    }
}

/// What TCP carries is a descriptor like any other; what SMC carries is not.
#[test]
fn a_stream_over_tcp_becomes_a_descriptor() {
    let (this, mut peer) = tcp_pair();
    let tcp = OwnedFd::try_from(this).unwrap();
    peer.write_all(b"plain").unwrap();
    let mut stream = SmcStream::from(tcp);
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"plain");

    let (this, mut peer) = pair();
    let mut this = OwnedFd::try_from(this).unwrap_err();
    peer.write_all(b"smc-d").unwrap();
    this.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"smc-d");
}
