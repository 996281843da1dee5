//! The engine's door to its ISM devices.

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::id::DeviceId;

use super::{Binding, Fabric, Struck};
use crate::fabric::HostId;
use crate::fault::{FaultAction, Operation};
use crate::observe::IsmContent;

/// The operation that a command is; `None` for an event.
const fn operation(command: &IsmCommand) -> Option<Operation> {
    Some(match command {
        IsmCommand::RegisterDmb { .. } => Operation::RegisterDmb,
        IsmCommand::UnregisterDmb { .. } => Operation::UnregisterDmb,
        IsmCommand::ClearDmb { .. } => Operation::ClearDmb,
        IsmCommand::AllocBuffer { .. } => Operation::AllocateBuffer,
        IsmCommand::FreeBuffer { .. } => Operation::FreeBuffer,
        IsmCommand::AttachDmb { .. } => Operation::AttachDmb,
        IsmCommand::DetachDmb { .. } => Operation::DetachDmb,
        IsmCommand::Move { .. } | IsmCommand::Signal { .. } => Operation::Move,
        IsmCommand::SignalEvent { .. } => return None,
    })
}

/// What a host may not ask for: memory it has already, or has not.
fn mistake(binding: &Binding<Struck>, command: &IsmCommand) -> Option<&'static str> {
    let holds = |buffer| binding.holds(buffer);
    match *command {
        IsmCommand::RegisterDmb { buffer, .. } | IsmCommand::AllocBuffer { buffer, .. } => {
            holds(buffer).then_some("provided twice")
        }
        IsmCommand::UnregisterDmb { buffer }
        | IsmCommand::ClearDmb { buffer }
        | IsmCommand::FreeBuffer { buffer }
        | IsmCommand::DetachDmb { buffer, .. } => (!holds(buffer)).then_some("not there"),
        IsmCommand::Move { buffer, .. } | IsmCommand::Signal { buffer, .. } => binding
            .remote(buffer)
            .is_none()
            .then_some("bound to nothing"),
        IsmCommand::AttachDmb { .. } | IsmCommand::SignalEvent { .. } => None,
    }
}

impl Fabric {
    /// Executes a command of a host's engine for one of its ISM devices.
    pub fn execute_ism(&mut self, host: HostId, device: DeviceId, command: IsmCommand) {
        let mut latency = self.config.control_latency;
        let mut refused = false;
        if let Some(operation) = operation(&command) {
            let struck = self.plan.strike(host, operation, &mut self.random);
            for (fault, action) in &struck {
                match *action {
                    FaultAction::Refuse if operation.is_control() => refused = true,
                    FaultAction::Refuse | FaultAction::FailMove if !operation.is_control() => {
                        refused = true;
                        self.note_ism_harm(*fault, host);
                        continue;
                    }
                    FaultAction::Delay(time) if operation.is_control() => {
                        latency = latency.saturating_add(time);
                    }
                    _ => continue,
                }
                self.note_fault(*fault, host);
            }
            self.apply(&struck, host, None);
            // The command is lost with its host.
            if self.is_away(host) {
                return;
            }
        }
        let now = self.queue.now();
        match &command {
            IsmCommand::Signal { cdc, .. } => self.ism.note_phase(host, now, Some(cdc)),
            IsmCommand::Move { .. } => self.ism.note_phase(host, now, None),
            _ => {}
        }
        if let IsmCommand::Move { conn, .. } | IsmCommand::Signal { conn, .. } = command
            && self.ism.owes_failure(host, conn)
        {
            return;
        }
        let watched = !self.observers.is_empty();
        let Some(binding) = self.ism.binding_mut(host, device) else {
            return;
        };
        if let Some(what) = mistake(binding, &command) {
            self.violation(host, format!("{command:?}: {what}"));
            return;
        }
        binding.device_mut().watch(watched);
        // Memory to move from is the host's own, and no device refuses it.
        let mut answers = Vec::new();
        match command {
            IsmCommand::AllocBuffer { buffer, .. } | IsmCommand::FreeBuffer { buffer }
                if refused =>
            {
                answers.push(IsmCompletion::Refused { buffer });
            }
            _ => {
                binding.device_mut().refuse(refused);
                binding.execute(command);
                binding.device_mut().refuse(false);
            }
        }
        let _ = self.take_ism_reports();
        // Its own answers; what peers did is delivered when that is due.
        if let Some(binding) = self.ism.binding_mut(host, device) {
            answers.extend(std::iter::from_fn(|| binding.poll()));
        }
        for answer in answers {
            match answer {
                IsmCompletion::MoveFailed { .. } => self.ism_report(host, answer),
                _ => self.ism_report_at(latency, host, answer),
            }
        }
        self.show_ism(host, device, &command);
    }

    /// Shows what a command did to other hosts.
    fn show_ism(&mut self, host: HostId, device: DeviceId, command: &IsmCommand) {
        self.show_moved(host, device);
        if let IsmCommand::SignalEvent {
            peer, code, info, ..
        } = *command
            && let Some(from) = self.ism.binding(host, device)
            && let Some((to, _)) = self.ism_reach(from.device().config().gid, peer)
        {
            self.observe_ism(host, to, IsmContent::Event { code, info });
        }
    }
}
