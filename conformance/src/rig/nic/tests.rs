//! Whether the contract is held to at all: the commands of an engine from its first link to
//! its last one, with one of them left out, given twice or changed.

use smc_proto::command::{RdmaCommand, Segment};
use smc_proto::event::Event;
use smc_proto::id::WrId;
use smc_proto::time::Duration;

use crate::rig::{Kind, Nic, Rig};

/// Commands of a server with a connection that writes, and whose group is deleted then.
fn commands() -> Vec<RdmaCommand> {
    let mut rig = Rig::new(1, |_| {});
    let (conn, _) = rig.server_up();
    let now = rig.now;
    let mut c = rig.endpoint.conn(conn).expect("a connection");
    c.commit(now, 100).expect("there is room");
    rig.pump();
    let group = rig.events.iter().find_map(|event| match event {
        Event::GroupUp { group } => Some(*group),
        _ => None,
    });
    rig.endpoint.delete_group(rig.now, group.expect("a group"));
    rig.wait(Duration::from_secs(3600));
    assert_eq!(rig.nic.is_empty(), Ok(()));
    rig.commands
}

/// Gives commands to a new RNIC, and executes each: which one breaks the contract first, or
/// what is left at the end.
fn first_breach(commands: &[RdmaCommand]) -> Result<(), String> {
    let mut nic = Nic::<()>::default();
    for command in commands {
        nic.issue(command)?;
        nic.done(command);
    }
    nic.is_empty()
}

#[test]
fn an_engine_keeps_the_contract_and_uses_all_of_it() {
    let commands = commands();
    assert_eq!(first_breach(&commands), Ok(()));
    let given = |kind| commands.iter().any(|command| Kind::of(command) == kind);
    for kind in Kind::CONTROL.into_iter().chain([Kind::Write, Kind::Send]) {
        assert!(given(kind), "{kind}");
    }
}

#[test]
fn a_command_that_is_left_out_is_missed() {
    let commands = commands();
    let last = |at: usize, kind| {
        let of = |command: &RdmaCommand| Kind::of(command) == kind;
        !commands[at + 1..].iter().any(of)
    };
    for (at, left_out) in commands.iter().enumerate() {
        let kind = Kind::of(left_out);
        // Nothing builds upon zeros or a WRITE, nor upon the last SEND.
        let idle = matches!(kind, Kind::Clear | Kind::Write);
        if idle || (kind == Kind::Send && last(at, kind)) {
            continue;
        }
        let mut others = commands.clone();
        others.remove(at);
        assert!(first_breach(&others).is_err(), "without {left_out:?}");
    }
}

#[test]
fn a_command_is_not_given_again_while_it_is_executed_or_when_it_was() {
    let commands = commands();
    for (at, twice) in commands.iter().enumerate() {
        let mut nic = Nic::<()>::default();
        for command in &commands[..at] {
            nic.issue(command).expect("as the engine gave it");
            nic.done(command);
        }
        nic.issue(twice).expect("as the engine gave it");
        let kind = Kind::of(twice);
        if kind != Kind::Write {
            assert!(nic.issue(twice).is_err(), "{twice:?} at once");
        }
        nic.done(twice);
        if !matches!(kind, Kind::Clear | Kind::Write) {
            assert!(nic.issue(twice).is_err(), "{twice:?} again");
        }
    }
}

#[test]
fn work_that_a_queue_pair_cannot_take_is_refused() {
    let commands = commands();
    let first = |kind| {
        let mut all = commands.iter();
        let at = all.position(|command| Kind::of(command) == kind);
        at.expect("one of each")
    };
    let before = |at: usize| {
        let mut nic = Nic::<()>::default();
        for command in &commands[..at] {
            nic.issue(command).expect("as the engine gave it");
            nic.done(command);
        }
        nic
    };
    // A WRITE from where there is no memory, and one of nothing.
    let at = first(Kind::Write);
    let RdmaCommand::Write { source, .. } = commands[at] else {
        panic!("{:?}", commands[at]);
    };
    for (offset, length) in [(u32::MAX, 1), (0, u32::MAX), (0, 0)] {
        let mut wrong = commands[at];
        if let RdmaCommand::Write { source, .. } = &mut wrong {
            source[0] = Segment { offset, length };
        }
        assert!(before(at).issue(&wrong).is_err(), "{wrong:?} {source:?}");
    }
    // More SENDs than are to be held, of which none was reported.
    let at = first(Kind::Send);
    let RdmaCommand::Send {
        link,
        wr_id,
        payload,
    } = commands[at]
    else {
        panic!("{:?}", commands[at]);
    };
    let mut nic = before(at);
    let taken = (wr_id.0..100).take_while(|number| {
        let wr_id = WrId(*number);
        let send = RdmaCommand::Send {
            link,
            wr_id,
            payload,
        };
        nic.issue(&send).is_ok()
    });
    assert_eq!(taken.count(), 16);
    // And none while it is drained.
    let mut nic = before(at);
    nic.issue(&RdmaCommand::QpToError { link })
        .expect("it is up");
    assert!(nic.issue(&commands[at]).is_err());
}
