//! What carries a stream of tokio: memory that its runtime polls, or a TCP connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use ::tokio::io::{Interest, Ready};
use ::tokio::task::coop;

use super::driver_task::After;
use super::in_place::{Caller, Run, SpinOutcome};
use super::registered::Registered;
use super::runtimes;
use crate::SmcStream;
use crate::stream::Wait;
use crate::waiters::WaiterId;
use crate::waiting::Direction;

/// A stream with what wakes its tasks.
pub(super) enum Transport {
    /// SMC: the endpoint wakes them.
    Smc(OverSmc),
    /// TCP: the descriptor at the runtime does.
    Tcp(Registered<SmcStream>),
}

/// A stream over shared memory or RDMA.
pub(super) struct OverSmc {
    stream: SmcStream,
    /// Whether the last transfer was a write, so that the next read expects a reply of the peer.
    reply_expected: AtomicBool,
    /// Replies that were found in place.
    run: Run,
}

/// How an attempt to poll in place ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InPlaceEnd {
    /// The operation would not wait any more.
    Ready,
    /// Nothing was polled.
    Skipped,
    /// The driver task is to poll.
    Over(After),
}

impl Direction {
    fn interest(self) -> Interest {
        match self {
            Self::Read => Interest::READABLE,
            Self::Write => Interest::WRITABLE,
        }
    }

    pub(super) fn ready(self) -> Ready {
        match self {
            Self::Read => Ready::READABLE,
            Self::Write => Ready::WRITABLE,
        }
    }
}

impl Transport {
    pub(super) fn new(stream: SmcStream) -> io::Result<Self> {
        if stream.carrier().is_smc() {
            stream.set_driven(true);
            return Ok(Self::Smc(OverSmc {
                stream,
                reply_expected: AtomicBool::new(false),
                run: Run::default(),
            }));
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        Registered::new(stream, interest).map(Self::Tcp)
    }

    pub(super) fn get_ref(&self) -> &SmcStream {
        match self {
            Self::Smc(smc) => &smc.stream,
            Self::Tcp(stream) => stream.get_ref(),
        }
    }

    pub(super) fn into_inner(self) -> SmcStream {
        match self {
            Self::Smc(smc) => {
                smc.stream.set_driven(false);
                smc.stream
            }
            Self::Tcp(stream) => stream.into_inner(),
        }
    }

    /// Reads or writes, or has the task woken when it is worth another attempt.
    pub(super) fn poll_io<R>(
        &self,
        context: &mut Context<'_>,
        direction: Direction,
        mut attempt: impl FnMut(&SmcStream) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let smc = match (self, direction) {
            (Self::Smc(smc), _) => smc,
            (Self::Tcp(stream), Direction::Read) => return stream.poll_read(context, attempt),
            (Self::Tcp(stream), Direction::Write) => return stream.poll_write(context, attempt),
        };
        let budget = ready!(coop::poll_proceed(context));
        let (mut in_place, mut vain) = (None, false);
        let stream = &smc.stream;
        loop {
            match smc.attempt(direction, &mut attempt) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => {
                    budget.made_progress();
                    if direction == Direction::Write && outcome.is_ok() {
                        smc.written();
                    }
                    return Poll::Ready(outcome);
                }
            }
            if in_place.is_none() {
                in_place = Some(smc.poll_in_place(direction)?);
                if in_place == Some(InPlaceEnd::Ready) {
                    continue;
                }
            }
            let waits = poll_smc(stream, context, direction, Wait::Polled);
            if waits.is_pending() {
                smc.wait(in_place);
            }
            ready!(waits)?;
            // Ready, and yet the attempt would wait: other tasks go first.
            if std::mem::replace(&mut vain, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Waits until an attempt would not, as a `poll` method.
    pub(super) fn poll_ready(
        &self,
        context: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Smc(OverSmc { stream, .. }) => {
                let budget = ready!(coop::poll_proceed(context));
                let ready = ready!(poll_smc(stream, context, direction, Wait::Polled));
                budget.made_progress();
                Poll::Ready(ready)
            }
            Self::Tcp(stream) => stream.poll_ready(context, direction.interest()),
        }
    }

    /// Waits until an attempt would not.
    pub(super) async fn ready(&self, direction: Direction) -> io::Result<()> {
        let mut waiter = self.waiter(direction);
        poll_fn(|context| waiter.poll(context)).await
    }

    /// A future that waits until an attempt would not.
    pub(super) fn waiter(&self, direction: Direction) -> Waiter<'_> {
        Waiter {
            direction,
            wait: match self {
                Self::Smc(OverSmc { stream, .. }) => Waits::Smc { stream, id: None },
                Self::Tcp(stream) => Waits::Tcp(Box::pin(stream.ready(direction.interest()))),
            },
        }
    }

    /// Attempts until it would not wait any more.
    pub(super) async fn async_io<R>(
        &self,
        direction: Direction,
        mut attempt: impl FnMut(&SmcStream) -> io::Result<R>,
    ) -> io::Result<R> {
        let smc = match self {
            Self::Smc(smc) => smc,
            Self::Tcp(stream) => return stream.async_io(direction.interest(), attempt).await,
        };
        loop {
            match smc.attempt(direction, &mut attempt) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.ready(direction).await?;
        }
    }

    /// Attempts once.
    pub(super) fn try_io<R>(
        &self,
        direction: Direction,
        attempt: impl FnOnce(&SmcStream) -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Self::Smc(smc) => smc.attempt(direction, attempt),
            Self::Tcp(stream) => stream.try_io(direction.interest(), attempt),
        }
    }
}

impl OverSmc {
    /// Attempts once.
    fn attempt<R>(
        &self,
        direction: Direction,
        attempt: impl FnOnce(&SmcStream) -> io::Result<R>,
    ) -> io::Result<R> {
        let outcome = attempt(&self.stream);
        if outcome.is_ok() {
            let due = direction == Direction::Write;
            if self.reply_expected.load(Ordering::Relaxed) != due {
                self.reply_expected.store(due, Ordering::Relaxed);
            }
        }
        outcome
    }

    /// Polls in place for a moment, if that is likely to find something.
    fn poll_in_place(&self, direction: Direction) -> io::Result<InPlaceEnd> {
        let Some(shard) = self.stream.shard()? else {
            return Ok(InPlaceEnd::Ready);
        };
        let expects_reply =
            direction == Direction::Read && self.reply_expected.load(Ordering::Relaxed);
        let in_place = &shard.runtimes.in_place;
        let caller = Caller::current(expects_reply);
        let Some(caller) = caller.filter(|caller| in_place.should_poll(*caller)) else {
            return Ok(InPlaceEnd::Skipped);
        };
        if caller == Caller::Task && self.run.is_over() {
            return Ok(InPlaceEnd::Over(After::Run));
        }
        let Some(outcome) = self.stream.spin(direction, caller == Caller::Task)? else {
            return Ok(InPlaceEnd::Skipped);
        };
        in_place.record(caller, outcome);
        Ok(match (outcome, caller) {
            (SpinOutcome::Ready { after }, Caller::Task) => {
                self.run.add(shard.now(), after);
                InPlaceEnd::Ready
            }
            (SpinOutcome::Ready { .. }, Caller::Root) => InPlaceEnd::Ready,
            (_, Caller::Root) => InPlaceEnd::Skipped,
            (_, Caller::Task) => InPlaceEnd::Over(After::Attempt),
        })
    }

    /// Begins to wait: the driver task goes on polling where the task has polled.
    fn wait(&self, in_place: Option<InPlaceEnd>) {
        self.run.end();
        if let Some(InPlaceEnd::Over(after)) = in_place
            && let Ok(Some(shard)) = self.stream.shard()
        {
            runtimes::take_over(shard, after);
        }
    }

    /// After a write, has the driver task poll if a task waits for the stream already: hyper's
    /// server, for instance, waits for the next request before it writes a response.
    fn written(&self) {
        if !self.stream.is_awaited(Direction::Read) {
            return;
        }
        let Ok(Some(shard)) = self.stream.shard() else {
            return;
        };
        if Caller::current(true) == Some(Caller::Task)
            && shard.runtimes.in_place.should_poll_after_write()
        {
            runtimes::take_over(shard, After::Write);
        }
    }
}

/// Has the task woken when an attempt at a stream over SMC would not wait any more.
fn poll_smc(
    stream: &SmcStream,
    context: &mut Context<'_>,
    direction: Direction,
    wait: Wait<'_>,
) -> Poll<io::Result<()>> {
    let Some(shard) = stream.shard()? else {
        return Poll::Ready(Ok(()));
    };
    let looped = runtimes::ensure(shard);
    match stream.register(shard, direction, context.waker(), wait, looped) {
        true => Poll::Ready(Ok(())),
        false => Poll::Pending,
    }
}

/// A future that waits for a stream beside others.
pub(super) struct Waiter<'a> {
    direction: Direction,
    wait: Waits<'a>,
}

enum Waits<'a> {
    Smc {
        stream: &'a SmcStream,
        id: Option<WaiterId>,
    },
    Tcp(Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>),
}

impl Waiter<'_> {
    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wait {
            Waits::Smc { stream, id } => {
                let budget = ready!(coop::poll_proceed(context));
                let ready = ready!(poll_smc(stream, context, self.direction, Wait::Future(id)));
                budget.made_progress();
                Poll::Ready(ready)
            }
            Waits::Tcp(ready) => ready.as_mut().poll(context),
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Waits::Smc {
            stream,
            id: Some(id),
        } = self.wait
            // In a child, a thread of the parent may have had the lock at the fork.
            && !stream.is_inherited()
        {
            stream.forget_waiter(self.direction, id);
        }
    }
}
