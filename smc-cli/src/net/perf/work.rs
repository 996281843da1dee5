//! The streams of a running test.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::super::stream::Stream;
use super::histogram::{Histogram, Times};
use super::protocol::{Counted, Part, Request};
use crate::output::reason;

/// What a stream has done so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    octets: AtomicU64,
    times: Histogram,
}

/// The streams of a test at one end.
pub(super) struct Work {
    parts: Vec<Part>,
    streams: Vec<Stream>,
    progress: Vec<Arc<Progress>>,
    stop: Arc<AtomicBool>,
    /// Whether the streams were cut off.
    cut: Arc<AtomicBool>,
    ended: Receiver<(usize, Counted)>,
    begin: Instant,
}

/// What all streams had done at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Since the beginning.
    pub(super) at: Duration,
    pub(super) octets: Vec<u64>,
    /// Of streams that ask.
    pub(super) times: Vec<Times>,
}

/// When a test ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Senders stop after this time.
    pub(super) time: Option<Duration>,
    /// Streams are cut off after this time.
    pub(super) hard: Duration,
    /// How often samples are taken.
    pub(super) interval: Option<Duration>,
}

impl Work {
    /// Starts the streams, in the order of their numbers.
    pub(super) fn start(
        request: &Request,
        streams: Vec<Stream>,
        is_client: bool,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (report, ended) = mpsc::channel();
        let mut work = Self {
            parts: Vec::new(),
            streams: Vec::new(),
            progress: Vec::new(),
            stop,
            cut: Arc::default(),
            ended,
            begin: Instant::now(),
        };
        for (index, stream) in (0..).zip(streams) {
            stream.set_timeout(None)?;
            let (client, server) = request.parts(index);
            let part = if is_client { client } else { server };
            let progress = Arc::<Progress>::default();
            let worker = Worker {
                stream: stream.clone(),
                length: request.length as usize,
                share: request.share(index),
                progress: progress.clone(),
                stop: work.stop.clone(),
                cut: work.cut.clone(),
                begin: work.begin,
            };
            work.parts.push(part);
            work.streams.push(stream);
            work.progress.push(progress);
            let report: Sender<_> = report.clone();
            let begun = thread::Builder::new().spawn(move || {
                let counted = worker.run(part);
                // The receiver may have given up.
                let _ = report.send((usize::from(index), counted));
            });
            if let Err(error) = begun {
                work.cut();
                return Err(error);
            }
        }
        Ok(work)
    }

    /// What each stream does.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Waits for the end of all streams; `each` is given two samples for each interval.
    ///
    /// # Errors
    /// Those of `each`.
    pub(super) fn finish<E>(
        self,
        ends: Ends,
        mut each: impl FnMut(&Sample, &Sample) -> Result<(), E>,
    ) -> Result<(Vec<Counted>, Sample), E> {
        let mut counted: Vec<Option<Counted>> = vec![None; self.streams.len()];
        let mut last = Sample {
            octets: vec![0; self.streams.len()],
            times: vec![Times::default(); self.streams.len()],
            ..Sample::default()
        };
        let mut next = ends.interval;
        let mut is_cut = false;
        let mut missing = self.streams.len();
        while missing > 0 {
            let now = self.begin.elapsed();
            let stopped = self.stop.load(Ordering::Relaxed);
            let stop = ends.time.filter(|_| !stopped);
            let until = [stop, next, Some(ends.hard).filter(|_| !is_cut)];
            let until = until.into_iter().flatten().min();
            let wait = until.map_or(Duration::from_secs(1), |at| at.saturating_sub(now));
            match self.ended.recv_timeout(wait) {
                Ok((index, of)) => {
                    if let Some(slot) = counted.get_mut(index) {
                        *slot = Some(of);
                        missing -= 1;
                    }
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // A thread that ends without a report has failed.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = self.begin.elapsed();
            if stop.is_some_and(|at| now >= at) {
                self.stop.store(true, Ordering::Relaxed);
            }
            if let Some(at) = next.filter(|at| now >= *at) {
                let sample = self.sample();
                each(&last, &sample)?;
                last = sample;
                next = ends.interval.map(|interval| at + interval);
            }
            if now >= ends.hard && !is_cut {
                is_cut = true;
                self.cut();
            }
        }
        let sample = self.sample();
        // What is left of an interval, unless it is nearly nothing.
        let left = sample.at.saturating_sub(last.at);
        if ends.interval.is_some_and(|interval| left > interval / 10) {
            each(&last, &sample)?;
        }
        let lost = || Counted {
            error: Some("lost".to_owned()),
            ..Counted::default()
        };
        let counted = counted.into_iter().map(|of| of.unwrap_or_else(lost));
        Ok((counted.collect(), sample))
    }

    fn sample(&self) -> Sample {
        let octets = self.progress.iter();
        let times = self.progress.iter().zip(&self.parts);
        Sample {
            at: self.begin.elapsed(),
            octets: octets.map(|of| of.octets.load(Ordering::Relaxed)).collect(),
            times: times
                .map(|(of, part)| match part {
                    Part::Ask => of.times.read(),
                    _ => Times::default(),
                })
                .collect(),
        }
    }

    /// Ends all streams, whatever they do.
    fn cut(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.cut.store(true, Ordering::Release);
        for stream in &self.streams {
            // It may have ended.
            let _ = stream.end_both();
        }
    }
}

/// A test that is given up takes its threads with it.
impl Drop for Work {
    fn drop(&mut self) {
        self.cut();
    }
}

/// One stream at one end.
struct Worker {
    stream: Stream,
    length: usize,
    share: Option<u64>,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    begin: Instant,
}

impl Worker {
    fn run(self, part: Part) -> Counted {
        let outcome = match part {
            Part::Send => self.send(),
            Part::Receive => self.receive(),
            Part::Ask => self.ask(),
            Part::Echo => self.echo(),
        };
        // To a thread that waits, it may seem an end of the peer's.
        let outcome = match self.cut.load(Ordering::Acquire) {
            true => Err(io::Error::other("cut off, as it did not end in time")),
            false => outcome,
        };
        let nanoseconds = self.begin.elapsed().as_nanos();
        Counted {
            octets: self.progress.octets.load(Ordering::Relaxed),
            nanoseconds: u64::try_from(nanoseconds).unwrap_or(u64::MAX),
            error: outcome.err().map(|error| reason(&error)),
        }
    }

    fn count(&self, octets: usize) {
        let octets = octets as u64;
        self.progress.octets.fetch_add(octets, Ordering::Relaxed);
    }

    fn send(&self) -> io::Result<()> {
        let chunk = vec![0x5a; self.length];
        let mut stream = &self.stream;
        let mut left = self.share;
        while !self.stop.load(Ordering::Relaxed) && left != Some(0) {
            let most = left.map_or(chunk.len(), |left| {
                usize::try_from(left).map_or(chunk.len(), |left| left.min(chunk.len()))
            });
            let part = chunk.get(..most).unwrap_or_default();
            match stream.write(part) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => {
                    self.count(len);
                    left = left.map(|left| left.saturating_sub(len as u64));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.drain()
    }

    /// Ends the direction to the peer, and waits until it has received everything.
    fn drain(&self) -> io::Result<()> {
        self.stream.end()?;
        let mut stream = &self.stream;
        match stream.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(io::Error::other("the peer sends in a direction of its own")),
        }
    }

    fn receive(&self) -> io::Result<()> {
        let mut chunk = vec![0; self.length];
        let mut stream = &self.stream;
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => return self.stream.end(),
                Ok(len) => self.count(len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn ask(&self) -> io::Result<()> {
        let mut message = vec![0x5a; self.length];
        let mut stream = &self.stream;
        let mut last = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
            let now = Instant::now();
            let time = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
            self.progress.times.add(time);
            self.count(message.len());
            last = now;
        }
        self.drain()
    }

    fn echo(&self) -> io::Result<()> {
        let mut message = vec![0; self.length];
        let mut stream = &self.stream;
        loop {
            let len = match stream.read(&mut message) {
                Ok(0) => return self.stream.end(),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // A message answers itself when all of it is there.
            stream.read_exact(message.get_mut(len..).unwrap_or_default())?;
            stream.write_all(&message)?;
            self.count(message.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use smc_sockets::{Settings, Stack};

    use super::super::super::Means;
    use super::super::super::stream::{Listener, Stream};
    use super::super::protocol::{Direction, Limit, Request};
    use super::{Ends, Work};
    use crate::cli::HostPort;

    /// Two ends of a connection, over SMC or TCP.
    fn pair(smc: bool) -> (Stream, Stream) {
        let means = move || match smc {
            true => Means::Smc(Stack::with(Settings::default()).unwrap()),
            false => Means::Tcp,
        };
        let here = HostPort::At("127.0.0.1".to_owned(), 0);
        let listener = Listener::bind(&means(), &here).unwrap();
        let to = listener.address().unwrap();
        let connecting = thread::spawn(move || Stream::connect(&means(), to).unwrap());
        let accepted = listener.accept().unwrap();
        (connecting.join().unwrap(), accepted)
    }

    #[test]
    fn streams_whose_peer_does_nothing_are_cut_off() {
        for (smc, direction) in [
            (false, Direction::Forward),
            (false, Direction::Reverse),
            (true, Direction::Forward),
            (true, Direction::Reverse),
            (true, Direction::RoundTrip),
        ] {
            let (here, _there) = pair(smc);
            let request = Request {
                direction,
                streams: 1,
                length: 1 << 20,
                limit: Limit::Milliseconds(50),
            };
            let work = Work::start(&request, vec![here], true).unwrap();
            let begin = Instant::now();
            let ends = Ends {
                time: Some(Duration::from_millis(50)),
                hard: Duration::from_millis(300),
                interval: None,
            };
            let finished = work.finish(ends, |_, _| Ok::<_, ()>(()));
            let (counted, _) = finished.unwrap();
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(20), "{direction:?}: {took:?}");
            let error = counted[0].error.as_deref();
            assert!(
                error.is_some_and(|error| error.contains("cut off")),
                "{counted:?}"
            );
        }
    }
}
