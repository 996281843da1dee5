//! Changes that the rules about urgent data are to find.

use smc_proto::wire::cdc::ProducerFlags;

use crate::story::told::{token, write};
use crate::story::{CLIENT, SERVER, cdc};
use crate::{Case, say, with};

pub(crate) static CASES: &[Case] = &[
    (&["urgent-pending"], || {
        with(|s| s.line("cdc 2").cdc().producer_flags = ProducerFlags::URGENT_PRESENT)
    }),
    (&["urgent-published"], || {
        with(|s| {
            s.remove("write 2");
            s.line("cdc 2").cdc().producer.count = 2000;
            s.line("update").cdc().consumer.count = 2000;
            s.line("write 3").what = write(0, SERVER, 1, 2000, 11);
        })
    }),
    (&["urgent-over"], || {
        with(|s| {
            let news = cdc(3, token(SERVER, 1), 2001, 0);
            s.insert_behind("update", say(CLIENT, 0, news));
            s.line("cdc 3").cdc().sequence = 4;
            s.line("validation").cdc().sequence = 4;
            s.line("cdc 4").cdc().sequence = 5;
            s.line("done").cdc().sequence = 6;
            s.line("closed too").cdc().sequence = 7;
        })
    }),
    (&["urgent-held"], || {
        with(|s| s.move_behind("write 3", "cdc 2"))
    }),
];
