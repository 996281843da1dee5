//! The data path: WRITEs and SENDs, and bytes of applications.

use smc_proto::command::{BufferSpans, DataTransmit, DataWrite, RdmaCommand, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, ConnId, LinkId, WrId};
use smc_proto::wire::types::RKey;

use super::Binding;
use super::buffers::Buffers;
use super::link::{Link, State};
use super::receives::{MESSAGE, large_slot, send_slot};
use super::sends::Posted;
use crate::memory::OutOfBounds;
use crate::rnic::{Piece, Rnic, SendRequest, Source, Work};

/// What is to be posted.
#[derive(Clone, Copy)]
enum Request<'a> {
    Write {
        conn: ConnId,
        buffer: BufferId,
        rkey: RKey,
        write: DataWrite,
    },
    Send {
        wr_id: WrId,
        payload: &'a [u8],
    },
}

impl<R: Rnic> Binding<R> {
    /// Old name of [`Binding::execute_transmit`].
    #[deprecated(note = "renamed to `execute_transmit`")]
    pub fn execute_turn(&mut self, turn: &DataTransmit) {
        self.execute_transmit(turn);
    }

    /// Posts all that a connection sends in one transmit slot, with one doorbell.
    #[inline]
    pub fn execute_transmit(&mut self, transmit: &DataTransmit) {
        let [first, second] = transmit.writes;
        let write = |write| Request::Write {
            conn: transmit.conn,
            buffer: transmit.buffer,
            rkey: transmit.rkey,
            write,
        };
        let payload = transmit.payload();
        let send = Request::Send {
            wr_id: transmit.wr_id,
            payload: &payload,
        };
        match (first.is_empty(), second.is_empty()) {
            (true, _) => self.post(transmit.link, &[send]),
            (false, true) => self.post(transmit.link, &[write(first), send]),
            (false, false) => self.post(transmit.link, &[write(first), write(second), send]),
        }
    }

    /// A WRITE or a SEND by itself.
    pub(super) fn execute_data(&mut self, command: RdmaCommand) {
        match command {
            RdmaCommand::Write {
                link,
                conn,
                buffer,
                source,
                rkey,
                address,
            } => {
                let request = Request::Write {
                    conn,
                    buffer,
                    rkey,
                    write: DataWrite::new(source, address),
                };
                self.post(link, &[request]);
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => self.send_large(link, wr_id, &payload),
            // The others are not about data.
            _ => {}
        }
    }

    /// Executes a [`SendLarge`](RdmaCommand::SendLarge), whose bytes the engine wrote.
    pub fn send_large(&mut self, link: LinkId, wr_id: WrId, payload: &[u8]) {
        self.post(link, &[Request::Send { wr_id, payload }]);
    }

    /// Posts requests on a link. What cannot be posted breaks it: the engine is notified of
    /// that, and no SEND is lost silently.
    fn post(&mut self, link: LinkId, requests: &[Request<'_>]) {
        let Some(rnic) = self.rnic_of(link) else {
            return;
        };
        let Some(of) = self.links.get_mut(link) else {
            return;
        };
        // What is posted to a broken queue pair would be flushed.
        if of.state != State::Up {
            return;
        }
        let before = of.sends.end();
        let posted = post_chain(&*rnic, of, &self.buffers, link, requests);
        if let Err(posted) = posted {
            of.sends.take_back(before.wrapping_add(posted as u64));
            of.fail(&rnic, LinkFailure::Other, None);
            self.wake(link.index());
        }
    }

    /// Copies bytes into free space of a send buffer: how many fitted. For
    /// [`ConnMut::write`](smc_proto::endpoint::ConnMut::write).
    ///
    /// # Errors
    /// [`OutOfBounds`]: there is no such buffer.
    #[inline]
    pub fn fill(&self, space: &BufferSpans, bytes: &[u8]) -> Result<u32, OutOfBounds> {
        self.buffers.copy_in(space, bytes)
    }

    /// Copies readable bytes of a connection out of an RMB: how many fitted. None if
    /// the eye catcher is damaged, of which the engine is notified. For
    /// [`ConnMut::read`](smc_proto::endpoint::ConnMut::read).
    ///
    /// # Errors
    /// [`OutOfBounds`]: there is no such buffer.
    #[inline]
    pub fn take(
        &mut self,
        conn: ConnId,
        readable: &BufferSpans,
        into: &mut [u8],
    ) -> Result<u32, OutOfBounds> {
        if !self.buffers.is_whole(readable) {
            let damaged = RdmaCompletion::EyeCatcherDamaged { conn };
            self.answers.push_back(damaged);
            return Ok(0);
        }
        self.buffers.copy_out(readable, into)
    }
}

/// Numbers requests and posts them; if not all, how many the device took.
fn post_chain<R: Rnic>(
    rnic: &R,
    link: &mut Link<R>,
    buffers: &Buffers<R>,
    id: LinkId,
    requests: &[Request<'_>],
) -> Result<(), usize> {
    let Link {
        sends,
        region,
        memory,
        queue_pair,
        inline,
        ..
    } = link;
    let inline = *inline;
    let mut prepare = |request| match request {
        Request::Write {
            conn,
            buffer,
            rkey,
            write,
        } => {
            let piece = Piece {
                region: buffers.get(buffer)?.region(id)?,
                segments: write.source,
            };
            Some(SendRequest {
                number: sends.push(Posted::Write { conn })?,
                work: Work::Write {
                    rkey: rkey.0,
                    address: write.address,
                },
                source: match write.len() <= inline {
                    true => Source::Inline(piece),
                    false => Source::Fetched(piece),
                },
            })
        }
        Request::Send { wr_id, payload } => {
            let length = u32::try_from(payload.len()).ok()?;
            let large = length > MESSAGE;
            if large && sends.has_large() {
                return None;
            }
            let number = sends.push(Posted::Send { wr_id, large })?;
            let source = if length <= inline {
                Source::Octets(payload)
            } else {
                let place = match large {
                    true => large_slot(length),
                    false => send_slot(number),
                };
                memory.copy_in(place.offset.into(), payload).ok()?;
                let segments = [place, Segment::default()];
                Source::Fetched(Piece { region, segments })
            };
            Some(SendRequest {
                number,
                work: Work::Send,
                source,
            })
        }
    };
    let result = match *requests {
        [a] => {
            let chain = [prepare(a).ok_or(0usize)?];
            rnic.post_send(queue_pair, &chain)
        }
        [a, b] => {
            let chain = [prepare(a).ok_or(0usize)?, prepare(b).ok_or(0usize)?];
            rnic.post_send(queue_pair, &chain)
        }
        [a, b, c] => {
            let chain = [
                prepare(a).ok_or(0usize)?,
                prepare(b).ok_or(0usize)?,
                prepare(c).ok_or(0usize)?,
            ];
            rnic.post_send(queue_pair, &chain)
        }
        _ => return Err(0),
    };
    result.map_err(|error| error.posted)
}
