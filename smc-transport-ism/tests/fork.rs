//! Children made by `fork`: they are known to be children, and wait for no lock that a thread
//! of the parent may have held.
//!
//! A program of its own: while a child lives, sockets that other tests close stay open.
#![cfg(target_os = "linux")]

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use smc_transport_ism::device::{Gid128, IsmDevice, IsmReport};
use smc_transport_ism::process::{PerProcess, Process, forks};
use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{Answer, Call, Callers, PairingTimeouts, Rendezvous};

const LONG: Duration = Duration::from_secs(20);
const TIMEOUT: PairingTimeouts = PairingTimeouts {
    accept: LONG,
    grace: LONG,
    go: LONG,
};
const GID: Gid128 = Gid128 { gid: 1, ext: 2 };

/// A listener that is called.
struct Server {
    listener: TcpListener,
    rendezvous: Rendezvous,
}

impl Server {
    fn new(callers: &Callers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rendezvous = Rendezvous::open_in(&listener, GID, callers).unwrap();
        Self {
            listener,
            rendezvous,
        }
    }

    /// A client that has called, and is connected.
    fn called(&self) -> (OwnedFd, Call) {
        let to = self.listener.local_addr().unwrap();
        let client = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let call = Call::announce(&client, to, GID, TIMEOUT).unwrap();
        rustix::net::connect(&client, &to).unwrap();
        (client, call.expect("a name to call"))
    }

    fn answer(&mut self, accepted: &TcpStream) -> Option<Answer> {
        self.rendezvous.answer(accepted, |_| false, &TIMEOUT)
    }
}

/// Runs `task` in a child; whether it returned `true`.
fn in_a_child(task: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs the task, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        // SAFETY: it takes a number.
        unsafe { libc::alarm(20) };
        let outcome = catch_unwind(AssertUnwindSafe(task));
        // SAFETY: it ends the process; nothing of the parent's is dropped.
        unsafe { libc::_exit(i32::from(!outcome.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: the kernel writes to a local variable.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "{}", io::Error::last_os_error());
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Runs `task` in a child that is the first process of a PID namespace of its own.
fn as_process_1(task: impl FnOnce() -> bool) -> io::Result<bool> {
    // SAFETY: it concerns children of this process that are made from now on.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(in_a_child(|| std::process::id() == 1 && task()))
}

/// Parent and child are the first process of a PID namespace each, and so have one ID.
//= SHM-061 test
//= SHM-015 test
#[test]
fn a_child_with_the_id_of_its_parent_leaves_the_rendezvous_to_it() {
    if !rustix::process::geteuid().is_root() {
        let check = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!check, "a check needs root, for PID namespaces");
        return eprintln!("SKIPPED: PID namespaces need root");
    }
    // A namespace of its children is for ever: a child of the test process has it.
    assert!(in_a_child(|| as_process_1(|| {
        let mut server = Server::new(&Callers::default());
        let (client, call) = server.called();
        let (accepted, _) = server.listener.accept().unwrap();
        let in_child = as_process_1(|| server.answer(&accepted).is_none());
        // What the child did not take is still there for the parent.
        let answer = server.answer(&accepted);
        drop((client, call));
        in_child.unwrap() && answer.is_some()
    })
    .unwrap()));
}

//= SHM-015 test
#[test]
fn a_child_leaves_the_rendezvous_to_its_parent() {
    let callers = Callers::default();
    let mut server = Server::new(&callers);
    let (client, call) = server.called();
    let (accepted, _) = server.listener.accept().unwrap();
    assert!(in_a_child(|| {
        server.rendezvous.take_calls().unwrap();
        server.answer(&accepted).is_none() && callers.is_empty()
    }));
    // What the child did not take is still there for the parent.
    assert!(server.answer(&accepted).is_some());
    drop((client, call));
}

/// A thread of the parent holds the lock of all calls most of the time.
//= SHM-061 test
#[test]
fn a_child_waits_for_no_lock_of_its_parent_to_drop_a_rendezvous() {
    let callers = Callers::new(100);
    let mut server = Server::new(&callers);
    let calls: Vec<_> = (0..100).map(|_| server.called()).collect();
    server.rendezvous.take_calls().unwrap();
    let mut rendezvous = Some(server.rendezvous);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                callers.sweep();
            }
        });
        let all_end = (0..50).all(|_| {
            in_a_child(|| {
                drop(rendezvous.take());
                true
            })
        });
        over.store(true, Ordering::Relaxed);
        assert!(all_end);
    });
    drop(calls);
}

#[test]
fn every_generation_is_another_process() {
    let parent = Process::current();
    let forks_before = forks();
    assert!(parent.is_current());
    assert!(in_a_child(|| {
        let child = Process::current();
        let apart = !parent.is_current() && child.is_current() && child != parent;
        apart
            && in_a_child(|| {
                let grandchild = Process::current();
                grandchild != parent && grandchild != child && !child.is_current()
            })
    }));
    assert!(parent.is_current() && parent.check().is_ok());
    assert!(forks() > forks_before);
    assert!(in_a_child(|| parent.check().is_err()));
}

#[test]
fn each_process_makes_its_own_value() {
    let value = PerProcess::new();
    assert!(value.get().is_none());
    assert_eq!(value.get_or_make(|| Ok(1)).unwrap(), &1);
    assert!(in_a_child(|| value.get().is_none()
        && value.get_or_make(|| Ok(2)).is_ok_and(|own| *own == 2)
        && value.get() == Some(&2)));
    assert_eq!(value.get_or_make(|| Ok(3)).unwrap(), &1);
    let none = PerProcess::<u8>::new();
    let error = none.get_or_make(|| Err(io::ErrorKind::Other.into()));
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Other);
}

/// The memory of DMBs is shared with children, and so is whatever takes pages out of it.
//= SHM-061 test
#[test]
fn a_child_that_drops_its_devices_leaves_their_memory_to_its_parent() {
    const LEN: u32 = 16384;
    let (mut owner, mut mover) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut owner, &mut mover).unwrap();
    let mut dmbs = Vec::new();
    for _ in 0..3 {
        owner.register_dmb(LEN, mover.facts().gid, None).unwrap();
        let report = owner.wait(Some(LONG)).unwrap();
        let Some(IsmReport::DmbRegistered { dmb, token }) = report else {
            panic!("{report:?}");
        };
        let remote = mover.attach_dmb(owner.facts().gid, token, LEN).unwrap();
        let bytes = [7; LEN as usize - 32];
        mover.move_data(remote, 0, 32, &bytes).unwrap();
        mover.move_cdc(remote, 0, 0, &[9; 32], false).unwrap();
        dmbs.push((dmb, remote));
    }
    // One is still to be read by its owner when the connection has ended.
    mover.detach_dmb(dmbs[1].1).unwrap();
    let mut mover = Some(mover);
    let mut owner = Some(owner);
    assert!(in_a_child(|| {
        let mut mover = mover.take().unwrap();
        mover.discard_dmb(dmbs[2].1).unwrap();
        drop(mover);
        drop(owner.take());
        true
    }));
    let owner = owner.unwrap();
    for (dmb, _) in dmbs {
        let mut bytes = [0; LEN as usize];
        owner.read(dmb, 0, &mut bytes).unwrap();
        assert!(bytes[..32] == [9; 32] && bytes[32..].iter().all(|byte| *byte == 7));
    }
}

/// A lock that is a static may be held, or be in the making, by another thread at a fork. Those
/// whose use lasts for nanoseconds are found by no test that forks.
//= SHM-061 test
#[test]
fn no_static_is_a_lock() {
    fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    sources(&here.join("src"), &mut all);
    sources(&here.join("../smc-sockets/src"), &mut all);
    assert!(all.len() > 100, "{} files", all.len());
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        // Tests make no children that use their statics.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines() {
            let mut words = line.split_whitespace().take(2);
            let is_static = words.any(|word| word == "static");
            let locks = [
                "Mutex", "RwLock", "OnceLock", "LazyLock", "Once<", "Condvar",
            ];
            let is_lock = locks.iter().any(|lock| line.contains(lock));
            assert!(!(is_static && is_lock), "{}: {line}", path.display());
        }
    }
}
