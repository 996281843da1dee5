//! Octets for who waits for one connection and looks where they arrive.

use super::Endpoint;
use crate::completion::IsmCompletion;
use crate::data_path::{DataPath, Rest};
use crate::id::{BufferId, ConnId};
use crate::link_group::{Follows, owner_of};
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;

/// What a look came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Looked {
    /// There was nothing new.
    Nothing,
    /// Cursors moved, and that is all: there is no more to poll than there was before.
    Cursors,
    /// Something was taken in from which something may follow, which is polled as ever.
    More,
}

impl Looked {
    /// Whether anything was taken in.
    #[inline]
    #[must_use]
    pub const fn is_anything(self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

impl<S: Storage> Endpoint<S> {
    /// Looks at the head of the DMB that a connection receives in, without waiting for a
    /// signal; what was taken in. `look` reads the head as
    /// [`IsmCompletion::Signalled`] has it, and says whether there may be anything new. Of a
    /// buffer that is no DMB nothing is taken in.
    ///
    /// The message counts as signalled, but that octets can be read now is no event: who
    /// looks asks by reading. Whatever else follows is polled as ever. A signal of the
    /// same message may still come, and does no harm.
    //= D-043
    #[inline]
    pub fn look(
        &mut self,
        now: Instant,
        conn: ConnId,
        look: impl FnOnce(BufferId, &mut [u8; CDC_ISM_LENGTH]) -> bool,
    ) -> Looked {
        let tables = self.storage.tables();
        let Some(record) = tables.connections.live(conn.index, conn.generation) else {
            return Looked::Nothing;
        };
        let buffer = record.rmb.id();
        let mut cdc = [0; CDC_ISM_LENGTH];
        if !look(buffer, &mut cdc) {
            return Looked::Nothing;
        }
        // Who sends in place receives in a DMB of its own.
        let owner = match &record.connection {
            Some(at) if at.is_attached() => Some(conn.index),
            _ => owner_of(&tables.buffers, &tables.connections, buffer),
        };
        self.core.begin(now);
        self.core.step();
        let mut path = DataPath::new(&mut self.core, tables);
        match owner.and_then(|owner| path.on_usual_signal(owner, &cdc)) {
            Some(Follows::Readable) => return Looked::Cursors,
            Some(Follows::Rest(Rest::Nothing)) => {}
            Some(Follows::Rest(rest)) => self.carry_out(rest),
            None => self.on_other_ism(&IsmCompletion::Signalled { buffer, cdc }),
        }
        Looked::More
    }
}
