//! Ports that go while a rendezvous counts on them.

use super::State;
use crate::engine::Engine;
use crate::id::DeviceId;
use crate::link_group::Role;
use crate::wire::types::DiagnosisCode;

impl Engine<'_> {
    /// Takes ports that are gone off the candidates of every rendezvous. Who has
    /// the word and no port left declines; a client that waits for the Accept
    /// goes on waiting (CLC-049).
    //= CLC-049
    //= RENDEZVOUS-015
    pub(crate) fn forget_paths(&mut self, device: DeviceId, port: Option<u8>) {
        for index in 0..self.handshakes.capacity() {
            let Some(h) = self.handshakes.at_mut(index) else {
                continue;
            };
            let before = h.paths.len();
            // The Proposal named a port, which the server counts on.
            let proposed = (h.role == Role::Client && h.state != State::Proposing)
                .then(|| h.paths.first().copied())
                .flatten();
            // Not `retain`: it counts in a way that could overflow, as far as the
            // compiler knows.
            let mut left = heapless::Vec::new();
            for path in &h.paths {
                if path.device != device || port.is_some_and(|p| path.port != p) {
                    let _ = left.push(*path);
                }
            }
            h.paths = left;
            if proposed.is_some() && h.paths.first().copied() != proposed {
                h.paths.clear();
            }
            let lost_all = h.paths.is_empty() && before > 0;
            let has_word = matches!(h.state, State::Proposing | State::Queued);
            self.step();
            if lost_all && has_word {
                self.unqueue(index);
                self.decline(index, DiagnosisCode::NO_SMCR_DEVICE, false);
            }
        }
    }
}
