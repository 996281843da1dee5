//! Changes that the rules about the TCP connection are to find.

use crate::scenario::{CLIENT, Line, SERVER, What};
use crate::{Case, with};

pub(crate) static CASES: &[Case] = &[
    (&["tcp-data-in-rendezvous"], || {
        with(|s| {
            let words = What::Tcp(b"too early".to_vec());
            s.insert_behind("accept 1", Line::new("new", 0, SERVER, words));
        })
    }),
    (&["tcp-data-over-smc"], || {
        with(|s| {
            let words = What::Tcp(b"not here".to_vec());
            s.insert_behind("cdc 1", Line::new("new", 0, CLIENT, words));
        })
    }),
    (&["tcp-data-over-smc"], || {
        with(|s| {
            let mut again = s.line("proposal 1").clone();
            again.on = 0;
            s.insert_behind("cdc 1", again);
        })
    }),
];
