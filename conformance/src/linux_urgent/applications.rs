//! What the applications of both ends do, and what they have to find.

use smc_proto::connection::Shutdown;
use smc_proto::wire::cdc::ConnectionFlags;

use super::kernel::{Kernel, UrgentState};
use super::world::{Reader, World};

/// Byte of a stream at a position.
fn byte(position: u64) -> u8 {
    (position ^ (position >> 3) ^ 0x5a) as u8
}

fn check(whose: &str, position: u64, value: u8) -> Result<(), String> {
    match value == byte(position) {
        true => Ok(()),
        false => Err(format!("the {whose} reads {value:#x} at {position}")),
    }
}

pub(super) struct EngineApp {
    total: u64,
    written: u64,
    /// The most that was ever published.
    pub(super) published: u64,
    /// Urgent bytes that the kernel has to find.
    marks: Vec<u64>,
    read: u64,
    /// Urgent bytes of the kernel's that were found.
    found: Vec<u64>,
    /// An urgent byte that was copied out and will be stepped over.
    taken: Option<u64>,
    inline: bool,
    shut: bool,
    closed: bool,
}

impl EngineApp {
    pub(super) fn new(total: u64, inline: bool) -> Self {
        Self {
            total,
            written: 0,
            published: 0,
            marks: Vec::new(),
            read: 0,
            found: Vec::new(),
            taken: None,
            inline,
            shut: false,
            closed: false,
        }
    }
}

pub(super) struct KernelApp {
    total: u64,
    /// Bytes of a `send` with `MSG_OOB` that are not taken yet.
    urgent_left: u64,
    marks: Vec<u64>,
    read: u64,
    taken: Vec<u64>,
    /// An urgent byte was taken out of line with none before it.
    pub(super) took_at_the_mark: bool,
    shut: bool,
    closed: bool,
}

impl KernelApp {
    pub(super) fn new(total: u64) -> Self {
        Self {
            total,
            urgent_left: 0,
            marks: Vec::new(),
            read: 0,
            taken: Vec::new(),
            took_at_the_mark: false,
            shut: false,
            closed: false,
        }
    }

    pub(super) fn describe(&self, kernel: &Kernel) -> String {
        format!(
            "kernel consumed {}, urgent {:?}, {} bytes from the mark, sent {} of {}",
            kernel.inbound.consumed,
            kernel.inbound.urgent,
            kernel.inbound.to_mark(),
            kernel.out.filled,
            self.total,
        )
    }
}

impl World {
    /// The engine's application writes up to `most` bytes; the last one may be urgent.
    pub(super) fn engine_writes(&mut self, most: u64, urgent: bool) -> Result<(), String> {
        let (now, config) = self.time();
        let app = &mut self.engine_app;
        let space = self.engine.send_space();
        let count = most.min(space.len().into()).min(app.total - app.written);
        if count == 0 || app.shut {
            return Ok(());
        }
        let places = space
            .iter()
            .flat_map(|span| span.offset..span.offset + span.len);
        for (place, position) in places.zip(app.written..app.written + count) {
            self.send_buffer[place as usize] = byte(position);
        }
        app.written += count;
        let done = match urgent {
            true => self.engine.commit_urgent(now, &config, count as u32),
            false => self.engine.commit(now, &config, count as u32),
        };
        done.map_err(|error| format!("{error:?}"))?;
        if urgent {
            // Urgent data that was not published stops being urgent.
            app.marks.pop_if(|mark| *mark >= app.published);
            app.marks.push(app.written - 1);
        }
        Ok(())
    }

    /// The engine's application checks for an urgent byte.
    fn engine_finds_urgent(&mut self) -> Result<(), String> {
        let app = &mut self.engine_app;
        app.read += u64::from(app.taken.take_if(|taken| *taken == app.read).is_some());
        let Some(urgent) = self.engine.urgent() else {
            return Ok(());
        };
        let position = app.read + u64::from(urgent.ahead);
        check("engine", position, self.element[urgent.offset as usize])?;
        if app.found.last() != Some(&position) {
            app.found.push(position);
        }
        Ok(())
    }

    pub(super) fn engine_takes_urgent(&mut self) -> Result<(), String> {
        self.engine_finds_urgent()?;
        let app = &mut self.engine_app;
        let taken = self.engine.take_urgent().ok();
        let out_of_line = taken.filter(|_| !app.inline);
        if let Some(urgent) = out_of_line {
            app.taken = Some(app.read + u64::from(urgent.ahead));
        }
        Ok(())
    }

    /// The engine's application reads up to `most` bytes; false if there are none.
    pub(super) fn engine_reads(&mut self, most: u64) -> Result<bool, String> {
        self.engine_finds_urgent()?;
        let readable = self.engine.readable();
        let count = most.min(readable.len().into());
        let places = readable
            .iter()
            .flat_map(|span| span.offset..span.offset + span.len);
        let app = &mut self.engine_app;
        for place in places.take(count as usize) {
            let value = self.element[place as usize];
            check("engine", app.read, value)?;
            app.read += 1;
        }
        if count > 0 {
            let done = self.engine.consume(count as u32);
            done.map_err(|error| format!("{error:?}"))?;
        }
        Ok(count > 0)
    }

    /// The kernel's process writes up to `most` bytes; true if any were taken.
    pub(super) fn kernel_writes(&mut self, most: u64, urgent: bool) -> bool {
        let app = &mut self.kernel_app;
        let written = self.kernel.out.filled;
        let (count, urgent) = match app.urgent_left {
            0 => (most.min(app.total - written), urgent),
            left => (left, true),
        };
        if count == 0 || app.shut {
            return false;
        }
        let bytes: Vec<u8> = (written..written + count).map(byte).collect();
        let taken = self.kernel.write(&bytes, urgent) as u64;
        if urgent {
            app.urgent_left = count - taken;
            if app.urgent_left == 0 {
                app.marks.push(written + count - 1);
            }
        }
        taken > 0
    }

    /// The kernel's process takes an urgent byte out of line, if it is of that kind.
    pub(super) fn kernel_takes_urgent(&mut self) -> Result<bool, String> {
        let inbound = &self.kernel.inbound;
        let at_the_mark = inbound.to_mark() == 1;
        let here = inbound.urgent == UrgentState::Valid;
        if !here || (at_the_mark && self.case.reader != Reader::Careless) {
            return Ok(false);
        }
        let Some((position, value)) = self.kernel.read_urgent() else {
            return Ok(false);
        };
        check("kernel", position, value)?;
        self.kernel_app.took_at_the_mark |= at_the_mark;
        self.kernel_app.taken.push(position);
        Ok(true)
    }

    /// The kernel's process reads up to `most` bytes; true if it read any.
    pub(super) fn kernel_reads(&mut self, most: u64) -> Result<bool, String> {
        let before = self.kernel.inbound.consumed;
        for (position, value) in self.kernel.read(most as usize) {
            check("kernel", position, value)?;
            self.kernel_app.read += 1;
        }
        // The next urgent byte would take the place of one that was only stepped over.
        if self.kernel.inbound.to_mark() == 0 {
            self.kernel_takes_urgent()?;
        }
        Ok(self.kernel.inbound.consumed > before)
    }

    /// The engine's application does what is left to do; true if that was anything.
    pub(super) fn engine_finishes(&mut self) -> Result<bool, String> {
        let left = self.engine_app.total - self.engine_app.written;
        self.engine_writes(left, false)?;
        let mut moved = self.engine_app.total - self.engine_app.written < left;
        moved |= self.engine_reads(u64::MAX)?;
        let waiting = self.engine_app.taken;
        self.engine_takes_urgent()?;
        moved |= self.engine_app.taken != waiting;
        let (now, config) = self.time();
        let app = &mut self.engine_app;
        if app.written == app.total && !app.shut {
            (app.shut, moved) = (true, true);
            // Nothing will come that would be lost.
            app.closed = self.kernel_app.total == 0;
            let how = match app.closed {
                true => Shutdown::Both,
                false => Shutdown::Write,
            };
            self.engine.shutdown(now, &config, how);
        }
        if app.shut && !app.closed && self.engine.is_end_of_stream() {
            (app.closed, moved) = (true, true);
            self.engine.shutdown(now, &config, Shutdown::Both);
        }
        Ok(moved)
    }

    /// The kernel's process does what is left to do; true if that was anything.
    pub(super) fn kernel_finishes(&mut self) -> Result<bool, String> {
        let mut moved = self.kernel_writes(u64::MAX, false);
        moved |= self.kernel_reads(u64::MAX)?;
        moved |= self.kernel_takes_urgent()?;
        let app = &mut self.kernel_app;
        let wrote = self.kernel.out.filled == app.total && app.urgent_left == 0;
        if wrote && !app.shut {
            (app.shut, moved) = (true, true);
            self.kernel.shutdown();
        }
        let ends = ConnectionFlags::SENDING_DONE | ConnectionFlags::PEER_CONNECTION_CLOSED;
        let ended = self.kernel.peer_flags.intersects(ends) && self.kernel.inbound.available() == 0;
        if app.shut && ended && self.kernel.out.is_delivered() && !app.closed {
            (app.closed, moved) = (true, true);
            self.kernel.close();
        }
        Ok(moved)
    }

    /// Whether each end has found what the other one marked, and read all bytes.
    pub(super) fn compare_marks(&self) -> Result<(), String> {
        let (engine, kernel) = (&self.engine_app, &self.kernel_app);
        let mut taken = match self.case.reader {
            Reader::Inline => engine.marks.clone(),
            Reader::OutOfLine | Reader::Careless => kernel.taken.clone(),
        };
        taken.dedup();
        let out_of_line = match self.case.reader {
            Reader::Inline => 0,
            Reader::OutOfLine | Reader::Careless => taken.len() as u64,
        };
        let compared = [
            ("signalled", &self.kernel.inbound.signalled, &engine.marks),
            ("taken", &taken, &engine.marks),
            ("found by the engine", &engine.found, &kernel.marks),
        ];
        for (what, found, marked) in compared {
            if found != marked {
                return Err(format!("urgent bytes {marked:?}, {what} {found:?}"));
            }
        }
        let all = [
            ("kernel", kernel.read + out_of_line, engine.total),
            ("engine", engine.read, kernel.total),
        ];
        for (whose, read, written) in all {
            if read != written {
                return Err(format!("the {whose} has read {read} of {written}"));
            }
        }
        Ok(())
    }
}
