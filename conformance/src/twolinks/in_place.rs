//! For benchmarks: bytes sent and freed without reading them.

use super::World;

impl World {
    /// Commits bytes that are in the send buffer already.
    pub fn commit_in_place(&mut self, side: usize, app: usize, len: u32) -> u32 {
        let (now, host) = (self.now, &mut self.hosts[side]);
        let Some(mut conn) = host.endpoint.conn(host.apps[app].conn) else {
            return 0;
        };
        let len = conn.send_space().map_or(0, |space| space.len()).min(len);
        if len > 0 {
            conn.commit(now, len).expect("within the space just read");
        }
        len
    }

    /// Frees what is readable.
    pub fn consume_all(&mut self, side: usize, app: usize) -> u32 {
        let (now, host) = (self.now, &mut self.hosts[side]);
        let Some(mut conn) = host.endpoint.conn(host.apps[app].conn) else {
            return 0;
        };
        let len = conn.readable().map_or(0, |spans| spans.len());
        if len > 0 {
            conn.consume(now, len).expect("just read");
        }
        len
    }
}
