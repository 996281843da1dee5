//! Runs with faults: whatever our engines do to each other, the judge has nothing to say.

use smc_checker::{Live, Seen};
use smc_transport_sim::chaos;

#[test]
fn our_engines_break_no_rule_under_faults() {
    let mut wrong = Vec::new();
    let mut messages = 0;
    // The last one gives up links while they are being added.
    for seed in (0..12).chain([131]) {
        let live = Live::default();
        let capture = live.capture().expect("memory");
        chaos::replay(seed, 0, Some(capture)).expect("memory");
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
        wrong.extend(judged.for_our_engine().map(|f| format!("seed {seed}: {f}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(messages > 5_000, "{messages}");
}
