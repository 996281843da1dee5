//! The scenarios.

use smc_proto::config::Offers;
use smc_proto::time::Duration;
use smc_proto::wire::types::DiagnosisCode;

use super::scenario::{Act, Scenario};

/// Bytes that lap a ring several times.
const BULK: u64 = 100_000;
const BACK: Duration = Duration::from_millis(30);

/// All of them.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::smcr("first contact").whole(0, 0, 1_000),
        Scenario::smcr("first contact, version 2")
            .version_2()
            .whole(0, 0, 1_000),
        Scenario::smcr("subsequent contact")
            .at(0, Act::Open(0))
            .both_write(0, 0, 1_000)
            .whole(10, 1, 1_000)
            .both_finish(20, 0),
        Scenario::smcr("subsequent contact, version 2")
            .version_2()
            .at(0, Act::Open(0))
            .both_write(0, 0, 1_000)
            .whole(10, 1, 1_000)
            .both_finish(20, 0),
        Scenario::smcr("both hosts connect")
            .whole(0, 0, 1_000)
            .at(0, Act::Open(1))
            .both_write(0, 1, 1_000)
            .both_finish(0, 1),
        Scenario::smcr("second link")
            .rnics(2)
            .whole(0, 0, 1_000)
            .whole(10, 1, 1_000),
        add_link_continuation(),
        Scenario::smcr("CONFIRM RKEY of a new RMB")
            .rnics(2)
            .at(0, Act::Open(0))
            .both_write(0, 0, 1_000)
            .whole(20, 1, 1_000)
            .both_finish(30, 0),
        Scenario::smcr("CONFIRM RKEY, version 2")
            .version_2()
            .rnics(2)
            .at(0, Act::Open(0))
            .both_write(0, 0, 1_000)
            .whole(20, 1, 1_000)
            .both_finish(30, 0),
        rmbs_grow(),
        Scenario::smcr("failover")
            .rnics(2)
            .at(0, Act::Open(0))
            .both_write(0, 0, BULK)
            .whole(10, 1, BULK)
            .at(10, Act::LinkFails(0))
            .both_write(20, 0, 1_000)
            .both_finish(20, 0),
        Scenario::smcr("revive")
            .rnics(2)
            .at(0, Act::Open(0))
            .both_write(0, 0, 1_000)
            .at(10, Act::PortsDown(0, BACK))
            .both_write(11, 0, 1_000)
            .both_write(60, 0, 1_000)
            .both_finish(60, 0),
        Scenario::smcr("bulk").whole(0, 0, BULK),
        Scenario::smcr("urgent")
            .at(0, Act::Open(0))
            .at(0, Act::Urge(0, 0))
            .both_write(0, 0, 1_000)
            .both_write(5, 0, 20_000)
            .both_finish(6, 0),
        Scenario::smcr("half-close")
            .at(0, Act::Open(0))
            .at(0, Act::Write(0, 0, 1_000))
            .at(0, Act::Finish(0, 0))
            .at(10, Act::Write(0, 1, BULK))
            .at(10, Act::Finish(0, 1)),
        Scenario::smcr("abort")
            .at(0, Act::Open(0))
            .both_write(0, 0, BULK)
            .at(1, Act::Abort(0, 0)),
        Scenario::smcr("crossing closes")
            .at(0, Act::Open(0))
            .both_write(0, 0, 1_000)
            .at(5, Act::Close(0, 0))
            .at(5, Act::Close(0, 1)),
        many(),
        Scenario::smcr("keepalive")
            .keepalive(Duration::from_millis(20), Duration::from_secs(1))
            .at(0, Act::Open(0))
            .both_write(0, 0, 1_000)
            .both_write(90, 0, 1_000)
            .both_finish(90, 0),
        Scenario::smcr("group deleted")
            .whole(0, 0, 1_000)
            .at(10, Act::Leave(1))
            .whole(20, 1, 1_000),
        Scenario::smcr("fallback with data")
            .declined(DiagnosisCode::CONFIGURATION)
            .whole(0, 0, 10_000),
        Scenario::smcd("SMC-D, version 1", Offers::SMCD_V1)
            .whole(0, 0, 1_000)
            .whole(10, 1, 1_000),
        Scenario::smcd("SMC-D, version 2", Offers::SMCD_V2)
            .whole(0, 0, 1_000)
            .whole(10, 1, 1_000),
        Scenario::smcd("SMC-D bulk", Offers::SMCD_V2).whole(0, 0, BULK),
        Scenario::smcd("SMC-D group deleted", Offers::SMCD_V2)
            .whole(0, 0, 1_000)
            .at(10, Act::Leave(0))
            .whole(20, 1, 1_000),
    ]
}

/// A link is added to a group with more RMBs than one message names.
fn add_link_continuation() -> Scenario {
    let second_port_away = Act::PortsDown(1, BACK);
    let mut scenario = Scenario::smcr("ADD LINK with CONTINUATIONs")
        .rnics(2)
        .at(0, second_port_away);
    for conn in 0..5 {
        scenario = scenario
            .at(1, Act::Open(0))
            .both_write(1, conn, 1_000)
            .both_finish(60, conn);
    }
    scenario
}

/// Elements are all in use, then free again.
fn rmbs_grow() -> Scenario {
    let mut scenario = Scenario::smcr("RMBs grow, elements are used again").elements(2);
    for conn in 0..3 {
        scenario = scenario
            .at(3 * conn as u64, Act::Open(0))
            .both_write(10, conn, 1_000);
    }
    scenario
        .both_finish(15, 1)
        .whole(20, 3, 20_000)
        .both_finish(30, 0)
        .both_finish(30, 2)
}

fn many() -> Scenario {
    (0..12).fold(Scenario::smcr("many connections"), |scenario, conn| {
        scenario.whole(0, conn, 1_000)
    })
}
