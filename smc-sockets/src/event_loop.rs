//! A program's event loop as the driver of its SMC streams.
//!
//! ```text
//!   loop {
//!       events.wait()      ─► Wait::Sleep: nothing is ready and peers wake the descriptor
//!       epoll_wait(..)        the descriptor of the EventLoop beside all others
//!       events.drive(..)   ─► the streams that are ready, without a system call each
//!   }
//! ```

mod hot;
mod pending;

pub(crate) use hot::{HotPhase, is_crowded};

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::descriptors;
use crate::process::Process;
use crate::shard::{Attachment, Turn};
use crate::stack::Stack;
use crate::stream::SmcStream;
use crate::waiters::{ReadyList, Watch};

/// The data path of a [`Stack`] in an event loop of the program, over epoll, mio, io_uring or
/// anything that waits for a descriptor.
///
/// The loop registers its SMC streams here, and this object's descriptor ([`AsFd`]) with its
/// poller: one for all streams. Before it sleeps it calls [`wait`](Self::wait), afterwards
/// [`drive`](Self::drive), which lists the streams that became ready. While messages are
/// exchanged faster than threads wake up, [`wait`](Self::wait) has the loop take its next turn
/// at once, and neither side makes a system call.
///
/// Readiness is edge-triggered: a stream is listed when something arrived, or when there is
/// room again after a write found none. A program reads until
/// [`WouldBlock`](io::ErrorKind::WouldBlock), or remembers that it did not. Streams have to be
/// [non-blocking](SmcStream::set_nonblocking).
///
/// Streams that TCP carries have a descriptor of their own and are not registered here:
/// [`SmcStream::carrier`] distinguishes them.
///
/// A thread of the stack polls for streams that are not registered with any loop. Each thread
/// of a program may have an `EventLoop` of the same stack.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpListener;
/// use rustix::event::{PollFd, PollFlags, poll};
/// use smc_sockets::{EventLoop, SmcListener, SmcStream, Stack, Wait};
///
/// let server = Stack::open()?;
/// let listener = SmcListener::on(&server, TcpListener::bind("127.0.0.1:0")?)?;
/// let address = listener.local_addr()?;
/// let client = std::thread::spawn(move || -> std::io::Result<[u8; 4]> {
///     let mut stream = SmcStream::connect_on(&Stack::open()?, address)?;
///     stream.write_all(b"ping")?;
///     let mut answer = [0; 4];
///     stream.read_exact(&mut answer)?;
///     Ok(answer)
/// });
///
/// let (mut stream, _) = listener.accept()?;
/// stream.set_nonblocking(true)?;
/// let mut events = EventLoop::new(&server)?;
/// events.register(&stream, 7)?;
/// let (mut ready, mut request) = (Vec::new(), Vec::new());
/// while request.len() < 4 {
///     events.drive(&mut ready)?;
///     for stream_ready in ready.drain(..) {
///         assert_eq!(stream_ready.token, 7);
///         let mut bytes = [0; 64];
///         while let Ok(len @ 1..) = stream.read(&mut bytes) {
///             request.extend_from_slice(&bytes[..len]);
///         }
///     }
///     if request.len() < 4 && events.wait()? == Wait::Sleep {
///         poll(&mut [PollFd::new(&events, PollFlags::IN)], None)?;
///     }
/// }
/// stream.write_all(&request)?;
/// assert_eq!(&client.join().unwrap()?, b"ping");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct EventLoop {
    stack: Stack,
    /// The process that made it.
    process: Process,
    attachment: Attachment,
    ready: Arc<ReadyList>,
    /// Has the descriptor of the device and the event of the list.
    poller: OwnedFd,
    /// The descriptor may have become readable since the last turn.
    slept: bool,
    turns: u32,
}

/// Turns without sleep after which the sockets of peers are read: they bring what is rare.
const TURNS: u32 = 64;

/// A stream that became ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Ready {
    /// The token it was registered with.
    pub token: usize,
    /// Whether there may be bytes to read, or the end of the stream, or an error.
    pub readable: bool,
    /// Whether there may be room to write, or an error.
    pub writable: bool,
}

/// How an event loop goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Calls [`EventLoop::drive`] at once. It should poll its other descriptors, without
    /// waiting for them, every now and then: after some tens of turns.
    Poll,
    /// Sleeps until the descriptor of the [`EventLoop`], or another of the program, is
    /// readable.
    Sleep,
}

impl EventLoop {
    /// An event loop for streams of this stack.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(stack: &Stack) -> io::Result<Self> {
        let stack = stack.current()?;
        let ready = Arc::new(ReadyList::new()?);
        let poller = descriptors::keep(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
        let shard = stack.shard();
        for descriptor in [shard.device(), ready.event()] {
            epoll::add(&poller, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self {
            process: Process::current(),
            attachment: shard.attach(false, false),
            ready,
            poller,
            slept: false,
            turns: 0,
            stack,
        })
    }

    /// Lists a stream under `token` when it becomes ready, from now on: at first at the next
    /// [`drive`](Self::drive), as it may be ready already. Registering it again changes the
    /// token. A stream may be registered with several loops.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if TCP carries the stream, or it is one of another
    /// stack; [`io::ErrorKind::Unsupported`] in a child that has inherited it.
    pub fn register(&self, stream: &SmcStream, token: usize) -> io::Result<()> {
        self.process.check()?;
        let (shard, socket) = stream.socket_of(&self.stack)?;
        let watch = Watch::new(token, self.ready.clone());
        for direction in crate::waiting::Direction::BOTH {
            watch.notify(direction);
        }
        let before = {
            let mut state = shard.lock_for(socket);
            state.set_driven(shard, socket, !Arc::ptr_eq(shard, self.stack.shard()));
            socket.waiters.watch(watch)
        };
        drop(before);
        Ok(())
    }

    /// Lists a stream no more. Dropping the stream does the same.
    ///
    /// # Errors
    /// Errors of [`Self::register`].
    pub fn deregister(&self, stream: &SmcStream) -> io::Result<()> {
        self.process.check()?;
        let (shard, socket) = stream.socket_of(&self.stack)?;
        let before = {
            let mut state = shard.lock_for(socket);
            let (before, watched) = socket.waiters.unwatch(&self.ready);
            if !watched {
                state.set_driven(shard, socket, false);
            }
            before
        };
        drop(before);
        Ok(())
    }

    /// Polls the peers, and adds the streams that became ready to `ready`, each once: how many
    /// there were.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child that was forked from the process that made it.
    pub fn drive(&mut self, ready: &mut Vec<Ready>) -> io::Result<usize> {
        self.process.check()?;
        self.ready.wakes_up();
        self.turns = self.turns.wrapping_add(1);
        let slept = std::mem::replace(&mut self.slept, false);
        self.attachment
            .poll(slept || self.turns.is_multiple_of(TURNS));
        let before = ready.len();
        self.ready.drain(|token, readable, writable| {
            ready.push(Ready {
                token,
                readable,
                writable,
            });
        });
        let listed = ready.len() - before;
        self.attachment.found(listed);
        Ok(listed)
    }

    /// Decides whether the loop sleeps. After [`Wait::Sleep`] every event of a stream makes
    /// the descriptor readable, until [`drive`](Self::drive) is called.
    ///
    /// # Errors
    /// Errors of [`Self::drive`].
    pub fn wait(&mut self) -> io::Result<Wait> {
        self.process.check()?;
        if !self.ready.is_empty() {
            return Ok(Wait::Poll);
        }
        let turn = self.attachment.next(|| 0);
        if turn == Turn::Yield {
            self.attachment.yield_cpu();
        }
        self.slept = matches!(turn, Turn::Parked | Turn::Over) && self.ready.falls_asleep();
        Ok(if self.slept { Wait::Sleep } else { Wait::Poll })
    }

    /// Prepares for other threads that sleep at the descriptor of the loop, before the thread
    /// that has called [`drive`](Self::drive) does something else: as [`wait`](Self::wait), but
    /// without a further turn. If it returns [`Wait::Poll`], streams are ready already, and
    /// another thread has to call `drive`.
    ///
    /// # Errors
    /// Errors of [`Self::drive`].
    pub fn hand_over(&mut self) -> io::Result<Wait> {
        self.process.check()?;
        if !self.ready.is_empty() {
            return Ok(Wait::Poll);
        }
        self.slept = self.attachment.hand_over() && self.ready.falls_asleep();
        Ok(if self.slept { Wait::Sleep } else { Wait::Poll })
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        // In a child, a thread of the parent may have had the lock at the fork.
        if self.process.is_current() {
            self.ready.close();
        }
    }
}

/// Readable when [`EventLoop::drive`] may list a stream; sure to be so only after
/// [`EventLoop::wait`] has returned [`Wait::Sleep`].
impl AsFd for EventLoop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// The descriptor of [`AsFd`].
impl AsRawFd for EventLoop {
    fn as_raw_fd(&self) -> RawFd {
        self.poller.as_raw_fd()
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").finish_non_exhaustive()
    }
}
