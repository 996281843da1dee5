//! Changes that the rules about changes of link are to find.

use crate::{Case, with};

pub(crate) static CASES: &[Case] = &[
    (&["failover-validation", "failover-write"], || {
        with(|s| {
            s.remove("validation");
        })
    }),
    (&["failover-number"], || {
        with(|s| {
            s.line("validation").cdc().sequence = 9;
            s.line("cdc 4").cdc().sequence = 10;
            s.line("done").cdc().sequence = 11;
            s.line("closed too").cdc().sequence = 12;
        })
    }),
    (&["failover-resume"], || {
        with(|s| {
            s.line("cdc 4").cdc().sequence = 3;
            s.line("done").cdc().sequence = 4;
            s.line("closed too").cdc().sequence = 5;
        })
    }),
    (&["failover-replay"], || {
        with(|s| {
            s.line("cdc 4").cdc().producer.count = 2005;
        })
        .up_to("cdc 4")
    }),
    (&["failover-write"], || {
        with(|s| {
            // Too early, and once more where it belongs.
            let again = s.line("write 4").clone();
            s.insert_behind("cdc 3", again);
        })
    }),
];
