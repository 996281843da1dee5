//! One SMC stack of this process.

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use smc_transport_ism::shared::Gids;
use smc_transport_ism::shared::pairing::{self, PairingTimeouts};

use crate::carrier::{Cause, WhyTcp};
use crate::driver;
use crate::policy::{Policy, Transport};
use crate::process::{PerProcess, Process};
use crate::rnics::Rnics;
use crate::shard::Shard;
use crate::system;
use crate::tcp_option::Marks;
use crate::waiting::until_holds;

/// What may be chosen of a [`Stack`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Most SMC connections at a time; further ones are plain TCP.
    pub connections: usize,
    /// Bytes of memory of each connection that the peer writes to: a power of two from
    /// 16 KiB to 1 MiB, to which other numbers are raised or cut. If not given, 1 MiB over
    /// shared memory, of which a page is taken when something is first written to it, and
    /// 256 KiB over RDMA, which locks all of it. Where the policy limits memory it is
    /// 256 KiB over both, so that more connections find room.
    pub buffer: Option<u32>,
    /// How long to wait for the other process while a connection begins: on a machine
    /// with little time to spare, longer timeouts make more connections SMC.
    /// The policy's `pairing-grace` comes before [`PairingTimeouts::grace`].
    pub pairing_timeouts: PairingTimeouts,
    /// Longest that a thread which waits for a stream polls memory before it sleeps: a wake
    /// costs more than a poll, and polling occupies a core. It polls only as long as that
    /// has paid lately, and not at all on a machine with one core.
    pub spin: Duration,
    /// Which connections may use SMC, and what it may use. By default everything is
    /// permitted; [`Policy::find`] takes it from where policies lie.
    pub policy: Policy,
    /// The map of SMC's TCP option, if another process attached it and handed it on: with
    /// it, this process needs no right.
    pub marks: Option<Arc<Marks>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 2048,
            buffer: None,
            pairing_timeouts: PairingTimeouts::default(),
            spin: Duration::from_micros(100),
            policy: Policy::default(),
            marks: None,
        }
    }
}

/// One SMC stack: an engine, its device of shared memory, [RNICs](Rnics) if there are any,
/// and a thread that waits for what no other thread waits for. Listeners and streams keep it; a
/// clone is the same.
///
/// Most programs need only the one that [`SmcStream::connect`](crate::SmcStream::connect)
/// and [`SmcListener::bind`](crate::SmcListener::bind) use. A program may connect to a
/// listener of the same stack: shared memory carries such a connection, too, between this stack
/// and a second one that is opened for it.
///
/// In a child made by `fork`, a stack of the parent begins anew when it is first used: with the
/// same settings, and without the parent's connections.
#[derive(Clone)]
pub struct Stack {
    handle: Arc<Handle>,
}

/// Ends with the last listener, stream and stack.
struct Handle {
    shard: Arc<Shard>,
    end: Arc<End>,
    /// The process that opened it, which has the driver.
    process: Process,
    /// How to open another one in a child, unless the program brought the RNICs.
    settings: Option<Settings>,
    thread: Thread,
    /// The one of a child.
    renewed: PerProcess<Stack>,
    /// Connects to the listeners of this one.
    opposite: OnceLock<Stack>,
}

/// Whether the driver has started.
#[derive(Default)]
struct Thread(Mutex<bool>);

/// Whether the driver has ended.
#[derive(Default)]
struct End {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The parent's driver goes on with it, and its devices are not to be closed here.
            std::mem::forget(self.shard.clone());
            return;
        }
        // Without the endpoint's lock: the last handle may be dropped by a thread that holds it, with
        // an accepted connection that the program has given up.
        self.shard.abandon();
        if !*self.thread.lock() {
            // There is no driver, and no connection.
            self.end.notify();
        }
    }
}

impl Thread {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl End {
    fn notify(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Whether it came within this time.
    fn wait(&self, timeout: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(over, timeout, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Stack {
    /// A stack with the default settings.
    ///
    /// # Errors
    /// The operating system's: no thread, descriptor or memory is left.
    pub fn open() -> io::Result<Self> {
        Self::with(Settings::default())
    }

    /// A stack with these settings.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn with(settings: Settings) -> io::Result<Self> {
        let stack = Self::with_late_thread(settings)?;
        stack.start()?;
        Ok(stack)
    }

    /// A stack with these settings whose thread starts when it is first needed, by a listener, an
    /// event loop or a connection that may be SMC. Functions of the C library are faster in a
    /// process with one thread, which a program stays that meets no peer.
    ///
    /// Where no thread can be made, what needs it fails.
    ///
    /// # Errors
    /// The operating system's: no descriptor or memory is left.
    pub fn with_late_thread(settings: Settings) -> io::Result<Self> {
        let rnics = match settings.policy.transport(Transport::Verbs) {
            Ok(()) => Rnics::of_host_with(settings.policy.pnet.clone()),
            Err(rule) => Err(io::Error::other(format!("the policy: {rule}"))),
        };
        let again = Some(settings.clone());
        Self::over(settings, rnics, again)
    }

    /// A stack with these settings that uses these RNICs besides shared memory.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn with_rnics(settings: Settings, rnics: Rnics) -> io::Result<Self> {
        let stack = Self::over(settings, Ok(rnics), None)?;
        stack.start()?;
        Ok(stack)
    }

    fn over(
        settings: Settings,
        rnics: io::Result<Rnics>,
        again: Option<Settings>,
    ) -> io::Result<Self> {
        let shard = Shard::new(settings, rnics)?;
        // Before the driver: the table of a process with one thread grows without a wait.
        let _ = system::reserve_descriptors(&shard.poller);
        Ok(Self {
            handle: Arc::new(Handle {
                shard,
                end: Arc::default(),
                thread: Thread::default(),
                process: Process::current(),
                settings: again,
                renewed: PerProcess::new(),
                opposite: OnceLock::new(),
            }),
        })
    }

    /// Starts the thread, unless it has started. Of a stack of this process.
    ///
    /// # Errors
    /// [`io::ErrorKind::QuotaExceeded`]: no thread is left. The next call tries again.
    pub(crate) fn start(&self) -> io::Result<()> {
        let handle = &self.handle;
        let mut has_started = handle.thread.lock();
        if *has_started {
            return Ok(());
        }
        let (driven, ended) = (handle.shard.clone(), handle.end.clone());
        let thread = std::thread::Builder::new().name("smc-driver".into());
        let thread = smc_transport_ism::descriptors::spawn(thread, move || {
            driver::run(&driven);
            // The devices go before any thread is notified.
            drop(driven);
            ended.notify();
        });
        thread.map_err(no_thread)?;
        *has_started = true;
        Ok(())
    }

    /// The stack of [`Self::idle`], with its thread.
    ///
    /// # Errors
    /// Errors of [`Self::idle`] and [`Self::start`].
    pub(crate) fn current(&self) -> io::Result<Self> {
        let stack = self.idle()?;
        stack.start()?;
        Ok(stack)
    }

    /// The stack itself, or in a child that was forked since it was opened another one with
    /// the same settings. Its thread may not have started yet.
    ///
    /// # Errors
    /// Errors of [`Self::with_late_thread`], and [`io::ErrorKind::Unsupported`] in a child if the
    /// program brought the RNICs.
    pub(crate) fn idle(&self) -> io::Result<Self> {
        let handle = &self.handle;
        if handle.process.is_current() {
            return Ok(self.clone());
        }
        let renewed = handle.renewed.get_or_make(|| match &handle.settings {
            Some(settings) => {
                // Listeners of the parent have asked for the option by its marks.
                let mut settings = settings.clone();
                if let Some(marks) = handle.shard.opt_in.shared_marks()? {
                    settings.marks = Some(marks);
                }
                Self::with_late_thread(settings)
            }
            None => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the RNICs of this stack stay with the process that opened it",
            )),
        });
        renewed.cloned()
    }

    /// The stack that connects to this address: another one if this one listens there, as a
    /// device has no channel to itself.
    ///
    /// # Errors
    /// Errors of [`Self::current`].
    pub(crate) fn toward(&self, to: SocketAddr) -> io::Result<Self> {
        let stack = self.idle_toward(to)?;
        stack.start()?;
        Ok(stack)
    }

    /// The stack of [`Self::toward`], whose thread may not have started yet.
    ///
    /// # Errors
    /// Errors of [`Self::idle`].
    pub(crate) fn idle_toward(&self, to: SocketAddr) -> io::Result<Self> {
        let stack = self.idle()?;
        let handle = &stack.handle;
        let (shard, settings) = (&handle.shard, handle.settings.as_ref());
        let Some(settings) = settings.filter(|_| shard.pairs && shard.listens_at(to)) else {
            return Ok(stack);
        };
        if let Some(opposite) = handle.opposite.get() {
            return Ok(opposite.clone());
        }
        let none = Err(io::ErrorKind::Unsupported.into());
        // Without one, the connection is TCP.
        let Ok(opened) = Self::over(settings.clone(), none, Some(settings.clone())) else {
            return Ok(stack);
        };
        Ok(handle.opposite.get_or_init(|| opened).clone())
    }

    /// Whether this stack, or the one that connects to its own listeners, has this endpoint.
    pub(crate) fn has(&self, shard: &Arc<Shard>) -> bool {
        let opposite = self.handle.opposite.get();
        Arc::ptr_eq(shard, self.shard()) || opposite.is_some_and(|at| at.has(shard))
    }

    /// Gives this handle of the stack up, and waits until nothing is left to do for
    /// connections whose streams were dropped, and peers know that their links go; so long
    /// at most. Whether that came to pass: it cannot while another handle, a listener or a
    /// stream keeps the stack.
    ///
    /// Without it, what is on the way over RNICs when the process ends may not arrive, and
    /// peers find out about the links by themselves.
    #[must_use]
    pub fn end(self, timeout: Duration) -> bool {
        if !self.handle.process.is_current() {
            // The parent sees to its connections.
            let renewed = self.handle.renewed.get().cloned();
            return renewed.is_none_or(|renewed| {
                drop(self);
                renewed.end(timeout)
            });
        }
        let end = self.handle.end.clone();
        drop(self);
        end.wait(timeout)
    }

    /// Waits until the RNICs of peers have everything that streams of this stack have written, and
    /// the ends of those that were closed, dropped or not; so long at most. Returns whether they
    /// have. What is written while it waits counts as well.
    ///
    /// What a process has written over RNICs goes with it when it ends, as far as it was not sent: a
    /// program that writes and ends at once calls this before. Over shared memory, and over TCP,
    /// there is nothing to wait for.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        let handle = &self.handle;
        if !handle.process.is_current() {
            let renewed = handle.renewed.get();
            return renewed.is_none_or(|renewed| renewed.flush(timeout));
        }
        let until = Instant::now().checked_add(timeout);
        let opposite = handle.opposite.get().map(|stack| stack.shard());
        let shards = [Some(self.shard()), opposite];
        let mut shards = shards.into_iter().flatten();
        shards.all(|shard| until_holds(until, || !shard.lock().is_sending(shard)))
    }

    /// The stack of this process, opened when it is first asked for, with the policy that
    /// [`Policy::find`] finds. A mistake in a policy file that nothing named is written to the
    /// standard error, and every connection is TCP.
    ///
    /// # Errors
    /// Errors of [`Self::open`], and [`io::ErrorKind::InvalidData`] for a mistake in the policy file
    /// that `SMC_POLICY` names.
    pub fn of_process() -> io::Result<Self> {
        static OF_PROCESS: PerProcess<Stack> = PerProcess::new();
        if let Some(stack) = OF_PROCESS.get() {
            return Ok(stack.clone());
        }
        let policy = Policy::find()?;
        if let Some(warning) = policy.warning() {
            // Without a standard error, the streams still name the reason.
            let _ = writeln!(
                io::stderr(),
                "smc-sockets: policy: {warning}; every connection is TCP"
            );
        }
        let settings = Settings {
            policy,
            ..Settings::default()
        };
        OF_PROCESS.get_or_make(|| Self::with(settings)).cloned()
    }

    /// Whether there are RNICs that may carry its connections.
    ///
    /// # Errors
    /// Why not, in a sentence.
    pub fn rdma(&self) -> Result<(), &str> {
        self.shard().without_rnics.as_deref().map_or(Ok(()), Err)
    }

    /// Whether connections with processes of this host may go through shared memory, as far as
    /// this side is concerned.
    ///
    /// # Errors
    /// Why not: the user of this process, or a limit of it.
    pub fn shared_memory(&self) -> Result<(), WhyTcp> {
        let cause = match pairing::own_user() {
            Err(uid) => Cause::UnknownUser(uid),
            Ok(_) => match self.shard().memory_limit() {
                Some(limit) => Cause::Limit(limit),
                None => return Ok(()),
            },
        };
        Err(WhyTcp::here(cause))
    }

    /// Whether another process has opened it, from which this one was forked.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.handle.process.is_current()
    }

    /// How processes of this host call it, if shared memory is to be used.
    pub(crate) fn gids(&self) -> Option<Gids> {
        let gids = || self.shard().lock().transports.ism.device().gids();
        let pairs = self.shard().pairs && self.shard().memory_limit().is_none();
        pairs.then(gids)
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.handle.shard
    }
}

/// The error of a thread for which there is no room. The system's is [`io::ErrorKind::WouldBlock`],
/// on which programs wait and call again.
fn no_thread(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::QuotaExceeded, error),
        _ => error,
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_ends_whether_its_thread_has_started_or_not() {
        let timeout = Duration::from_secs(10);
        let late = || Stack::with_late_thread(Settings::default()).unwrap();
        let idle = late();
        assert!(!*idle.handle.thread.lock());
        let shard = Arc::downgrade(idle.shard());
        assert!(idle.end(timeout));
        assert!(shard.upgrade().is_none(), "its descriptors and memory stay");
        let begun = late().current().unwrap();
        assert!(*begun.handle.thread.lock());
        begun.start().unwrap();
        assert!(begun.end(timeout));
        assert!(*Stack::open().unwrap().handle.thread.lock());
    }
}
