//! Steps carried out.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::{Conversation, Step};
use crate::orders::Role;
use crate::pattern::Pattern;

/// Bytes that one call is given at most.
const PIECE: usize = 64 * 1024;

/// How a conversation went.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// A line for each step.
    pub transcript: Vec<String>,
    /// The first difference from what was expected; the steps after it were left out.
    pub difference: Option<String>,
    /// Bytes sent and received.
    pub moved: (u64, u64),
}

/// Executes `steps` as the end that `role` names.
pub fn hold<C: Conversation>(
    connection: &C,
    role: Role,
    steps: &[Step],
    timeout: Duration,
) -> Outcome {
    let (own, peer) = match role {
        Role::Client => (Pattern::CLIENT, Pattern::SERVER),
        Role::Server => (Pattern::SERVER, Pattern::CLIENT),
    };
    let mut talk = Talk {
        connection,
        own,
        peer,
        sent: 0,
        received: 0,
        timeout,
    };
    let mut outcome = Outcome::default();
    for step in steps {
        let began = Instant::now();
        let result = talk.carry_out(*step);
        let micros = began.elapsed().as_micros();
        match result {
            Ok(()) => outcome
                .transcript
                .push(format!("{step:?}: ok, {micros} us")),
            Err(difference) => {
                outcome
                    .transcript
                    .push(format!("{step:?}: {difference}, {micros} us"));
                outcome.difference = Some(format!("{step:?}: {difference}"));
                break;
            }
        }
    }
    outcome.moved = (talk.sent, talk.received);
    outcome
}

struct Talk<'a, C> {
    connection: &'a C,
    own: Pattern,
    peer: Pattern,
    sent: u64,
    received: u64,
    timeout: Duration,
}

impl<C: Conversation> Talk<'_, C> {
    fn carry_out(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Send(count) => {
                send(self.connection, self.own, self.sent, count)?;
                self.sent += count;
            }
            Step::Receive(count) => {
                receive(self.connection, self.peer, self.received, count)?;
                self.received += count;
            }
            Step::Exchange(count) => self.both(count, self.peer, self.received)?,
            Step::Echoed(count) => self.both(count, self.own, self.sent)?,
            Step::Echo => self.echo()?,
            Step::SendUrgent => {
                let byte = self.own.byte(self.sent);
                self.connection
                    .send_urgent(byte)
                    .map_err(|error| describe(&error))?;
                self.sent += 1;
            }
            Step::ReceiveUrgent(before) => self.receive_urgent(before)?,
            Step::Shutdown => self
                .connection
                .shutdown()
                .map_err(|error| describe(&error))?,
            Step::Abort => self.connection.abort().map_err(|error| describe(&error))?,
            Step::End => self.end()?,
            Step::Reset => self.reset()?,
            Step::Pause(millis) => thread::sleep(Duration::from_millis(millis)),
        }
        Ok(())
    }

    /// Sends `count` bytes while it receives as many, which are those of `expected`
    /// from `position` on.
    fn both(&mut self, count: u64, expected: Pattern, position: u64) -> Result<(), String> {
        let (connection, own, sent) = (self.connection, self.own, self.sent);
        thread::scope(|scope| {
            let sending = scope.spawn(move || send(connection, own, sent, count));
            let received = receive(connection, expected, position, count);
            let sent = sending
                .join()
                .map_err(|_| "the sending thread panicked".to_owned())?;
            received.and(sent)
        })?;
        self.sent += count;
        self.received += count;
        Ok(())
    }

    fn echo(&mut self) -> Result<(), String> {
        let mut bytes = vec![0; PIECE];
        loop {
            let count = match self.connection.receive(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) => return Err(format!("receiving: {}", describe(&error))),
            };
            self.received += count as u64;
            let mut rest = bytes.get(..count).unwrap_or_default();
            while !rest.is_empty() {
                let count = self
                    .connection
                    .send(rest)
                    .map_err(|error| describe(&error))?;
                self.sent += count as u64;
                rest = rest.get(count..).unwrap_or_default();
            }
        }
    }

    fn receive_urgent(&mut self, before: u64) -> Result<(), String> {
        let urgent = self
            .connection
            .receive_urgent(self.timeout)
            .map_err(|error| format!("urgent: {}", describe(&error)))?;
        let expected = self.peer.byte(self.received + before);
        if urgent != expected {
            return Err(format!(
                "urgent octet {urgent:#04x} in place of {expected:#04x}"
            ));
        }
        receive(self.connection, self.peer, self.received, before)?;
        self.received += before + 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let mut byte = [0];
        match self.connection.receive(&mut byte) {
            Ok(0) => Ok(()),
            Ok(_) => Err("another octet in place of the end".to_owned()),
            Err(error) => Err(describe(&error)),
        }
    }

    /// Reads up to the reset: what was sent before it may come first.
    fn reset(&mut self) -> Result<(), String> {
        let mut bytes = vec![0; PIECE];
        let end = Instant::now() + self.timeout;
        while Instant::now() < end {
            match self.connection.receive(&mut bytes) {
                Ok(0) => return self.broken(),
                Ok(count) => self.received += count as u64,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(describe(&error)),
            }
        }
        Err("no reset came".to_owned())
    }

    /// Linux reports an abort to a reader that slept as the end of the stream. The
    /// difference is that nothing can be sent any more.
    fn broken(&mut self) -> Result<(), String> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
        match self.connection.send(&[0]) {
            Ok(_) => Err("the end of the stream in place of a reset".to_owned()),
            Err(error) => match error.kind() {
                BrokenPipe | ConnectionReset | NotConnected => Ok(()),
                _ => Err(describe(&error)),
            },
        }
    }
}

fn send<C: Conversation>(
    connection: &C,
    pattern: Pattern,
    from: u64,
    count: u64,
) -> Result<(), String> {
    let mut bytes = vec![0; PIECE];
    let mut done = 0;
    while done < count {
        let length = usize::try_from(count - done).unwrap_or(PIECE).min(PIECE);
        let piece = bytes.get_mut(..length).unwrap_or_default();
        pattern.fill(from + done, piece);
        let sent = connection
            .send(piece)
            .map_err(|error| format!("sending octet {}: {}", from + done, describe(&error)))?;
        done += sent as u64;
    }
    Ok(())
}

fn receive<C: Conversation>(
    connection: &C,
    pattern: Pattern,
    from: u64,
    count: u64,
) -> Result<(), String> {
    let mut bytes = vec![0; PIECE];
    let mut done = 0;
    while done < count {
        let length = usize::try_from(count - done).unwrap_or(PIECE).min(PIECE);
        let piece = bytes.get_mut(..length).unwrap_or_default();
        let position = from + done;
        let received = match connection.receive(piece) {
            Ok(0) => return Err(format!("the stream ended at octet {position}")),
            Ok(received) => received,
            Err(error) => return Err(format!("receiving octet {position}: {}", describe(&error))),
        };
        let piece = bytes.get(..received).unwrap_or_default();
        pattern
            .check(position, piece)
            .map_err(|wrong| format!("octet {wrong} is not the one that was sent"))?;
        done += received as u64;
    }
    Ok(())
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => "nothing happened for too long".to_owned(),
        _ => error.to_string(),
    }
}
