//! Inputs, outputs and commands for ISM devices.

use super::Endpoint;
use crate::command::{BufferSpans, IsmCommand, Signal};
use crate::completion::IsmCompletion;
use crate::connection::ApiMisuse;
use crate::connection_record::Pending;
use crate::data_path::{DataPath, Deferred, SignalOutcome};
use crate::id::{BufferId, ConnId, ConnIdx, DeviceId};
use crate::link_group::owner_of;
use crate::storage::{Storage, for_call};
use crate::time::Instant;
use crate::trace::Tap;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;

impl<S: Storage> Endpoint<S> {
    /// Reports what an ISM device answered or received. At most one CDC message is
    /// read.
    pub fn handle_ism(&mut self, now: Instant, completion: IsmCompletion) {
        self.core.begin(now);
        self.core.step();
        let IsmCompletion::Signalled { buffer, cdc } = &completion else {
            return self.on_other_ism(&completion);
        };
        match self.on_fast_signal(*buffer, cdc) {
            Some((index, SignalOutcome::Readable)) => {
                self.data_path().notify(index, Pending::READABLE)
            }
            Some((_, SignalOutcome::Deferred(Deferred::Nothing))) => {}
            Some((_, SignalOutcome::Deferred(deferred))) => self.execute(deferred),
            None => self.on_other_ism(&completion),
        }
    }

    #[inline(always)]
    pub(super) fn on_fast_signal(
        &mut self,
        buffer: BufferId,
        cdc: &[u8; CDC_ISM_LENGTH],
    ) -> Option<(ConnIdx, SignalOutcome)> {
        let (tables, tap) = for_call(&mut self.storage);
        if tap.is_on() {
            return None;
        }
        let owner = owner_of(&tables.buffers, &tables.connections, buffer)?;
        let follows =
            DataPath::new(&mut self.core, (tables, Tap::OFF)).on_fast_signal(owner, cdc)?;
        Some((owner, follows))
    }

    #[inline(never)]
    pub(super) fn on_other_ism(&mut self, completion: &IsmCompletion) {
        let mut engine = self.unchanged_engine();
        engine.on_ism_report(completion);
        engine.run_wakes();
    }

    /// Whether there is nothing to poll but commands for other devices than this ISM
    /// device.
    #[inline]
    pub fn is_idle(&self, device: DeviceId) -> bool {
        let core = &self.core;
        !core.has_ism_work(device)
            && !core.has_clc_work()
            && core.tcp_out.is_empty()
            && !core.has_events()
    }

    /// The next command for an ISM device. Poll only while the device can take one,
    /// and execute it before the next call of any kind.
    #[inline]
    pub fn poll_ism(&mut self, now: Instant, device: DeviceId) -> Option<IsmCommand> {
        if !self.core.has_ism_work(device) {
            return None;
        }
        self.next_ism(now, device)
    }

    #[inline(never)]
    fn next_ism(&mut self, now: Instant, device: DeviceId) -> Option<IsmCommand> {
        self.core.begin(now);
        let mut deferred = Deferred::Nothing;
        let signal = self
            .fast_path()
            .and_then(|mut path| path.next_signal(device, &mut deferred));
        if let Some(signal) = signal {
            if deferred != Deferred::Nothing {
                self.execute(deferred);
            }
            return Some(signal);
        }
        self.next_other_ism(device)
    }

    #[inline(never)]
    fn next_other_ism(&mut self, device: DeviceId) -> Option<IsmCommand> {
        let mut engine = self.unchanged_engine();
        let command = engine.groups.next_ism(device);
        engine.run_wakes();
        command
    }

    #[cold]
    #[inline(never)]
    fn observed_write(
        &mut self,
        conn: ConnId,
        fill: impl FnOnce(&BufferSpans) -> u32,
    ) -> Option<Result<u32, ApiMisuse>> {
        let mut path = self.data_path();
        let live = path.connections.is_live(conn.index, conn.generation);
        live.then(|| path.write(conn.index, fill))
    }

    /// Writes to a connection as [`ConnMut::write`](super::ConnMut::write) does. If the bytes lie in memory that the
    /// peer reads and no other connection comes first, `signal` notifies the peer at once: it
    /// has to execute its argument as an [`IsmCommand::Signal`]. Both closures get `peer`.
    /// Whatever else follows is polled as ever. `None` if the handle is stale.
    ///
    /// [`IsmCommand::Signal`]: crate::command::IsmCommand::Signal
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    #[inline(always)]
    pub fn write_and_signal<T>(
        &mut self,
        now: Instant,
        conn: ConnId,
        peer: &mut T,
        fill: impl FnOnce(&mut T, &BufferSpans) -> u32,
        signal: impl FnOnce(&mut T, &Signal),
    ) -> Option<Result<u32, ApiMisuse>> {
        self.core.begin(now);
        let mut deferred = Deferred::Nothing;
        let Some(mut path) = self.fast_path() else {
            return self.observed_write(conn, |space| fill(peer, space));
        };
        if !path.connections.is_live(conn.index, conn.generation) {
            return None;
        }
        let written = path.write_and_signal(conn.index, peer, fill, signal, &mut deferred);
        if deferred != Deferred::Nothing {
            self.execute(deferred);
        }
        Some(written)
    }
}
