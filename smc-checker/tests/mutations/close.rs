//! Changes that the rules about close and abort are to find.

use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};

use crate::scenario::valid::write;
use crate::scenario::{CLIENT, Line, SERVER};
use crate::{Case, cdc_line, with};

pub(crate) static CASES: &[Case] = &[
    (&["close-is-final"], || {
        with(|s| {
            let mut more = *s.line("closed").cdc();
            more.sequence = 3;
            more.producer_flags = ProducerFlags::WRITER_BLOCKED;
            s.insert_behind("closed", cdc_line(SERVER, 0, more));
        })
    }),
    (&["abort-is-final"], || {
        with(|s| {
            let mut more = *s.line("abort").cdc();
            more.sequence = 2;
            more.producer_flags = ProducerFlags::WRITER_BLOCKED;
            s.insert_behind("abort", cdc_line(CLIENT, 0, more));
        })
    }),
    (&["close-levels"], || {
        with(|s| {
            let mut less = *s.line("done").cdc();
            less.sequence = 6;
            less.connection_flags = ConnectionFlags::empty();
            s.insert_behind("done", cdc_line(CLIENT, 1, less));
            s.line("closed too").cdc().sequence = 7;
        })
    }),
    (&["close-no-data"], || {
        with(|s| {
            // Written before it sent done, published behind it.
            let what = write(1, SERVER, 1, 2016, 10);
            s.insert_behind("cdc 4", Line::new("new", 1, CLIENT, what));
            s.line("closed too").cdc().producer.count = 2026;
        })
    }),
    (&["close-or-abort"], || {
        with(|s| s.line("closed too").cdc().connection_flags |= ConnectionFlags::ABNORMAL_CLOSE)
    }),
    (&["close-no-write"], || {
        with(|s| {
            let what = write(1, SERVER, 1, 2016, 10);
            s.insert_behind("done", Line::new("new", 1, CLIENT, what));
        })
    }),
];
