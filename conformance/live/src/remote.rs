//! Sockets on another machine: each call is a line of JSON over TCP, and so is its answer.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use conformance::scripts::{RnicAct, Seen};
use serde::{Deserialize, Serialize};

use crate::sockets::{Ending, Sockets};

/// What is asked of the sockets.
#[derive(Debug, Serialize, Deserialize)]
enum Call {
    Listens,
    Comes(u8, SocketAddr),
    Connect(u8, SocketAddr),
    Step,
    Write(u8, Vec<u8>, bool),
    Read(u8, usize),
    Readable(u8),
    Ended(u8),
    Urgent(u8),
    Plain(u8),
    End(u8, Ending),
    HasEnded(u8, bool),
    Leave,
    RunOut,
}

/// What they answer.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    /// Why not.
    Failed(String),
    Address(SocketAddr),
    Count(usize),
    Truth(bool),
    Bytes(Vec<u8>),
    Byte(Option<u8>),
    Saw(Option<(u8, Sight)>),
}

/// What an application saw, as sockets report it.
#[derive(Debug, Serialize, Deserialize)]
enum Sight {
    Established,
    FellBack(u32, Option<u32>),
    Closed(String),
}

fn answered<T>(result: io::Result<T>, answer: impl FnOnce(T) -> Answer) -> Answer {
    match result {
        Ok(value) => answer(value),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn sight(seen: Seen) -> Sight {
    match seen {
        Seen::Established => Sight::Established,
        Seen::FellBack(code, peer) => Sight::FellBack(code, peer),
        other => Sight::Closed(format!("{other:?}")),
    }
}

fn execute(sockets: &mut impl Sockets, call: Call) -> Answer {
    let done = |()| Answer::Done;
    match call {
        Call::Listens => answered(sockets.listens(), Answer::Address),
        Call::Comes(conn, from) => {
            sockets.comes(conn, from);
            Answer::Done
        }
        Call::Connect(conn, to) => answered(sockets.connect(conn, to), done),
        Call::Step => Answer::Saw(sockets.step().map(|(conn, seen)| (conn, sight(seen)))),
        Call::Write(conn, bytes, urgent) => answered(sockets.write(conn, &bytes, urgent), done),
        Call::Read(conn, count) => answered(sockets.read(conn, count), Answer::Bytes),
        Call::Readable(conn) => Answer::Count(sockets.readable(conn)),
        Call::Ended(conn) => Answer::Truth(sockets.ended(conn)),
        Call::Urgent(conn) => Answer::Byte(sockets.urgent(conn)),
        Call::Plain(conn) => Answer::Bytes(sockets.plain(conn)),
        Call::End(conn, how) => answered(sockets.end(conn, how), done),
        Call::HasEnded(conn, in_order) => Answer::Truth(sockets.has_ended(conn, in_order)),
        Call::Leave => {
            sockets.leave();
            Answer::Done
        }
        Call::RunOut => answered(sockets.run_out().map_err(io::Error::other), done),
    }
}

/// Lets another machine use these sockets, until it has made them run out.
///
/// # Errors
/// Returns the connection's error, or that a call is unknown.
pub fn serve(
    sockets: &mut impl Sockets,
    calls: &mut impl BufRead,
    answers: &mut impl Write,
) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if calls.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let call = serde_json::from_str(&line)?;
        let last = matches!(call, Call::RunOut);
        let answer = execute(sockets, call);
        writeln!(answers, "{}", serde_json::to_string(&answer)?)?;
        if last {
            return Ok(());
        }
    }
}

/// The sockets of another machine.
#[derive(Debug)]
pub struct Remote {
    calls: TcpStream,
    answers: BufReader<TcpStream>,
    over: bool,
}

impl Remote {
    /// Returns the sockets that are served over this connection.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(stream: &TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            calls: stream.try_clone()?,
            answers: BufReader::new(stream.try_clone()?),
            over: false,
        })
    }

    fn ask(&mut self, call: &Call) -> io::Result<Answer> {
        let line = format!("{}\n", serde_json::to_string(call)?);
        self.calls.write_all(line.as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match serde_json::from_str(&line)? {
            Answer::Failed(why) => Err(io::Error::other(why)),
            answer => Ok(answer),
        }
    }

    fn done(&mut self, call: &Call) -> io::Result<()> {
        match self.ask(call)? {
            Answer::Done => Ok(()),
            other => Err(surprising(&other)),
        }
    }

    fn truth(&mut self, call: &Call) -> bool {
        matches!(self.ask(call), Ok(Answer::Truth(true)))
    }
}

fn surprising(answer: &Answer) -> io::Error {
    io::Error::other(format!("a surprising answer: {answer:?}"))
}

impl Sockets for Remote {
    fn listens(&mut self) -> io::Result<SocketAddr> {
        match self.ask(&Call::Listens)? {
            Answer::Address(address) => Ok(address),
            other => Err(surprising(&other)),
        }
    }

    fn comes(&mut self, conn: u8, from: SocketAddr) {
        // A failure here shows in the next call.
        let _ = self.done(&Call::Comes(conn, from));
    }

    fn connect(&mut self, conn: u8, to: SocketAddr) -> io::Result<()> {
        self.done(&Call::Connect(conn, to))
    }

    fn step(&mut self) -> Option<(u8, Seen)> {
        let Ok(Answer::Saw(Some((conn, sight)))) = self.ask(&Call::Step) else {
            return None;
        };
        let seen = match sight {
            Sight::Established => Seen::Established,
            Sight::FellBack(code, peer) => Seen::FellBack(code, peer),
            Sight::Closed(how) => Seen::Closed(how),
        };
        Some((conn, seen))
    }

    fn write(&mut self, conn: u8, bytes: &[u8], urgent: bool) -> io::Result<()> {
        self.done(&Call::Write(conn, bytes.to_vec(), urgent))
    }

    fn read(&mut self, conn: u8, count: usize) -> io::Result<Vec<u8>> {
        match self.ask(&Call::Read(conn, count))? {
            Answer::Bytes(bytes) => Ok(bytes),
            other => Err(surprising(&other)),
        }
    }

    fn readable(&mut self, conn: u8) -> usize {
        match self.ask(&Call::Readable(conn)) {
            Ok(Answer::Count(count)) => count,
            _ => 0,
        }
    }

    fn ended(&mut self, conn: u8) -> bool {
        self.truth(&Call::Ended(conn))
    }

    fn urgent(&mut self, conn: u8) -> Option<u8> {
        match self.ask(&Call::Urgent(conn)) {
            Ok(Answer::Byte(byte)) => byte,
            _ => None,
        }
    }

    fn plain(&mut self, conn: u8) -> Vec<u8> {
        match self.ask(&Call::Plain(conn)) {
            Ok(Answer::Bytes(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    fn end(&mut self, conn: u8, how: Ending) -> io::Result<()> {
        self.done(&Call::End(conn, how))
    }

    fn has_ended(&mut self, conn: u8, in_order: bool) -> bool {
        self.truth(&Call::HasEnded(conn, in_order))
    }

    fn rnic(&mut self, act: &RnicAct, _: Option<u32>) -> Result<(), String> {
        Err(format!("RNICs of another machine do no {act:?}"))
    }

    fn leave(&mut self) {
        // A failure shows in the end.
        let _ = self.done(&Call::Leave);
    }

    fn run_out(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        self.done(&Call::RunOut).map_err(|error| error.to_string())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The serving end waits for that.
        let _ = self.run_out();
    }
}
