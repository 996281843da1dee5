//! Children made by `fork`: they are known to be children, and wait for no lock that a thread
//! of the parent may have held.
#![cfg(target_os = "linux")]

use std::io;
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use smc_transport_ism::device::Gid128;
use smc_transport_ism::shared::pairing::{Call, Patience, Rendezvous};

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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let gid = Gid128 { gid: 1, ext: 2 };
        let long = Duration::from_secs(20);
        let patience = Patience {
            accept: long,
            grace: long,
            go: long,
        };
        let mut rendezvous = Rendezvous::open(&listener, gid).unwrap();
        let client = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let call = Call::announce(&client, to, gid, patience).unwrap();
        rustix::net::connect(&client, &to).unwrap();
        let (client, call) = (TcpStream::from(client), call.expect("a name to call"));
        let (accepted, _) = listener.accept().unwrap();
        let in_child = as_process_1(|| {
            let answer = rendezvous.answer(&accepted, |_| false, &patience);
            answer.is_none()
        });
        // What the child did not take is still there for the parent.
        let answer = rendezvous.answer(&accepted, |_| false, &patience);
        drop((client, call));
        in_child.unwrap() && answer.is_some()
    })
    .unwrap()));
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
