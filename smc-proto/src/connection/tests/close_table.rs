//! Every cell of the table of states and events (RFC 7609 4.8).
//!
//! A cell is the next state, then what else happens: `s` a CDC message, `q` silence
//! (nothing more to the peer), `p` purge, `l` linger timer, `w` close wait timer,
//! `a` abort wait timer, `e` end of stream, `r` reset reported, `R` TCP reset,
//! `F` TCP may finish, `.` CLOSED reported. `-` is no change at all.

use crate::connection::close::{Act, Close, CloseState, Pending};
use crate::connection::faults::FatalCause;
use crate::connection::notices::CloseCause;
use crate::wire::cdc::ConnectionFlags;
use std::string::String;

const STATES: [(&str, CloseState); 10] = [
    ("ACT", CloseState::Active),
    ("PCW1", CloseState::PeerCloseWait1),
    ("PCW2", CloseState::PeerCloseWait2),
    ("AFCW", CloseState::AppFinCloseWait),
    ("ACW1", CloseState::AppCloseWait1),
    ("ACW2", CloseState::AppCloseWait2),
    ("PFCW", CloseState::PeerFinCloseWait),
    ("PAW", CloseState::PeerAbortWait),
    ("PA", CloseState::ProcessAbort),
    ("CLOSED", CloseState::Closed),
];

/// `+d` shutdown pending, `+c` close pending, `+p` the peer's C was seen, `+f` the
/// application closed, its C decided; `+x` that C emitted.
fn setup(name: &str) -> Close {
    let mut parts = name.split('+');
    let state = parts.next().unwrap();
    let mut close = Close::new();
    close.state = STATES.iter().find(|(n, _)| *n == state).unwrap().1;
    let c = ConnectionFlags::PEER_CONNECTION_CLOSED;
    let d = ConnectionFlags::SENDING_DONE;
    for part in parts {
        match part {
            "d" => close.pending = Pending::Done,
            "c" => {
                close.pending = Pending::Close;
                close.full = true;
            }
            "p" => close.peer_closed = true,
            "f" => {
                close.full = true;
                close.flags |= c;
            }
            "x" => close.emitted |= c,
            other => panic!("{other}"),
        }
    }
    match close.state {
        CloseState::PeerCloseWait1 | CloseState::PeerCloseWait2 | CloseState::AppCloseWait2
            if !close.full =>
        {
            close.flags |= d;
            close.emitted |= d;
        }
        CloseState::AppFinCloseWait => {
            close.flags |= d;
            close.emitted |= d;
            close.peer_closed = true;
        }
        CloseState::PeerFinCloseWait => close.full = true,
        CloseState::PeerAbortWait | CloseState::ProcessAbort => {
            close.flags |= ConnectionFlags::ABNORMAL_CLOSE;
            close.cause = Some(CloseCause::PeerAborted);
        }
        CloseState::Closed => close.cause = Some(CloseCause::Orderly),
        _ => {}
    }
    close
}

type Event = fn(&mut Close) -> Act;

const EVENTS: [(&str, Event); 15] = [
    ("close_unread", |c| c.close(true, true)),
    ("close_undrained", |c| c.close(false, false)),
    ("close", |c| c.close(false, true)),
    ("shut_undrained", |c| c.shutdown_write(false)),
    ("shut", |c| c.shutdown_write(true)),
    ("drained", Close::drained),
    ("rx_D", Close::peer_done),
    ("rx_C", |c| c.peer_closed(false)),
    ("rx_C_undelivered", |c| c.peer_closed(true)),
    ("rx_A", Close::peer_abort),
    ("abort", |c| c.abort(CloseCause::Aborted)),
    ("TCP_RST", Close::tcp_reset),
    ("lost", |c| c.lose(CloseCause::Fatal(FatalCause::LinkLost))),
    ("timer", Close::timeout),
    ("emitted", Close::emitted),
];

/// One line per setup, one column per event, reviewed against the RFC's table.
const TABLE: &str = include_str!("close_table.txt");

fn cell(setup_name: &str, event: Event) -> String {
    let mut close = setup(setup_name);
    let (state, pending, full) = (close.state, close.pending, close.full);
    let flags = close.flags;
    let peer_closed = close.peer_closed;
    let act = event(&mut close);
    let mut text = String::new();
    let changed = state != close.state
        || pending != close.pending
        || full != close.full
        || flags != close.flags
        || peer_closed != close.peer_closed;
    if !changed && act.is_empty() {
        text.push('-');
        return text;
    }
    text.push_str(STATES.iter().find(|(_, s)| *s == close.state).unwrap().0);
    match close.pending {
        Pending::Nothing => {}
        Pending::Done => text.push_str("+d"),
        Pending::Close => text.push_str("+c"),
    }
    if close.peer_closed && !peer_closed {
        text.push_str("+p");
    }
    let added = close.flags.difference(flags);
    for (flag, letter) in [
        (ConnectionFlags::SENDING_DONE, 'D'),
        (ConnectionFlags::PEER_CONNECTION_CLOSED, 'C'),
        (ConnectionFlags::ABNORMAL_CLOSE, 'A'),
    ] {
        if added.contains(flag) {
            text.push('!');
            text.push(letter);
        }
    }
    if !act.is_empty() {
        text.push(':');
    }
    for (bit, letter) in [
        (Act::SEND, 's'),
        (Act::SILENCE, 'q'),
        (Act::PURGE, 'p'),
        (Act::LINGER, 'l'),
        (Act::CLOSE_WAIT, 'w'),
        (Act::ABORT_WAIT, 'a'),
        (Act::END_OF_STREAM, 'e'),
        (Act::RESET, 'r'),
        (Act::TCP_RESET, 'R'),
        (Act::TCP_CLOSE, 'F'),
        (Act::CLOSED, '.'),
    ] {
        if act.contains(bit) {
            text.push(letter);
        }
    }
    text
}

#[test]
fn every_state_answers_every_event_as_the_table_says() {
    //= ABORT-001 test
    //= ABORT-006 test
    //= ABORT-007 test
    //= ABORT-014 test
    //= CASE-C09 test
    //= CLOSE-006 test
    //= CLOSE-007 test
    //= CLOSE-009 test
    //= CLOSE-010 test
    //= CLOSE-012 test
    //= CLOSE-017 test
    //= CLOSE-018 test
    //= CLOSE-020 test
    //= CLOSE-026 test
    //= CLOSE-028 test
    //= CLOSE-031 test
    //= CLOSE-039 test
    //= RMB-021 test
    let mut lines = TABLE.lines();
    let heads = lines.next().unwrap().split_whitespace().skip(1);
    assert!(heads.eq(EVENTS.iter().map(|(name, _)| *name)));
    let mut cells = 0;
    for line in lines {
        let mut columns = line.split_whitespace();
        let setup = columns.next().unwrap();
        for (name, event) in EVENTS {
            let expected = columns.next().unwrap();
            assert_eq!(cell(setup, event), expected, "{setup}, {name}");
            cells += 1;
        }
    }
    assert_eq!(cells, 22 * EVENTS.len());
}
