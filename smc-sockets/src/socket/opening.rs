//! CLC messages before the application's bytes, on a connection that was declined ahead of them.

use std::io;

use rustix::io::Errno;
use smc_proto::endpoint::TcpEvent;
use smc_proto::wire::clc::MAX_LENGTH;

use super::Socket;
use crate::opening::{Opening, Step};
use crate::shard::{discard, peek};

impl Socket {
    /// Drops CLC messages that have come before the application's bytes; whether the next
    /// bytes are the application's. `ended` is how TCP has ended behind what has come.
    ///
    /// # Errors
    /// TCP's, or a reset because of a message that cannot be one.
    pub(crate) fn pass_opening(&self, ended: Option<TcpEvent>) -> io::Result<bool> {
        self.opening.advance(|mut opening| {
            let mut bytes = [0; MAX_LENGTH];
            while opening != Opening::Over {
                let come = match peek(self, &mut bytes) {
                    Ok(0) => break,
                    Ok(len) => bytes.get(..len).unwrap_or_default(),
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) if ended.is_some() => break,
                    Err(Errno::AGAIN) => return (opening, Ok(false)),
                    Err(error) => return (Opening::Over, Err(error.into())),
                };
                match (opening.classify(come), ended) {
                    (Step::Over, _) => break,
                    (Step::Drop(len), _) => {
                        self.set_low_water(1);
                        discard(self, len);
                        opening = opening.after();
                    }
                    (Step::Wait(total), None) => {
                        // No thread is woken by each byte of a client that takes its time.
                        self.set_low_water(total);
                        return (opening, Ok(false));
                    }
                    // The rest of what was promised does not come any more, nor does that of
                    // what may be a Decline behind a reset.
                    (Step::Wait(_), Some(end)) => {
                        if opening == Opening::Promised || end != TcpEvent::PeerFin {
                            discard(self, come.len());
                        }
                        break;
                    }
                    (Step::Malformed, _) => {
                        let _ = rustix::net::connect_unspec(&self.tcp);
                        return (Opening::Over, Err(io::ErrorKind::ConnectionReset.into()));
                    }
                }
            }
            self.set_low_water(1);
            (Opening::Over, Ok(true))
        })
    }
}
