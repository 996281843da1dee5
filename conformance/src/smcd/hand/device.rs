//! What the engine's device does with its commands.

use smc_proto::command::IsmCommand;
use smc_proto::event::Event;
use smc_proto::path::Paths;
use smc_proto::wire::clc::ClcMessage;

use super::{HEAD, Hand, RING};
use crate::rig::{Output, Outputs};

/// Whether a command is executed before the engine is called again.
const fn is_data(command: &IsmCommand) -> bool {
    matches!(
        command,
        IsmCommand::Move { .. } | IsmCommand::Signal { .. } | IsmCommand::SignalEvent { .. }
    )
}

impl Hand {
    /// Does all that the engine asks for.
    pub fn pump(&mut self) {
        let mut outputs = Outputs::new(1);
        while let Some(output) = outputs.next(&mut self.endpoint, self.now) {
            match output {
                Output::Clc(conn, sent) => {
                    let parsed = ClcMessage::parse(sent).expect("what is emitted can be read");
                    self.sent_clc.push_back((conn, parsed.0));
                }
                Output::Tcp(conn, command) => self.tcp.push((conn, command)),
                Output::Rdma(command) => panic!("no RNIC does {command:?}"),
                Output::Ism(_, command) if self.hold && !is_data(&command) => {
                    self.commands.push_back(command);
                }
                Output::Ism(_, command) => self.execute(command),
                Output::Event(event) => {
                    if let Event::Proposed { conn } = event {
                        let ism = [self.path()];
                        let paths = Paths::new(&[], &ism);
                        // It may be gone already.
                        let _ = self.endpoint.accept(self.now, conn, paths);
                    }
                    self.events.push(event);
                }
            }
        }
    }

    /// The device executes a command.
    #[track_caller]
    pub fn execute(&mut self, command: IsmCommand) {
        if let Err(breach) = self.device.check(&command) {
            panic!("{breach}: {command:?}");
        }
        self.executed.push(command);
        match command {
            IsmCommand::AttachDmb { map, .. } => assert_eq!(map, self.mode.maps),
            IsmCommand::Move { source, offset, .. } => {
                let moved: u64 = source.iter().map(|at| u64::from(at.length)).sum();
                let end = u64::from(offset) + moved;
                let inside = offset >= HEAD && end <= u64::from(HEAD + RING);
                assert!(inside, "{command:?}");
            }
            _ => {}
        }
        if is_data(&command) {
            self.moved.push(command);
        }
        if let Some(answer) = self.device.done(&command) {
            self.endpoint.handle_ism(self.now, answer);
        }
    }
}
