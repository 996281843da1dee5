//! Accepting: which connections of a listener SMC carries.
//!
//! The listening socket stays the kernel's, and is polled and accepted from there by whichever
//! process has it. A connection that its client wants to pair gets an entry; nothing is begun
//! before the program uses it, so that a child that is forked first may do that.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use smc_sockets::{Accepting, Stack};

use super::conn::{Conn, borrowed, lock};
use super::short_waits::ShortWaits;
use super::table::{self, Object};
use super::{config, connecting, defaults, hidden, own_listeners, real, report, stats};

/// How long a call that executes a program waits for the first messages of clients, at most.
const BEFORE_EXEC: Duration = Duration::from_secs(1);

/// Waits for these messages in calls after which the process goes on beside the program.
static BESIDE: ShortWaits = ShortWaits::of(Duration::from_millis(100), 10);

/// The descriptors of the standard streams.
const STREAMS: std::ops::RangeInclusive<i32> = libc::STDIN_FILENO..=libc::STDERR_FILENO;

/// A socket is about to listen: where there are RNICs, clients on other hosts are to see that the server
/// speaks SMC.
pub(crate) fn will_listen(fd: i32) {
    if !config::is_active() || config::is_vforked() || table::has(fd) || !connecting::is_tcp(fd) {
        return;
    }
    if let Some(stack) = config::stack() {
        // Where that fails, clients use TCP.
        let _ = config::inside(|| stack.announce_before_listen(borrowed(fd)));
    }
}

/// A socket has begun to listen, or is accepted from although this process did not see that.
pub(crate) fn listens(fd: i32) {
    table::begins_use(fd);
    if !config::is_active() || table::has(fd) || !connecting::is_tcp(fd) {
        return;
    }
    defaults::is_used(fd);
    if hidden::are_few() {
        // There may be more when it accepts.
        return;
    }
    // Also where nothing comes of it: it is not asked again then.
    table::put(fd, Object::Listener(None));
    if let Some(stack) = config::stack() {
        accept_at_once(fd);
        // What cannot be announced accepts TCP.
        let published = config::inside(|| {
            stack.announce_listener(borrowed(fd)).ok()?;
            stack.publish_listener(borrowed(fd))
        });
        if let Some(published) = published {
            table::put(fd, Object::Listener(Some(Arc::new(published))));
        }
    }
}

/// An undecided client sends no data, for which the kernel would wait (`TCP_DEFER_ACCEPT`).
#[allow(unsafe_code)]
fn accept_at_once(fd: i32) {
    let none = 0_i32;
    // SAFETY: the value is this function's, and as long as it says.
    unsafe {
        real::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const none).cast(),
            4,
        )
    };
}

/// A connection that the program has just accepted.
pub(crate) fn accepted(fd: i32, nonblocking: bool) {
    drop_left();
    if own_listeners::is_client_of(fd) {
        return stats::plain("the client is this process's own", false);
    }
    let Some(stack) = config::stack() else {
        // The listener may have been announced when the process was permitted more descriptors.
        if let Some(stack) = config::opened_stack() {
            config::inside(|| let_go(stack, fd));
        }
        return;
    };
    config::inside(|| {
        let Ok(own) = hidden::duplicate(fd) else {
            let_go(stack, fd);
            return stats::plain(connecting::NO_ROOM, true);
        };
        match stack.accepted(TcpStream::from(own)) {
            Ok(accepting) => Conn::accepting(accepting, nonblocking).add_fd(fd),
            Err(tcp) => count(stack, &tcp),
        }
    });
}

/// Lets the client of a connection go for which there is no descriptor. One that speaks CLC is
/// declined, and its first message dropped. A connection on which that does not come in time is reset.
fn let_go(stack: &Stack, fd: i32) {
    static SHORT_WAITS: ShortWaits = ShortWaits::new(20);
    SHORT_WAITS.wait(|timeout| {
        // What cannot be let go goes on by itself.
        let _ = stack.let_go(borrowed(fd), timeout);
        // In vain or not: a client may send as late as it can.
        true
    });
}

/// Counts a connection that is TCP, for statistics and reports.
fn count(stack: &Stack, tcp: &TcpStream) {
    if !stats::are_kept() {
        return;
    }
    let (Ok(near), Ok(far), Some(policy)) = (tcp.local_addr(), tcp.peer_addr(), config::policy())
    else {
        return;
    };
    match policy.accepting(near.port(), far.ip()) {
        Ok(()) => {
            let is_here = far.ip() == near.ip() || far.ip().to_canonical().is_loopback();
            stats::unasked(stack, is_here, "the client does not use SMC");
        }
        Err(rule) => stats::plain(&rule.to_string(), false),
    }
}

/// Another program takes this process over: connections that nothing was begun of go on there,
/// as TCP; others end, unless they are closed. Clients that speak CLC are declined, and what they have
/// promised is dropped before the program reads.
///
/// A child that executes a program often does so beside a connection that its parent serves (ncat
/// does): one that the child has not as a standard stream is left to the parent.
pub(crate) fn before_exec() {
    config::inside(|| {
        let begin = Instant::now();
        for (fd, conn) in table::conns() {
            if !stays_open(fd) || (!STREAMS.contains(&fd) && conn.is_inherited()) {
                continue;
            }
            conn.give_up(BEFORE_EXEC.saturating_sub(begin.elapsed()));
            if conn.smc().is_some() && !conn.is_inherited() {
                report::refuse("an SMC connection ends when its process executes a program");
            }
        }
    });
}

/// Whether a program that is executed has a descriptor, if it is open.
fn stays_open(fd: i32) -> bool {
    let flags = rustix::io::fcntl_getfd(borrowed(fd));
    !flags.is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC))
}

/// A child that shares the memory of this process, which it has left to run, executes a program. A
/// connection that the child has as a standard stream, and that nothing was begun of, goes on as TCP
/// in the program and in this process.
///
/// The descriptors are the child's own, of which the table knows nothing. The child may be killed: while
/// it waits it has no lock, no connection and no mark of this thread, which would stay here for ever.
pub(crate) fn before_exec_in_shared_memory() {
    if !table::serves_any() {
        return;
    }
    let streams = STREAMS.filter(|fd| stays_open(*fd) && connecting::is_tcp(*fd));
    let cookie_of = |fd| Some((fd, sockopt::socket_cookie(borrowed(fd)).ok()?));
    let streams: Vec<(i32, u64)> = streams.filter_map(cookie_of).collect();
    if streams.is_empty() {
        return;
    }
    let mut late = Vec::new();
    each_undecided(&streams, |conn, fd| {
        if conn.waits_to_let_go() {
            late.push(fd);
        }
    });
    for fd in late {
        BESIDE.wait(|timeout| {
            config::outside(|| Accepting::wait_for_message(borrowed(fd), timeout));
            true
        });
    }
    each_undecided(&streams, |conn, _| conn.let_go());
}

/// Calls a function for each connection of the table that is not decided and that one of these
/// descriptors of a child names, which have the cookies of their sockets.
fn each_undecided(streams: &[(i32, u64)], mut call: impl FnMut(&Conn, i32)) {
    for (_, conn) in table::conns() {
        let cookie = conn.accepted_cookie();
        if let Some((fd, _)) = streams.iter().find(|(_, of)| Some(*of) == cookie) {
            call(&conn, *fd);
        }
        release(conn);
    }
}

/// Connections whose last owner was a child that shares the memory of this process: what the child
/// closed would stay open here.
static LEFT: Mutex<Vec<Conn>> = Mutex::new(Vec::new());
static ARE_LEFT: AtomicBool = AtomicBool::new(false);

/// Gives a connection back in a child that shares the memory of this process, of which another thread
/// may have closed it meanwhile.
fn release(conn: Arc<Conn>) {
    if let Some(conn) = Arc::into_inner(conn) {
        lock(&LEFT).push(conn);
        ARE_LEFT.store(true, Ordering::Release);
    }
}

/// Drops what children have left, in the process whose memory they had.
pub(crate) fn drop_left() {
    if ARE_LEFT.load(Ordering::Acquire) && !config::shares_memory() {
        ARE_LEFT.store(false, Ordering::Release);
        let left = std::mem::take(&mut *lock(&LEFT));
        config::inside(|| drop(left));
    }
}

/// Another process is about to execute a program that gets a descriptor of this one: a connection that
/// nothing was begun of goes on as TCP in both.
pub(crate) fn is_given(fd: i32) {
    if let Some(conn) = table::conn(fd) {
        BESIDE.wait(|timeout| {
            conn.give_up(timeout);
            true
        });
    }
}

/// The C library executes a program beside this process, which has its standard streams.
pub(crate) fn before_spawn() {
    STREAMS.filter(|fd| stays_open(*fd)).for_each(is_given);
}
