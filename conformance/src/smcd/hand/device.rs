//! What the engine's device does with its commands.

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::event::Event;
use smc_proto::path::Paths;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::types::DmbToken;

use super::{DEVICE, HEAD, Hand, RING};

impl Hand {
    /// Does all that the engine asks for.
    pub fn pump(&mut self) {
        let mut bytes = [0; MAX_LENGTH];
        loop {
            let polled = self.endpoint.poll_clc(self.now, &mut bytes);
            if let Some((conn, len)) = polled.expect("room for any message") {
                let sent = bytes.get(..len).unwrap_or_default();
                let (message, _) = ClcMessage::parse(sent).expect("what is emitted can be read");
                self.sent_clc.push_back((conn, message));
            } else if let Some(tcp) = self.endpoint.poll_tcp() {
                self.tcp.push(tcp);
            } else if let Some(command) = self.endpoint.poll_ism(self.now, DEVICE) {
                // Moves and signals are done before the engine is called again.
                let late = !matches!(
                    command,
                    IsmCommand::Move { .. }
                        | IsmCommand::Signal { .. }
                        | IsmCommand::SignalEvent { .. }
                );
                match self.hold && late {
                    true => self.commands.push_back(command),
                    false => self.execute(command),
                }
            } else if let Some(event) = self.endpoint.poll_event() {
                if let Event::Proposed { conn } = event {
                    let ism = [self.path()];
                    let paths = Paths::new(&[], &ism);
                    // It may be gone already.
                    let _ = self.endpoint.accept(self.now, conn, paths);
                }
                self.events.push(event);
            } else {
                return;
            }
        }
    }

    /// The device executes a command.
    #[track_caller]
    pub fn execute(&mut self, command: IsmCommand) {
        let known = "the device knows the buffer";
        let answer = match command {
            IsmCommand::RegisterDmb { buffer, .. } => {
                self.tokens += 1;
                let token = DmbToken(0xd000 + self.tokens);
                assert_eq!(self.dmbs.insert(buffer, token), None, "registered twice");
                IsmCompletion::DmbRegistered { buffer, token }
            }
            IsmCommand::UnregisterDmb { buffer } => {
                self.dmbs.remove(&buffer).expect(known);
                IsmCompletion::DmbUnregistered { buffer }
            }
            IsmCommand::ClearDmb { buffer } => {
                assert!(self.dmbs.contains_key(&buffer), "{known}");
                IsmCompletion::DmbCleared { buffer }
            }
            IsmCommand::AllocBuffer { buffer, .. } => {
                assert_eq!(self.sources.insert(buffer, None), None, "allocated twice");
                IsmCompletion::BufferAllocated { buffer }
            }
            IsmCommand::FreeBuffer { buffer } => {
                let bound = self.sources.remove(&buffer).expect(known);
                assert_eq!(bound, None, "freed while bound");
                IsmCompletion::BufferFreed { buffer }
            }
            IsmCommand::AttachDmb {
                buffer, token, map, ..
            } => {
                let bound = self.sources.insert(buffer, Some(token));
                assert_eq!(bound, (!map).then_some(None), "bound as it may be");
                IsmCompletion::DmbAttached { buffer }
            }
            IsmCommand::DetachDmb { buffer, .. } => {
                let bound = self.sources.remove(&buffer).expect(known);
                assert!(bound.is_some(), "{known}");
                if !self.mode.maps {
                    self.sources.insert(buffer, None);
                }
                IsmCompletion::DmbDetached { buffer }
            }
            IsmCommand::Move { buffer, .. } | IsmCommand::Signal { buffer, .. } => {
                let bound = self.sources.get(&buffer).expect(known);
                assert!(bound.is_some(), "{command:?} to nothing");
                if let IsmCommand::Move { source, offset, .. } = command {
                    let moved: u64 = source.iter().map(|at| u64::from(at.length)).sum();
                    let end = u64::from(offset) + moved;
                    assert!(
                        offset >= HEAD && end <= u64::from(HEAD + RING),
                        "{command:?}"
                    );
                }
                self.moved.push(command);
                return;
            }
            IsmCommand::SignalEvent { .. } => {
                self.moved.push(command);
                return;
            }
        };
        self.endpoint.handle_ism(self.now, answer);
    }
}
