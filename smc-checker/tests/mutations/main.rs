//! Each rule finds what breaks it: a good conversation in which one thing is changed.

mod cdc;
mod clc;
mod close;
mod contact;
mod failover;
mod links;
mod llc;
mod rkeys;
mod scenario;
mod tcp;
mod urgent;
mod version;
mod window;

use std::collections::BTreeSet;
use std::path::Path;

use scenario::valid::{delete_link, of_kernels, test_link, whole, write};
use scenario::{CLIENT, Line, SERVER, Scenario, What};
use smc_capture::reader::CaptureReader;
use smc_checker::Checker;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage};

/// What a test changes, and the rules that are to find it.
type Case = (&'static [&'static str], fn() -> Scenario);

/// The whole conversation with a change.
fn with(change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut scenario = whole();
    change(&mut scenario);
    scenario
}

/// The first connection of kernels, with a change.
fn kernels(name: &str, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut scenario = of_kernels(name);
    change(&mut scenario);
    scenario
}

const V2: &str = "linux612-v2-onelink.pcap.gz";
const SMCD: &str = "linux612-smcd-v2-loopback.pcap.gz";

/// Changes a CLC message of a line.
macro_rules! change {
    ($scenario:ident, $line:literal, $kind:ident($message:ident) => $do:expr) => {
        match $scenario.line($line).what {
            $crate::scenario::What::Clc(smc_proto::wire::clc::ClcMessage::$kind(
                ref mut $message,
            )) => $do,
            _ => panic!("another message"),
        }
    };
}

/// Changes an LLC message of a line.
macro_rules! change_llc {
    ($scenario:ident, $line:literal, $kind:ident($message:ident) => $do:expr) => {
        match $scenario.line($line).llc() {
            smc_proto::wire::llc::LlcMessage::$kind($message) => $do,
            _ => panic!("another message"),
        }
    };
}

pub(crate) use {change, change_llc};

fn cdc_line(from: usize, on: usize, message: Cdc) -> Line {
    Line::new("new", on, from, What::Cdc(message))
}

fn llc(from: usize, on: usize, message: LlcMessage<'static>) -> Line {
    Line::new("new", on, from, What::Llc(message))
}

fn cases() -> impl Iterator<Item = &'static Case> {
    let all = [
        clc::CASES,
        version::CASES,
        contact::CASES,
        tcp::CASES,
        llc::CASES,
        links::CASES,
        rkeys::CASES,
        cdc::CASES,
        window::CASES,
        urgent::CASES,
        close::CASES,
        failover::CASES,
    ];
    all.into_iter().flatten()
}

#[test]
fn correct_conversations_break_no_rule() {
    for scenario in [whole(), of_kernels(V2), of_kernels(SMCD)] {
        let report = scenario.judged();
        let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        assert_eq!(report.seen.strangers, 0);
        assert!(report.seen.clc >= 3);
    }
}

#[test]
fn each_change_is_found_by_its_rules_and_no_others() {
    let mut wrong = Vec::new();
    for (rules, scenario) in cases() {
        let report = scenario().judged();
        let expected: BTreeSet<_> = rules.iter().copied().collect();
        let found: BTreeSet<_> = report.findings.iter().map(|f| f.rule.name).collect();
        if found != expected {
            let reported: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
            wrong.push(format!("{expected:?}:\n    {}", reported.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_validation_may_name_the_message_before_the_one_that_was_completed() {
    // The client resumes behind its third message.
    let naming = |number| {
        let scenario = with(|s| s.line("validation").cdc().sequence = number);
        let findings = scenario.judged().findings;
        let reported = findings.iter().map(|f| (f.rule.name, f.is_violation()));
        reported.collect::<Vec<_>>()
    };
    assert_eq!(naming(3), []);
    assert_eq!(naming(2), [("cdc-written-first", false)]);
    assert_eq!(naming(1), [("cdc-written-first", true)]);
}

/// The server leaves link 2 out when it announces an RMB for a new connection.
fn with_link_2_left_out(change: impl FnOnce(&mut Scenario)) -> Vec<&'static str> {
    let scenario = with(|s| {
        for name in ["confirm rkey", "confirm rkey reply"] {
            if let LlcMessage::ConfirmRkey(m) = s.line(name).llc() {
                m.other_links = 0;
                m.others = Default::default();
            }
        }
        change(s);
    });
    let found = scenario.up_to("confirm 2").judged().findings;
    found.iter().map(|f| f.rule.name).collect()
}

/// DELETE LINK of link 2 over link 1, which was lost.
fn lost_link_2(from: usize) -> Line {
    let message = delete_link(2, DeleteLinkFlags::empty(), false);
    Line::new("lost", 0, from, What::Llc(LlcMessage::DeleteLink(message)))
}

#[test]
fn a_link_that_is_left_out_is_one_that_goes_on_being_used() {
    let used = || llc(SERVER, 1, test_link(false));
    let both = ["rkey-every-link", "contact-rmb-on-all-links"];
    // Neither over it nor about it is anything sent any more.
    let found = with_link_2_left_out(|_| {});
    assert!(found.is_empty(), "{found:?}");
    let found = with_link_2_left_out(|s| s.insert_behind("accept 2", used()));
    assert_eq!(found, both);
    // A message that was posted before may still leave.
    let found = with_link_2_left_out(|s| {
        s.insert_behind("accept 2", used());
        s.insert_behind("new", lost_link_2(SERVER));
    });
    assert!(found.is_empty(), "{found:?}");
    // The client takes a link that is left out for lost, and so does the server then.
    let found = with_link_2_left_out(|s| {
        s.insert_behind("accept 2", used());
        s.insert_behind("new", lost_link_2(CLIENT));
        s.insert_behind("lost", lost_link_2(SERVER));
    });
    assert_eq!(found, both);
}

#[test]
fn a_write_that_never_ended_is_not_judged_by_what_came_behind_it() {
    let scenario = with(|s| {
        // In two packets, and the link goes before the second one has left.
        let late = write(0, SERVER, 1, 2011, 2048);
        s.insert_behind("cdc 3", Line::new("late", 0, CLIENT, late));
    })
    .up_to("cdc 4");
    let frames = |scenario: &Scenario| {
        let capture = scenario.written();
        let frames = CaptureReader::new(capture.as_slice()).expect("a capture");
        frames.collect::<Result<Vec<_>, _>>().expect("frames")
    };
    let second = frames(&scenario.clone().up_to("late")).len() - 1;
    let mut checker = Checker::default();
    let all = frames(&scenario);
    let kept = all.iter().enumerate().filter(|(at, _)| *at != second);
    kept.for_each(|(_, frame)| checker.push(frame));
    let report = checker.finish();
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let writes = whole().up_to("cdc 4").judged().seen.writes;
    assert_eq!(report.seen.writes, writes + 1);
}

#[test]
fn every_rule_has_a_change_that_it_finds() {
    let found: BTreeSet<_> = cases()
        .flat_map(|(rules, _)| rules.iter().copied())
        .collect();
    let there: BTreeSet<_> = smc_checker::rules().map(|rule| rule.name).collect();
    let names: Vec<_> = smc_checker::rules().map(|rule| rule.name).collect();
    assert_eq!(names.len(), there.len(), "a name twice");
    let missing: Vec<_> = there.difference(&found).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_rule_names_a_requirement_that_is_stated() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let texts = ["rfc7609.md", "smc-v2.md", "smc-d.md"]
        .map(|name| std::fs::read_to_string(docs.join(name)).expect("a document"));
    for rule in smc_checker::rules() {
        let row = format!("| {} |", rule.id);
        let stated = texts.iter().any(|text| text.contains(&row));
        assert!(stated, "{rule}: {} is stated nowhere", rule.id);
    }
}
