//! What the ends of a connection send: requests with bytes, each answered by as many as it
//! asks for.
//!
//! ```text
//!   request   seed (8) | bytes that follow (4) | bytes of the answer (4) | pattern of the seed
//!   answer    pattern of the seed's complement
//! ```

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use crate::pattern::Pattern;

/// Bytes of a request's head.
const HEAD: usize = 16;

/// Bytes that are read or written at a time.
const CHUNK: usize = 16 << 10;

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) seed: u64,
    /// Bytes that follow its head.
    pub(crate) sent: u32,
    /// Bytes of its answer.
    pub(crate) answer: u32,
}

impl Request {
    fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.seed.to_le_bytes());
        head[8..12].copy_from_slice(&self.sent.to_le_bytes());
        head[12..].copy_from_slice(&self.answer.to_le_bytes());
        head
    }

    fn of(head: [u8; HEAD]) -> Self {
        let [a, b, c, d, e, f, g, h, sent @ .., i, j, k, l] = head;
        Self {
            seed: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            sent: u32::from_le_bytes(sent),
            answer: u32::from_le_bytes([i, j, k, l]),
        }
    }
}

/// How far an end got before it had to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Waits until there are bytes to read.
    Reads,
    /// Waits until there is room to write.
    Writes,
    /// A client has the whole answer; a server has seen the end of the stream.
    Over,
}

/// A wrong byte was read. It is a finding whatever happened meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Wrong(String);

impl Wrong {
    /// An error with this as its source.
    pub(crate) fn error(what: String) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, Self(what))
    }

    /// What was wrong, if that is what an error is about.
    pub(crate) fn of(error: &io::Error) -> Option<&str> {
        let wrong: &Self = error.get_ref()?.downcast_ref()?;
        Some(&wrong.0)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong bytes: {}", self.0)
    }
}

impl std::error::Error for Wrong {}

fn ended() -> io::Error {
    ErrorKind::UnexpectedEof.into()
}

/// Bytes of a pattern on their way out.
#[derive(Debug)]
struct Sending {
    pattern: Pattern,
    left: u32,
    /// Bytes to be written next, and how many of them were.
    chunk: Vec<u8>,
    written: usize,
}

impl Sending {
    fn new(head: &[u8], seed: u64, len: u32) -> Self {
        Self {
            pattern: Pattern::new(seed),
            left: len,
            chunk: head.to_vec(),
            written: 0,
        }
    }

    /// Writes until everything is sent or it would wait; the number of bytes written.
    fn write(&mut self, to: &mut impl Write, progress: &mut u64) -> io::Result<bool> {
        loop {
            if self.written == self.chunk.len() {
                if self.left == 0 {
                    return Ok(true);
                }
                let len = CHUNK.min(self.left as usize);
                self.chunk.resize(len, 0);
                self.pattern.fill(&mut self.chunk);
                self.written = 0;
                self.left -= len as u32;
            }
            match to.write(&self.chunk[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.written += written;
                    *progress += written as u64;
                }
                Err(error) if would_wait(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether an end tries again later. TCP interrupts a call with a timeout when its process was
/// stopped.
pub(crate) fn would_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Reads the rest of a pattern; whether all of it has come.
fn receive(
    from: &mut impl Read,
    pattern: &mut Pattern,
    left: &mut u32,
    progress: &mut u64,
) -> io::Result<bool> {
    let mut chunk = [0; CHUNK];
    while *left > 0 {
        let most = CHUNK.min(*left as usize);
        match from.read(&mut chunk[..most]) {
            Ok(0) => return Err(ended()),
            Ok(read) => {
                if let Some((at, wanted)) = pattern.differs(&chunk[..read]) {
                    let found = &chunk[at..read.min(at + 32)];
                    return Err(Wrong::error(format!(
                        "{at} of {read} read, {left} to come: {found:02x?}, wanted {wanted:02x}"
                    )));
                }
                *left -= read as u32;
                *progress += read as u64;
            }
            Err(error) if would_wait(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// A request and its answer, at the client.
#[derive(Debug)]
pub(crate) struct Exchange {
    sending: Sending,
    answer: Pattern,
    left: u32,
    /// Bytes read and written so far.
    pub(crate) progress: u64,
}

impl Exchange {
    pub(crate) fn new(request: Request) -> Self {
        Self {
            sending: Sending::new(&request.head(), request.seed, request.sent),
            answer: Pattern::new(!request.seed),
            left: request.answer,
            progress: 0,
        }
    }

    /// Goes on until it would wait, or a blocking stream's time is over.
    pub(crate) fn step(&mut self, stream: &mut (impl Read + Write)) -> io::Result<Step> {
        if !self.sending.write(stream, &mut self.progress)? {
            return Ok(Step::Writes);
        }
        match receive(stream, &mut self.answer, &mut self.left, &mut self.progress)? {
            true => Ok(Step::Over),
            false => Ok(Step::Reads),
        }
    }
}

/// A connection at its server.
#[derive(Debug)]
pub(crate) struct Serving {
    state: State,
    progress: u64,
}

#[derive(Debug)]
enum State {
    Head([u8; HEAD], usize),
    Body(Request, Pattern, u32),
    Answer(Sending),
}

impl Serving {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Head([0; HEAD], 0),
            progress: 0,
        }
    }

    /// Serves until it would wait, or the stream is at its end between two requests.
    pub(crate) fn step(&mut self, stream: &mut (impl Read + Write)) -> io::Result<Step> {
        loop {
            match &mut self.state {
                State::Head(head, len) if *len == HEAD => {
                    let request = Request::of(*head);
                    let pattern = Pattern::new(request.seed);
                    self.state = State::Body(request, pattern, request.sent);
                }
                State::Head(head, len) => match stream.read(&mut head[*len..]) {
                    Ok(0) if *len == 0 => return Ok(Step::Over),
                    Ok(0) => return Err(ended()),
                    Ok(read) => *len += read,
                    Err(error) if would_wait(&error) => return Ok(Step::Reads),
                    Err(error) => return Err(error),
                },
                State::Body(request, pattern, left) => {
                    if !receive(stream, pattern, left, &mut self.progress)? {
                        return Ok(Step::Reads);
                    }
                    let answer = Sending::new(&[], !request.seed, request.answer);
                    self.state = State::Answer(answer);
                }
                State::Answer(answer) => {
                    if !answer.write(stream, &mut self.progress)? {
                        return Ok(Step::Writes);
                    }
                    self.state = State::Head([0; HEAD], 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{self, Read, Write};

    use super::{Exchange, Request, Serving, Step};

    /// A stream that takes and gives a few bytes at a time.
    #[derive(Default)]
    struct Narrow {
        sent: VecDeque<u8>,
        received: VecDeque<u8>,
    }

    impl Read for Narrow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.received.is_empty() {
                true => Err(io::ErrorKind::WouldBlock.into()),
                false => self.received.read(into),
            }
        }
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = 100_usize.saturating_sub(self.sent.len()).min(bytes.len());
            self.sent.extend(&bytes[..room]);
            match room {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(room),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn exchange(damage: Option<usize>) -> io::Result<()> {
        let (seed, sent, answer) = (5, 1_000, 70_000);
        let mut client = Exchange::new(Request { seed, sent, answer });
        let mut server = Serving::new();
        let (mut near, mut far) = (Narrow::default(), Narrow::default());
        let mut moved = 0;
        while client.step(&mut near)? != Step::Over {
            std::mem::swap(&mut near.sent, &mut far.received);
            server.step(&mut far)?;
            moved += far.sent.len();
            if let Some(byte) = far.sent.front_mut()
                && damage.is_some_and(|at| moved > at)
            {
                *byte ^= 1;
            }
            near.received.append(&mut far.sent);
        }
        Ok(())
    }

    #[test]
    fn requests_are_answered_in_pieces_and_damage_is_found() {
        exchange(None).unwrap();
        for at in [0, 500, 60_000] {
            let error = exchange(Some(at)).unwrap_err();
            assert!(super::Wrong::of(&error).is_some(), "{error}");
        }
    }
}
