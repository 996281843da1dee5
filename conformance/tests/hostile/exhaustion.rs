//! Whatever an engine asks for and does not get: every connection comes to its end as it
//! should, and nothing is left. All requests: `conformance exhaustion`.

use std::fmt::Write;
use std::num::NonZero;

use conformance::exhaustion::{Resource, Tally, round, scenarios};

/// Of each resource, so many of a host's requests are refused here.
const FEW: u64 = 3;

/// What each scenario asks for if nothing is refused, in the order of `Resource::ALL`:
/// connections, handshakes, groups, links, buffers, RMBs of the peer; queue pairs made,
/// connected, activated; memory, registrations, elements; DMBs made, attached, cleared;
/// room after SENDs, WRITEs and commands; receives; room after events.
const ASKED_FOR: &str = "\
first contact                          2   2   2   3   4   2   3   2   2   4   4   2   0   0   0  10   2  19  10  19
first contact, version 2               2   2   2   3   4   2   3   2   2   4   6   2   0   0   0  10   2  23  10  19
subsequent contact                     4   4   2   3   8   4   3   2   2   8   8   4   0   0   0  19   4  29  19  29
subsequent contact, version 2          4   4   2   3   8   4   3   2   2   8  10   4   0   0   0  19   4  33  19  29
both hosts connect                     4   4   4   6   8   4   6   4   4   8   8   4   0   0   0  20   4  38  20  38
second link                            4   4   2   4   4   2   4   4   4   4   8   4   0   0   0  18   4  28  18  33
ADD LINK with CONTINUATIONs           10  10   2   5  20  10   5   4   4  20  40  10   0   0   0  61  10  85  61  67
CONFIRM RKEY of a new RMB              4   4   2   4   8   4   4   4   4   8  16   4   0   0   0  23   4  40  23  33
CONFIRM RKEY, version 2                4   4   2   4   8   4   4   4   4   8  16   4   0   0   0  21   4  40  21  33
RMBs grow, elements are used again     8   8   2   3  10   4   3   2   2  10  10   8   0   0   0  33  10  37  33  56
failover                               4   4   2   6   8   4   6   6   6   8  20   4   0   0   0  84  30  58  84  88
revive                                 2   2   2   7   4   2   7   6   6   4  12   2   0   0   0  32   6  47  32  31
bulk                                   2   2   2   3   4   2   3   2   2   4   4   2   0   0   0  34  14  19  34  43
urgent                                 2   2   2   3   4   2   3   2   2   4   4   2   0   0   0  16   4  19  16  25
half-close                             2   2   2   3   4   2   3   2   2   4   4   2   0   0   0  21   8  19  21  31
abort                                  2   2   2   2   4   2   2   2   1   4   4   2   0   0   0   0   0  27   0   3
crossing closes                        2   2   2   3   4   2   3   2   2   4   4   2   0   0   0   8   2  19   8  15
many connections                      24  24   2   3  45  23   3   2   2  45  45  24   0   0   0 107  24 123 107 129
keepalive                              2   2   2   3   4   2   3   2   2   4   4   2   0   0   0  36   4  19  36  21
group deleted                          4   4   4   6   8   4   6   4   4   8   8   4   0   0   0  21   4  44  21  38
fallback with data                     2   2   0   0   0   0   0   0   0   0   0   0   0   0   0   0   0   0   0   3
SMC-D, version 1                       4   4   2   0   6   0   0   0   0   0   0   0   2   4   4   0   0  14   0  22
SMC-D, version 2                       4   4   2   0   6   0   0   0   0   0   0   0   2   4   4   0   0  14   0  22
SMC-D bulk                             2   2   2   0   4   0   0   0   0   0   0   0   2   2   2   0   0   8   0  37
SMC-D group deleted                    4   4   4   0   8   0   0   0   0   0   0   0   4   4   4   0   0  18   0  28
";

#[test]
fn whatever_is_refused_every_connection_ends_and_everything_is_given_back() {
    //= CASE-B09 test
    //= CLC-054 test
    let two = NonZero::new(2).expect("two");
    let outcomes = round(scenarios(), Some(FEW), two, |_| ());
    let mut asked_for = String::new();
    let mut all = Tally::default();
    for one in outcomes {
        let counts = Resource::ALL.map(|resource| format!("{:>4}", one.requests.of(resource)));
        writeln!(asked_for, "{:<36}{}", one.name, counts.concat()).expect("room");
        all.join(one.tally);
    }
    let failures = &all.failures;
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(asked_for, ASKED_FOR, "\n{asked_for}");
    assert_eq!(all.runs, RUNS);
}

/// Runs with a request refused.
const RUNS: u64 = 2_446;
