//! The oracle catches what must not be.

use smc_proto::event::CloseReason;

use super::*;

fn end(transport: Transport, closed: Option<CloseReason>) -> End {
    End {
        state: SocketState {
            transport,
            conn: None,
            first_contact: false,
            fell_back: None,
            closed,
            tcp_reset: false,
            crashed: false,
        },
        planned: 100,
        written: 100,
        read: 100,
        at_end: true,
    }
}

fn good() -> Conduct {
    let end = end(Transport::Smc, Some(CloseReason::Normal));
    Conduct {
        ends: [end, end],
        graceful: true,
        survivable: true,
    }
}

/// Changes a good end and returns the verdict.
fn verdict(change: impl FnOnce(&mut Conduct)) -> Result<Outcome, String> {
    let mut conduct = good();
    change(&mut conduct);
    conduct.judge().map_err(|wrong| wrong.join("; "))
}

#[test]
fn all_bytes_and_an_orderly_end_are_complete() {
    assert_eq!(verdict(|_| {}), Ok(Outcome::Complete));
    let over_tcp = |conduct: &mut Conduct| {
        conduct.ends = [end(Transport::Tcp, None); 2];
        conduct.survivable = false;
    };
    assert_eq!(verdict(over_tcp), Ok(Outcome::CompleteOverTcp));
}

#[test]
fn a_connection_with_a_way_through_must_complete() {
    let short = |conduct: &mut Conduct| conduct.ends[1].read = 99;
    assert!(verdict(short).unwrap_err().contains("99 of 100"));
    let lost = |conduct: &mut Conduct| {
        conduct.ends[0].state.closed = Some(CloseReason::LinksLost);
    };
    assert!(verdict(lost).unwrap_err().contains("LinksLost"));
    // A side that has sent its close uses the peer's RMB no more, so that the peer may
    // withdraw it: no connection ends by that.
    let conflict = |conduct: &mut Conduct| {
        conduct.ends[1].state.closed = Some(CloseReason::RmbeConflict);
    };
    assert!(verdict(conflict).unwrap_err().contains("RmbeConflict"));
    // With a fault that took all links, the same is all right.
    let excused = |conduct: &mut Conduct| {
        lost(conduct);
        conduct.survivable = false;
    };
    assert_eq!(verdict(excused), Ok(Outcome::Broken));
    // And so it is if an application wanted no more.
    let early = |conduct: &mut Conduct| {
        lost(conduct);
        conduct.graceful = false;
    };
    assert_eq!(verdict(early), Ok(Outcome::EndedEarly));
}

#[test]
fn no_side_waits_for_ever() {
    let waits = |conduct: &mut Conduct| {
        conduct.survivable = false;
        conduct.ends[0].state.closed = None;
    };
    assert!(
        verdict(waits)
            .unwrap_err()
            .contains("client waits for ever")
    );
    let tcp = |conduct: &mut Conduct| {
        conduct.survivable = false;
        conduct.ends[1] = end(Transport::Tcp, None);
        conduct.ends[1].at_end = false;
    };
    assert!(verdict(tcp).unwrap_err().contains("server waits for ever"));
    let crashed = |conduct: &mut Conduct| {
        waits(conduct);
        conduct.ends[0].state.crashed = true;
    };
    assert_eq!(verdict(crashed), Ok(Outcome::Broken));
}

#[test]
fn no_side_reads_what_was_never_written() {
    let more = |conduct: &mut Conduct| {
        conduct.survivable = false;
        conduct.ends[0].read = 101;
    };
    assert!(verdict(more).unwrap_err().contains("101 of 100"));
}

#[test]
fn both_ends_agree_on_what_carries_them() {
    let differ = |conduct: &mut Conduct| {
        conduct.survivable = false;
        conduct.ends[1] = end(Transport::Tcp, None);
    };
    assert!(verdict(differ).unwrap_err().contains("I12"));
    let notified = |conduct: &mut Conduct| {
        differ(conduct);
        conduct.ends[1].state.tcp_reset = true;
    };
    assert_eq!(verdict(notified), Ok(Outcome::Broken));
}

#[test]
fn a_connection_that_never_stood_is_over() {
    let never = |conduct: &mut Conduct| {
        conduct.survivable = false;
        conduct.ends = [end(Transport::None, None); 2];
        conduct.ends[0].state.tcp_reset = true;
        for end in &mut conduct.ends {
            (end.read, end.written) = (0, 0);
        }
    };
    assert_eq!(verdict(never), Ok(Outcome::Broken));
    assert_eq!(end(Transport::None, None).fate(), Fate::Absent);
}
