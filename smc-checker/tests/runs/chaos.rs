//! Runs with faults: whatever our engines do to each other, the judge finds nothing.

use smc_checker::{Live, Seen};
use smc_transport_sim::chaos;

/// Seeds that show what is seldom, and what that is.
const ODD: [(u64, &str); 10] = [
    (131, "links are given up while they are being added"),
    (
        1013,
        "a clock jumps, and timers run out that others see begin",
    ),
    (
        1021,
        "a link that was given up is rejected behind the next ADD LINK",
    ),
    (1042, "an RMB is confirmed while a link is being added"),
    (1450, "an Accept comes behind the link that it names"),
    (1524, "a reader takes what was announced seconds ago"),
    (
        1617,
        "a client gives a link up while the server announces its RMBs",
    ),
    (
        2397,
        "a server that had no second port in the first contact gets one",
    ),
    (2582, "an Accept comes in pieces while its link goes"),
    (
        3926,
        "DELETE LINK overtakes an ADD LINK CONTINUATION on another link",
    ),
];

#[test]
fn our_engines_break_no_rule_under_faults() {
    let mut wrong = Vec::new();
    let mut messages = 0;
    for seed in (0..12).chain(ODD.map(|(seed, _)| seed)) {
        let live = Live::default();
        let capture = live.capture().expect("memory");
        let (run, _) = chaos::replay(seed, 0, Some(capture)).expect("memory");
        let judged = live.finish().expect("a capture");
        let Seen {
            llc,
            cdc,
            writes,
            strangers,
            ..
        } = judged.seen;
        assert_eq!(strangers, 0, "seed {seed}");
        messages += llc + cdc + writes;
        let findings = judged.for_our_engine(run.clocks_jumped());
        wrong.extend(findings.map(|f| format!("seed {seed}: {f}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(messages > 5_000, "{messages}");
}
