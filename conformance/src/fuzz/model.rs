//! What one direction of a connection carries.

use std::sync::OnceLock;

use super::side::Side;

/// Bytes of a stream after which it repeats itself.
const PERIOD: usize = 1 << 16;

/// One direction of a connection as it must be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Model {
    pub(super) written: usize,
    pub(super) read: usize,
    /// The bytes are distinguished by this and their position.
    pub(super) name: u8,
}

impl Model {
    /// The bytes of the stream from a position on, at most [`PERIOD`].
    fn octets(self, at: usize, length: usize) -> &'static [u8] {
        // Made once: byte by byte they would be most of what a target does.
        static STREAMS: [OnceLock<Box<[u8]>>; 256] = [const { OnceLock::new() }; 256];
        let byte = |at: usize| {
            (at as u8).wrapping_mul(31) ^ ((at >> 8) as u8).wrapping_mul(17) ^ self.name
        };
        let stream = &STREAMS[usize::from(self.name)];
        let stream = stream.get_or_init(|| (0..2 * PERIOD).map(byte).collect());
        &stream[at % PERIOD..][..length]
    }

    /// Writes up to `n` bytes on a side.
    pub(super) fn write(&mut self, side: &mut Side, at: usize, n: usize, urgent: bool) {
        let (now, id) = (side.now, side.conns[at].id);
        let Some(mut conn) = side.endpoint.conn(id) else {
            return;
        };
        let Some(space) = conn.send_space().filter(|space| !space.is_empty()) else {
            return;
        };
        let memory = side.contract.memory(space.buffer);
        let mut n = n.min(space.len() as usize);
        let committed = n;
        for piece in space.segments {
            let len = n.min(piece.length as usize);
            n -= len;
            memory.write(piece.offset as usize, self.octets(self.written, len));
            self.written += len;
        }
        let result = match urgent {
            true => conn.commit_urgent(now, committed as u32),
            false => conn.commit(now, committed as u32),
        };
        assert_eq!(result, Ok(()));
        side.check();
    }

    /// Reads up to `n` bytes on the other side and compares them.
    pub(super) fn read(&mut self, side: &mut Side, at: usize, n: usize) {
        let (now, id) = (side.now, side.conns[at].id);
        let Some(mut conn) = side.endpoint.conn(id) else {
            return;
        };
        let Some(spans) = conn.readable().filter(|spans| !spans.is_empty()) else {
            return;
        };
        let memory = side.contract.memory(spans.buffer);
        let mut n = n.min(spans.len() as usize);
        let consumed = n;
        for piece in spans.segments {
            let len = n.min(piece.length as usize);
            n -= len;
            let more = self.written - self.read;
            assert!(len <= more, "{len} octets are read, {more} were written");
            let read = memory.read(piece.offset as usize, len);
            let sent = self.octets(self.read, len);
            let wrong = || read.iter().zip(sent).position(|(a, b)| a != b);
            assert!(read == sent, "at {}, {:?}", self.read, wrong());
            self.read += len;
        }
        assert_eq!(conn.consume(now, consumed as u32), Ok(()));
        side.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_where_it_was_and_no_other_is_like_it() {
        let model = |name| Model {
            name,
            ..Model::default()
        };
        let whole = model(7).octets(PERIOD - 3, 9);
        assert_eq!(&whole[..4], model(7).octets(PERIOD - 3, 4));
        assert_eq!(&whole[4..], model(7).octets(PERIOD + 1, 5));
        let other = model(8).octets(PERIOD - 3, 9);
        assert!(whole.iter().zip(other).all(|(a, b)| a != b));
    }
}
