//! CLC messages in a TCP stream that is cut anywhere.

use smc_proto::endpoint::{ClcError, ClcProgress, Endpoint, Next};
use smc_proto::id::ConnId;
use smc_proto::storage::Owned;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::clc::{ClcHeader, ClcKind, MAX_LENGTH};

use super::Reader;
use super::attack::{Peer, bytes};
use super::clc::clc_message;
use super::reader::mutate;
use super::solo::Solo;

/// Shows bytes and checks what the answer reports of them.
pub(super) fn show(
    endpoint: &mut Endpoint<Owned>,
    now: Instant,
    conn: ConnId,
    bytes: &[u8],
) -> Result<ClcProgress, ClcError> {
    let progress = endpoint.handle_clc(now, conn, bytes);
    super::trace(format_args!("{conn}: {bytes:02x?} {progress:?}"));
    match progress {
        Ok(ClcProgress::NeedMore { total }) => {
            assert!(bytes.len() < total && total <= MAX_LENGTH, "{progress:?}");
        }
        Ok(ClcProgress::Consumed { len, .. }) => {
            let header = ClcHeader::parse(bytes).expect("only messages are consumed");
            assert_eq!(len, usize::from(header.length), "{progress:?}");
            assert!(len <= bytes.len(), "{progress:?}");
        }
        Ok(ClcProgress::NotClc) | Err(_) => {}
    }
    progress
}

/// A CLC message, right or wrong, and application bytes behind it, in pieces.
///
/// Nothing behind the message is consumed, what is needed only grows, and the
/// answer is the same as if all had come at once.
pub fn clc_stream(data: &[u8]) {
    let mut r = Reader::new(data);
    let mut solo = Solo::new(r.u8());
    let client = r.flag();
    let conn = if client {
        solo.open(true)
    } else {
        solo.side.open(
            false,
            smc_proto::endpoint::ConnOptions::new(Default::default()),
        )
    };
    let conn = conn.expect("tables are empty");
    // How far the rendezvous gets before.
    let rounds = r.below(5);
    if rounds > 0 && !client {
        solo.side.show(conn, &bytes(&Peer::proposal()));
    }
    for _ in 1..rounds {
        solo.honest();
        solo.side.advance(Duration::from_millis(2));
    }
    solo.side.poll(usize::MAX);

    let mut stream = match r.below(6) {
        0 => bytes(&clc_message(&mut r)),
        1 => bytes(&solo.peer.clc(&mut r)),
        2 => bytes(&Peer::proposal()),
        3 => {
            let sent = solo.side.clc.back().cloned();
            let answer = sent.and_then(|(_, sent)| solo.peer.answer_clc(&sent, true));
            answer.map_or_else(Vec::new, |answer| bytes(&answer))
        }
        4 => r.take(64).to_vec(),
        _ => {
            // A Decline, which ends the stream in any state.
            let mut decline = vec![0; 28];
            decline[..8].copy_from_slice(&[0xe2, 0xd4, 0xc3, 0xd9, 4, 0, 28, 0x10]);
            decline[24..].copy_from_slice(&[0xe2, 0xd4, 0xc3, 0xd9]);
            decline
        }
    };
    mutate(&mut r, &mut stream);
    let cuts: Vec<usize> = (0..r.below(8)).map(|_| 1 + r.below(64)).collect();
    stream.extend_from_slice(r.rest());

    let mut whole = solo.clone();
    let at_once = show(&mut whole.side.endpoint, whole.side.now, conn, &stream);
    let mut needed = 0;
    let mut shown = 0;
    let mut cuts = cuts.into_iter();
    let in_pieces = loop {
        let piece = cuts.next().unwrap_or(stream.len());
        shown = (shown + piece).min(stream.len());
        let progress = show(
            &mut solo.side.endpoint,
            solo.side.now,
            conn,
            &stream[..shown],
        );
        solo.side.check();
        match progress {
            Ok(ClcProgress::NeedMore { total }) => {
                assert!(total >= needed, "needed {needed}, then {total}");
                needed = total;
                if shown == stream.len() {
                    break progress;
                }
            }
            _ => break progress,
        }
    };
    assert_eq!(in_pieces, at_once);
    finish(&mut solo, conn, &stream, in_pieces);
}

/// What follows from the answer.
fn finish(solo: &mut Solo, conn: ConnId, stream: &[u8], progress: Result<ClcProgress, ClcError>) {
    solo.side.poll(usize::MAX);
    match progress {
        Ok(ClcProgress::Consumed {
            len,
            next: Next::Stop,
        }) => {
            // Whatever is behind is not this endpoint's any more, or an error.
            let after = solo
                .side
                .endpoint
                .handle_clc(solo.side.now, conn, &stream[len..]);
            let declined = stream[4] == ClcKind::Decline as u8;
            assert!(!declined || after == Ok(ClcProgress::NotClc), "{after:?}");
        }
        Err(_) => {
            let now = solo.side.now;
            let after = solo.side.endpoint.handle_clc(now, conn, stream);
            assert!(
                !matches!(after, Ok(ClcProgress::Consumed { .. })),
                "{after:?}"
            );
        }
        _ => {}
    }
    solo.side.poll(usize::MAX);
    solo.wind_down();
}
