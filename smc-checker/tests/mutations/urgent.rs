//! Changes that the rules about urgent data are to find.

use smc_proto::wire::cdc::ProducerFlags;

use crate::scenario::valid::{token, write};
use crate::scenario::{CLIENT, SERVER, Scenario, cdc};
use crate::{Case, cdc_line, with};

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
        behind_urgent_data("cdc 2", ProducerFlags::URGENT_PRESENT)
    }),
    (&["urgent-over"], || {
        behind_urgent_data("cdc 2", ProducerFlags::URGENT_PENDING)
    }),
    (&["urgent-over"], || {
        behind_urgent_data("update", ProducerFlags::URGENT_PRESENT)
    }),
    // Once the urgent byte is read, the next one may be announced.
    (&[], || {
        behind_urgent_data("update", ProducerFlags::URGENT_PENDING)
    }),
    // What is published again behind a change of link has the present flag alone.
    (&[], || {
        with(|s| {
            s.remove("update");
            s.remove("write 3");
            s.remove("cdc 3");
            s.line("validation").cdc().sequence = 1;
            s.line("write 4").what = write(1, SERVER, 1, 2000, 1);
            let again = s.line("cdc 4").cdc();
            (again.sequence, again.producer.count) = (3, 2001);
            again.producer_flags = ProducerFlags::URGENT_PRESENT;
        })
        .up_to("cdc 4")
    }),
    (&["urgent-held"], || {
        with(|s| s.move_behind("write 3", "cdc 2"))
    }),
];

/// The client sends a message without data behind a line, with these flags.
fn behind_urgent_data(line: &str, flags: ProducerFlags) -> Scenario {
    with(|s| {
        let mut update = cdc(3, token(SERVER, 1), 2001, 0);
        update.producer_flags = flags;
        s.insert_behind(line, cdc_line(CLIENT, 0, update));
        s.line("cdc 3").cdc().sequence = 4;
        s.line("validation").cdc().sequence = 4;
        s.line("cdc 4").cdc().sequence = 5;
        s.line("done").cdc().sequence = 6;
        s.line("closed too").cdc().sequence = 7;
    })
}
