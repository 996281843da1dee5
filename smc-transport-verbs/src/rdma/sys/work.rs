//! Posting work requests to a queue pair, and polling its completion queue (`ibv_post_recv`,
//! `ibv_post_send`, `ibv_poll_cq`). Called by the implementation of [`crate::rnic::Rnic`] for real
//! devices.

use std::io;
use std::mem::{MaybeUninit, zeroed};

use rdma_sys as ibv;

use super::{QueuePair, Region, checked};
use crate::rnic::{MAX_CHAIN, Piece, SendRequest, Source, Status, Work, WorkCompletion};

impl QueuePair {
    /// Posts a receive of the number `number` into at most two segments of a region.
    ///
    /// # Errors
    /// The error of finding the segments in the region, or of `ibv_post_recv`.
    pub(in crate::rdma) fn post_receive(
        &self,
        number: u64,
        into: Piece<'_, Region>,
    ) -> io::Result<()> {
        let (mut pieces, count) = into.region.pieces(into.segments)?;
        let mut request = ibv::ibv_recv_wr {
            wr_id: number,
            next: std::ptr::null_mut(),
            sg_list: pieces.as_mut_ptr(),
            num_sge: count,
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair exists; the request names pieces that lie within a
        // registered region and is read before the call returns.
        checked(unsafe { ibv::ibv_post_recv(self.raw(), &raw mut request, &raw mut bad) })
    }

    /// Posts 1 to [`MAX_CHAIN`] requests in order.
    ///
    /// # Errors
    /// The number of requests that were posted, and why the next one was not:
    /// [`io::ErrorKind::InvalidInput`] for a wrong number of requests, or inline data longer than
    /// the queue pair takes; else the error of finding the segments or of `ibv_post_send`.
    pub(in crate::rdma) fn post_send(
        &self,
        requests: &[SendRequest<'_, Region>],
    ) -> Result<(), (usize, io::Error)> {
        // SAFETY: numbers and null pointers, for which zero is valid.
        let mut chain: [ibv::ibv_send_wr; MAX_CHAIN] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut pieces: [[ibv::ibv_sge; 2]; MAX_CHAIN] = unsafe { zeroed() };
        if requests.is_empty() || requests.len() > MAX_CHAIN {
            return Err((0, io::ErrorKind::InvalidInput.into()));
        }
        let places = chain.iter_mut().zip(&mut pieces);
        for (request, (place, pieces)) in requests.iter().zip(places) {
            let (count, inline) = match &request.source {
                Source::Fetched(piece) => {
                    let found = piece.region.pieces(piece.segments);
                    let (found, count) = found.map_err(|error| (0, error))?;
                    *pieces = found;
                    (count, false)
                }
                Source::Inline(piece) => {
                    let found = piece.region.host_pieces(piece.segments);
                    let (found, count) = found.map_err(|error| (0, error))?;
                    *pieces = found;
                    (count, true)
                }
                Source::Octets(bytes) => {
                    let length = u32::try_from(bytes.len());
                    let length = length.map_err(|_| (0, io::ErrorKind::InvalidInput.into()))?;
                    let [piece, _] = pieces;
                    piece.addr = bytes.as_ptr() as u64;
                    piece.length = length;
                    (1, true)
                }
            };
            let total = pieces.iter().take(count as usize);
            let total = total.fold(0u32, |sum, piece| sum.saturating_add(piece.length));
            if inline && total > self.inline() {
                return Err((0, io::ErrorKind::InvalidInput.into()));
            }
            place.wr_id = request.number;
            place.sg_list = pieces.as_mut_ptr();
            place.num_sge = count;
            place.opcode = match request.work {
                Work::Write { rkey, address } => {
                    place.wr.rdma = ibv::rdma_t {
                        remote_addr: address,
                        rkey,
                    };
                    ibv::ibv_wr_opcode::IBV_WR_RDMA_WRITE
                }
                Work::Send => ibv::ibv_wr_opcode::IBV_WR_SEND,
            };
            place.send_flags = flags(request.work, inline);
        }
        let first = chain.as_mut_ptr();
        let mut bad = std::ptr::null_mut();
        // SAFETY: `first` and its successors up to the number of requests are elements
        // of one array, each chained to the next. The queue pair exists. Pieces lie
        // within registered regions; those that are taken inline lie in this process and
        // are alive until the call returns, as are the requests. How far the device came
        // is a pointer into the same array.
        unsafe {
            for at in 1..requests.len() {
                (*first.add(at - 1)).next = first.add(at);
            }
            checked(ibv::ibv_post_send(self.raw(), first, &raw mut bad))
        }
        .map_err(|error| {
            let posted = (bad as usize).saturating_sub(first as usize);
            let posted = posted / size_of::<ibv::ibv_send_wr>();
            (posted.min(requests.len() - 1), error)
        })
    }

    /// Moves completions from the completion queue to `into`, at most 32. Returns their number; 0
    /// also if the device is gone.
    pub(in crate::rdma) fn poll(&self, into: &mut [WorkCompletion]) -> usize {
        const MOST: usize = 32;
        let mut found: [MaybeUninit<ibv::ibv_wc>; MOST] = [const { MaybeUninit::uninit() }; MOST];
        let room = into.len().min(MOST);
        // SAFETY: the queue exists; there is room for `room` completions.
        let count = unsafe {
            let queue = self.completions();
            ibv::ibv_poll_cq(queue, room as i32, found.as_mut_ptr().cast())
        };
        // A negative number is an error: the device is gone, which an event reports, too.
        let count = usize::try_from(count).unwrap_or(0).min(room);
        for (into, found) in into.iter_mut().zip(found.iter().take(count)) {
            // SAFETY: the call wrote so many. Of one that failed, the number and the
            // status are valid.
            *into = unsafe {
                let found = found.as_ptr();
                WorkCompletion {
                    number: (*found).wr_id,
                    status: Status::of((*found).status),
                    length: (*found).byte_len,
                }
            };
        }
        count
    }
}

/// Flags of a send work request. WRITEs make no completion; SENDs make one and raise an event at
/// the peer.
fn flags(work: Work, inline: bool) -> u32 {
    use ibv::ibv_send_flags as flag;
    let from = if inline { flag::IBV_SEND_INLINE.0 } else { 0 };
    let signalled = match work {
        Work::Write { .. } => 0,
        //= V2-194
        Work::Send => flag::IBV_SEND_SIGNALED.0 | flag::IBV_SEND_SOLICITED.0,
    };
    from | signalled
}

#[cfg(test)]
mod tests {
    use rdma_sys::ibv_send_flags as flag;

    use super::{Work, flags};

    #[test]
    fn sends_are_solicited_and_signalled_and_writes_are_neither() {
        //= V2-194 test
        let write = Work::Write {
            rkey: 1,
            address: 4096,
        };
        let signalled = flag::IBV_SEND_SIGNALED.0 | flag::IBV_SEND_SOLICITED.0;
        let inline = flag::IBV_SEND_INLINE.0;
        assert_eq!(flags(Work::Send, false), signalled);
        assert_eq!(flags(Work::Send, true), signalled | inline);
        assert_eq!((flags(write, false), flags(write, true)), (0, inline));
    }
}
