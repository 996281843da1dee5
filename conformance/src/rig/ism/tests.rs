//! Whether the contract is held to at all: the commands of an engine with a connection, with
//! one of them left out or given twice.

use smc_proto::command::IsmCommand;
use smc_proto::time::Duration;

use crate::rig::Ism;
use crate::smcd::hand::{Hand, Mode};

/// Commands of an engine whose only connection has sent something and ended, until nothing
/// is left.
fn commands(mode: Mode) -> Vec<IsmCommand> {
    let (mut hand, conn) = Hand::connected(mode, true);
    let now = hand.now;
    let mut c = hand.endpoint.conn(conn).expect("a connection");
    c.commit(now, 100).expect("there is room");
    hand.pump();
    let mut c = hand.endpoint.conn(conn).expect("a connection");
    c.abort(now);
    hand.pump();
    while let Some(due) = hand.endpoint.poll_timeout() {
        hand.wait(due.since(hand.now).max(Duration::from_millis(1)));
    }
    assert_eq!(hand.buffers().count(), 0);
    hand.executed
}

/// Gives commands to a new device, and executes each: which one breaks the contract first,
/// or that something is left at the end.
fn first_breach(commands: &[IsmCommand]) -> Result<(), &'static str> {
    let mut device = Ism::<()>::default();
    for command in commands {
        device.check(command)?;
        device.done(command);
    }
    match device.is_empty() {
        true => Ok(()),
        false => Err("something is left"),
    }
}

/// Whether a command may come again, and nothing builds upon it.
const fn is_free(command: &IsmCommand) -> bool {
    matches!(
        command,
        IsmCommand::Move { .. }
            | IsmCommand::Signal { .. }
            | IsmCommand::SignalEvent { .. }
            | IsmCommand::ClearDmb { .. }
    )
}

#[test]
fn an_engine_keeps_the_contract() {
    for mode in Mode::ALL {
        let commands = commands(mode);
        assert_eq!(first_breach(&commands), Ok(()), "{mode:?}");
        assert!(commands.iter().any(is_free), "{mode:?}");
    }
}

#[test]
fn a_command_that_is_left_out_is_missed() {
    for mode in Mode::ALL {
        let commands = commands(mode);
        for (at, left_out) in commands.iter().enumerate() {
            if is_free(left_out) {
                continue;
            }
            let mut others = commands.clone();
            others.remove(at);
            assert!(first_breach(&others).is_err(), "without {left_out:?}");
        }
    }
}

#[test]
fn a_command_is_not_given_twice() {
    for mode in Mode::ALL {
        let commands = commands(mode);
        let mut device = Ism::<()>::default();
        for command in &commands {
            device.check(command).expect("as the engine gave it");
            device.done(command);
            if !is_free(command) {
                assert!(device.check(command).is_err(), "{command:?} again");
            }
        }
    }
}
