//! Changes that the rules about windows are to find.

use smc_proto::wire::cdc::ProducerFlags;

use crate::scenario::valid::{token, write};
use crate::scenario::{CLIENT, Line, SERVER, cdc};
use crate::{Case, cdc_line, with};

pub(crate) static CASES: &[Case] = &[
    (&["window-producer", "window-write"], || {
        with(|s| {
            // One byte more than the element holds.
            let more = [(2000, 14_384), (0, 1)];
            for (offset, length) in more.into_iter().rev() {
                let what = write(0, SERVER, 1, offset, length);
                s.insert_behind("cdc 1", Line::new("new", 0, CLIENT, what));
            }
            let mut update = cdc(2, token(SERVER, 1), 1, 0);
            update.producer.wrap = 1;
            let end = s.place("write 2");
            s.0.truncate(end);
            s.0.push(cdc_line(CLIENT, 0, update));
        })
    }),
    (&["window-consumer"], || {
        with(|s| s.line("update").cdc().consumer.count = 2002)
    }),
    (&["window-needless"], || {
        with(|s| {
            let mut again = *s.line("cdc 4").cdc();
            again.sequence = 5;
            s.insert_behind("cdc 4", cdc_line(CLIENT, 1, again));
            s.line("done").cdc().sequence = 6;
            s.line("closed too").cdc().sequence = 7;
        })
    }),
    (&["window-update"], || {
        with(|s| {
            s.line("cdc 2").cdc().producer_flags = ProducerFlags::empty();
        })
    }),
    (&["window-write"], || {
        with(|s| {
            let what = write(0, SERVER, 1, 1999, 1);
            s.insert_behind("cdc 1", Line::new("new", 0, CLIENT, what));
        })
    }),
];
