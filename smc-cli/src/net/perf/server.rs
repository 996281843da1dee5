//! `smcx perf --server`.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::stream::{Listener, Stream};
use super::super::{Means, problem};
use super::protocol::{self, Answer, Cookie, Greeting, Request, Until};
use super::report;
use super::work::{Ends, Work};
use crate::cli::{HostPort, PerfArguments, Transport};
use crate::output::{Failure, reason};

/// How long a greeting and a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long the next stream of a test may take to come.
const JOINING: Duration = Duration::from_secs(5);
/// How long all of them may take.
const JOINING_ALL: Duration = Duration::from_secs(30);
/// How long streams may take to end when they should.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// Most connections that have not sent their purpose yet.
const MOST_GREETINGS: u32 = 2 * protocol::MOST_STREAMS as u32 + 16;
/// Failures of accept, one after another, that end the server.
const MOST_FAILURES: u32 = 100;

/// What the main thread writes.
enum Event {
    Line(String),
    Warning(String),
    /// A test has ended.
    Ended,
    /// No connection can be accepted.
    Failed(io::Error),
}

/// A test whose streams are awaited.
struct Joining {
    cookie: Cookie,
    taken: Vec<bool>,
    streams: SyncSender<(u16, Stream)>,
}

/// What the threads of the server share.
struct Desk {
    busy: AtomicBool,
    joining: Mutex<Option<Joining>>,
    greetings: AtomicU32,
    longest: Duration,
    interval: Option<Duration>,
}

/// One connection that has not sent its purpose yet.
struct Place<'a>(&'a AtomicU32);

/// The only test.
struct Reservation<'a>(&'a Desk);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        *self.0.joining() = None;
        self.0.busy.store(false, Ordering::Release);
    }
}

/// Runs the server until a test has ended, or for good.
///
/// # Errors
/// What the user is to know.
pub(super) fn run(
    arguments: &PerfArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let at = match &arguments.bind {
        Some(host) => HostPort::At(bare(host), arguments.port),
        None => HostPort::All(arguments.port),
    };
    let transport = arguments.transport.unwrap_or(Transport::Auto);
    let means = Means::of(transport, &arguments.policy)?;
    let shown = at.to_string();
    let listener = Listener::bind(&means, &at).map_err(|error| problem(&shown, &error))?;
    let here = listener.description(&at);
    let here = here.map_err(|error| problem(&shown, &error))?;
    writeln!(stdout, "Server listening on {here}")?;
    stdout.flush()?;
    let desk = Arc::new(Desk {
        busy: AtomicBool::new(false),
        joining: Mutex::new(None),
        greetings: AtomicU32::new(0),
        longest: Duration::from_secs_f64(arguments.longest),
        interval: super::report::interval(arguments.interval),
    });
    let (events, lines) = mpsc::channel();
    thread::spawn(move || accept(&listener, &desk, &events));
    write_out(&lines, arguments.one_off, stdout, stderr)
}

fn bare(host: &str) -> String {
    let inner = host.strip_prefix('[');
    let inner = inner.and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).to_owned()
}

fn write_out(
    events: &Receiver<Event>,
    one_off: bool,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    for event in events {
        match event {
            Event::Line(line) => writeln!(stdout, "{line}")?,
            Event::Warning(line) => {
                stdout.flush()?;
                // A closed error stream changes nothing of what the server does.
                let _ = writeln!(stderr, "smcx: perf: {line}");
            }
            Event::Ended if one_off => return Ok(()),
            Event::Ended => {}
            Event::Failed(error) => return Err(problem("accept", &error)),
        }
        stdout.flush()?;
    }
    Ok(())
}

fn accept(listener: &Listener, desk: &Arc<Desk>, events: &Sender<Event>) {
    let mut failures = 0;
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(error) => {
                failures += 1;
                if failures >= MOST_FAILURES {
                    let _ = events.send(Event::Failed(error));
                    return;
                }
                // Descriptors may be given back meanwhile.
                thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        failures = 0;
        if desk.greetings.fetch_add(1, Ordering::Relaxed) >= MOST_GREETINGS {
            drop(Place(&desk.greetings));
            continue;
        }
        let (of_thread, events) = (desk.clone(), events.clone());
        let begun = thread::Builder::new().spawn(move || {
            let place = Place(&of_thread.greetings);
            // A client that goes away or makes no sense is its own matter.
            let _ = of_thread.greet(stream, place, &events);
        });
        if begun.is_err() {
            drop(Place(&desk.greetings));
        }
    }
}

impl Desk {
    fn joining(&self) -> MutexGuard<'_, Option<Joining>> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn greet(&self, stream: Stream, place: Place<'_>, events: &Sender<Event>) -> io::Result<()> {
        let until = Instant::now() + TIMEOUT;
        let greeting = Greeting::read(&mut Until {
            stream: &stream,
            until,
        })?;
        match greeting {
            Greeting::Stream(cookie, index) => {
                self.join(cookie, index, stream);
                Ok(())
            }
            Greeting::Control => {
                let order = Ordering::Acquire;
                let free = self.busy.compare_exchange(false, true, order, order);
                if free.is_err() {
                    return refuse(&stream, "the server is busy with another test");
                }
                let reservation = Reservation(self);
                drop(place);
                let outcome = self.serve(&stream, until, events);
                drop(reservation);
                let event = match outcome {
                    Ok(true) => Event::Ended,
                    Ok(false) => return Ok(()),
                    Err(error) => {
                        let line = format!("{}: {}", stream.peer(), reason(&error));
                        Event::Warning(line)
                    }
                };
                // Nothing is written out any more behind the end.
                let _ = events.send(event);
                Ok(())
            }
        }
    }

    /// Hands a stream to the test that awaits it; any other one is closed.
    fn join(&self, cookie: Cookie, index: u16, stream: Stream) {
        let mut joining = self.joining();
        let Some(test) = joining.as_mut().filter(|test| test.cookie == cookie) else {
            return;
        };
        if let Some(taken) = test.taken.get_mut(usize::from(index)).filter(|at| !**at) {
            *taken = true;
            // There is room for all of them.
            let _ = test.streams.try_send((index, stream));
        }
    }

    /// Serves a test; whether there was one.
    fn serve(&self, control: &Stream, until: Instant, events: &Sender<Event>) -> io::Result<bool> {
        let request: Request = protocol::receive(control, until)?;
        if let Err(sentence) = request.check(self.longest) {
            return refuse(control, &sentence).map(|()| false);
        }
        let streams = self.streams(control, &request)?;
        let line = |line| drop(events.send(Event::Line(line)));
        report::connected(control.peer(), &request)
            .into_iter()
            .chain(report::carried(&streams))
            .for_each(line);
        protocol::send(control, &Answer::Begin)?;
        let work = Work::start(&request, streams, false)?;
        let parts = work.parts().to_vec();
        let ends = Ends {
            time: request.time(),
            hard: request.time().unwrap_or(self.longest) + GRACE,
            interval: self.interval,
        };
        report::header(&parts).into_iter().for_each(line);
        let finished = work.finish(ends, |before, now| {
            report::interval_lines(&parts, before, now)
                .into_iter()
                .for_each(line);
            Ok::<(), io::Error>(())
        });
        let (counted, last) = finished?;
        report::closing(&parts, &counted, None, &last)
            .into_iter()
            .for_each(line);
        control.set_timeout(Some(TIMEOUT))?;
        protocol::send(control, &Answer::Done(counted))?;
        // The client ends the connection, so that nothing is lost of what it is to read.
        let bye = protocol::receive::<Answer>(control, Instant::now() + TIMEOUT);
        drop(bye);
        Ok(true)
    }

    /// Waits for the streams of a test.
    fn streams(&self, control: &Stream, request: &Request) -> io::Result<Vec<Stream>> {
        let total = usize::from(request.total());
        let mut cookie = Cookie::default();
        rustix::rand::getrandom(&mut cookie, rustix::rand::GetRandomFlags::empty())?;
        let (streams, joined) = mpsc::sync_channel(total);
        *self.joining() = Some(Joining {
            cookie,
            taken: vec![false; total],
            streams,
        });
        control.set_timeout(Some(TIMEOUT))?;
        protocol::send(control, &Answer::Ready(hexadecimal(&cookie)))?;
        let until = Instant::now() + JOINING_ALL;
        let mut all: Vec<Option<Stream>> = vec![None; total];
        for _ in 0..total {
            let left = until.saturating_duration_since(Instant::now());
            let (index, stream) = joined
                .recv_timeout(left.min(JOINING))
                .map_err(|_| io::Error::other("not all streams came"))?;
            if let Some(slot) = all.get_mut(usize::from(index)) {
                *slot = Some(stream);
            }
        }
        *self.joining() = None;
        Ok(all.into_iter().flatten().collect())
    }
}

fn refuse(control: &Stream, sentence: &str) -> io::Result<()> {
    control.set_timeout(Some(TIMEOUT))?;
    protocol::send(control, &Answer::Refused(sentence.to_owned()))?;
    control.end()
}

fn hexadecimal(cookie: &Cookie) -> String {
    cookie.iter().map(|octet| format!("{octet:02x}")).collect()
}
