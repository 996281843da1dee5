//! Changes that the rules about CDC messages and cursors are to find.

use smc_proto::wire::types::AlertToken;

use crate::{Case, with};

pub(crate) static CASES: &[Case] = &[
    (&["cdc-reserved"], || {
        with(|s| s.line("cdc 1").patch = Some((40, 1)))
    }),
    (&["cdc-token"], || {
        with(|s| {
            s.line("cdc 5").cdc().alert_token = AlertToken(5);
            for name in [
                "write 5",
                "abort",
                "abort reply",
                "delete rkey",
                "delete rkey reply",
            ] {
                s.remove(name);
            }
        })
    }),
    (&["cdc-first"], || {
        with(|s| {
            s.line("cdc 5").cdc().sequence = 2;
            s.line("abort reply").cdc().sequence = 3;
        })
    }),
    (&["cdc-sequence"], || {
        with(|s| {
            s.line("done").cdc().sequence = 7;
            s.line("closed too").cdc().sequence = 8;
        })
    }),
    (&["cdc-cursor"], || {
        with(|s| {
            s.line("closed").cdc().consumer.count = 20_000;
        })
        .up_to("closed")
    }),
    (&["cdc-start"], || {
        with(|s| {
            for name in ["cdc 5", "abort reply"] {
                s.line(name).cdc().producer.wrap = 0xffff;
            }
        })
    }),
    (&["cdc-producer"], || {
        with(|s| {
            s.line("done").cdc().producer.count = 2000;
            s.line("closed too").cdc().producer.count = 2000;
        })
    }),
    (&["cdc-consumer"], || {
        with(|s| s.line("closed").cdc().consumer.count = 2000)
    }),
    (&["cdc-written-first"], || {
        with(|s| {
            s.remove("write 3");
        })
    }),
];
