//! Data: 1 GiB through rings of 16 KiB to 512 KiB, equal and unequal on both
//! sides, in both directions at once, with write sizes from 1 byte to 1 MiB.
//! Every byte is compared with the one its place in the stream asks for.

use conformance::direct::Pair;
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::BufferSize;

const GIB: u64 = 1 << 30;
const LARGEST: usize = 1 << 20;
/// A prime above every ring size: bytes one ring apart differ.
const PERIOD: usize = 1_048_583;

/// Bytes moved in each direction of one connection, by size of its writes.
/// With 36 pairs of ring sizes the sum is above 1 GiB.
const LOADS: [(Writes, u64); 8] = [
    (Writes::Of(1), 96 << 10),
    (Writes::Of(13), 256 << 10),
    (Writes::Of(1500), 1 << 20),
    (Writes::Of(4096), 1 << 20),
    (Writes::Of(16 << 10), 2 << 20),
    (Writes::Of((64 << 10) + 1), 2 << 20),
    (Writes::Of(LARGEST), 5 << 20),
    (Writes::Any, 4 << 20),
];

#[derive(Clone, Copy, Debug)]
enum Writes {
    Of(usize),
    /// 1 byte to 1 MiB, each power of two as likely.
    Any,
}

/// A stream of bytes in which each is a function of its place.
struct Pattern(Vec<u8>);

impl Pattern {
    fn new() -> Self {
        let mut random = Random(7);
        let mut bytes: Vec<u8> = (0..PERIOD).map(|_| random.next() as u8).collect();
        bytes.extend_from_within(..LARGEST);
        Self(bytes)
    }

    fn at(&self, place: u64, length: usize) -> &[u8] {
        let start = (place % PERIOD as u64) as usize;
        &self.0[start..start + length]
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0 >> 33
    }

    fn up_to_1_mib(&mut self) -> usize {
        let bits = self.next() % 21;
        let low = 1usize << bits;
        (low + self.next() as usize % low).min(LARGEST)
    }
}

/// One direction: what was written and read of it.
#[derive(Clone, Copy)]
struct Direction {
    from: usize,
    writer: ConnId,
    reader: ConnId,
    written: u64,
    read: u64,
    /// Rest of the write in progress.
    write_left: usize,
}

struct Transfer<'a> {
    pair: &'a mut Pair,
    pattern: &'a Pattern,
    random: Random,
    scratch: Vec<u8>,
}

impl Transfer<'_> {
    /// Moves `total` bytes each way.
    fn run(&mut self, a: ConnId, b: ConnId, writes: Writes, total: u64) {
        let mut directions = [(0, a, b), (1, b, a)].map(|(from, writer, reader)| Direction {
            from,
            writer,
            reader,
            written: 0,
            read: 0,
            write_left: 0,
        });
        let mut idle = 0;
        while directions.iter().any(|d| d.read < total) {
            let mut moved = false;
            for direction in &mut directions {
                moved |= self.write(direction, writes, total);
            }
            for side in 0..2 {
                self.pair.pump_data(side);
                while self.pair.hosts[side].endpoint.poll_event().is_some() {}
            }
            for direction in &mut directions {
                moved |= self.read(direction);
            }
            idle = if moved { 0 } else { idle + 1 };
            if idle > 2 {
                // Held back for coalescing: its time passes.
                assert!(idle < 10, "the stream makes no progress");
                let later = self.pair.now.after(Duration::from_millis(1));
                self.pair.advance_to(later);
            }
        }
        for d in directions {
            assert_eq!((d.written, d.read), (total, total));
        }
    }

    fn write(&mut self, d: &mut Direction, writes: Writes, total: u64) -> bool {
        if d.write_left == 0 {
            let size = match writes {
                Writes::Of(size) => size,
                Writes::Any => self.random.up_to_1_mib(),
            };
            d.write_left = (total - d.written).min(size as u64) as usize;
        }
        let data = self.pattern.at(place(d, d.written), d.write_left);
        let now = self.pair.now;
        let written = self.pair.hosts[d.from].write(now, d.writer, data);
        d.written += written as u64;
        d.write_left -= written;
        written > 0
    }

    fn read(&mut self, d: &mut Direction) -> bool {
        // Mostly all there is, sometimes a little, sometimes nothing: the rings
        // must be met full as well as empty.
        let most = match self.random.next() % 8 {
            0 => 0,
            1 => self.random.next() as usize % 3000,
            _ => self.scratch.len(),
        };
        let now = self.pair.now;
        let scratch = &mut self.scratch[..most];
        let read = self.pair.hosts[1 - d.from].read(now, d.reader, scratch);
        assert!(
            scratch[..read] == *self.pattern.at(place(d, d.read), read),
            "other octets than were sent, from octet {} on, direction {}",
            d.read,
            d.from
        );
        d.read += read as u64;
        read > 0
    }
}

/// The two directions carry different bytes.
fn place(d: &Direction, byte: u64) -> u64 {
    byte + 500_000 * d.from as u64
}

#[test]
fn a_gibibyte_arrives_byte_for_byte() {
    //= SEC-004 test
    let pattern = Pattern::new();
    let mut moved = 0;
    for client in 0..6 {
        for server in 0..6 {
            let options = |code| {
                let mut options = ConnOptions::new(Subnets::default());
                options.receive_buffer = Some(BufferSize::from_code(code));
                options.send_buffer = Some(BufferSize::from_code(code));
                options.nodelay = (client + server) % 2 == 1;
                options
            };
            let mut pair = Pair::new(1);
            let (a, b) = pair.open_with(options(client), options(server));
            let mut transfer = Transfer {
                pair: &mut pair,
                pattern: &pattern,
                random: Random(u64::from(client * 6 + server)),
                scratch: vec![0; LARGEST],
            };
            for (writes, total) in LOADS {
                transfer.run(a, b, writes, total);
                moved += 2 * total;
            }
        }
    }
    println!("{} MiB", moved >> 20);
    assert!(moved >= GIB);
}
