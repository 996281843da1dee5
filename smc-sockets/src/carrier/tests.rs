//! What is reported of carriers.

use super::*;
use crate::policy::Rule;
use smc_proto::version::Technology;
use smc_proto::wire::types::Release;

fn negotiated(code: DiagnosisCode, peer_diagnosis: Option<DiagnosisCode>) -> WhyTcp {
    let mut reason = FallbackReason::new(code);
    reason.peer_diagnosis = peer_diagnosis;
    *Carrier::fallen_back(reason, None).why_tcp().unwrap()
}

fn found(cause: Cause) -> WhyTcp {
    *Carrier::tcp(cause).why_tcp().unwrap()
}

/// Each kind of cause once.
const CAUSES: [Cause; 20] = [
    Cause::Policy(Rule::Disabled),
    Cause::NotOffered,
    Cause::NoOption,
    Cause::NoDevice,
    Cause::CannotAsk(OptionMissing::Never),
    Cause::CannotAsk(OptionMissing::Capabilities("CAP_BPF")),
    Cause::CannotAsk(OptionMissing::NoCgroup),
    Cause::CannotAsk(OptionMissing::KernelTooOld),
    Cause::CannotAsk(OptionMissing::Refused(1)),
    Cause::AskedTooLate,
    Cause::Shunned,
    Cause::NotPaired,
    Cause::UnknownUser(65534),
    Cause::Inherited,
    Cause::Limit(Limit::Connections(7)),
    Cause::Limit(Limit::PolicyMemory(7)),
    Cause::Limit(Limit::LockedMemory(7)),
    Cause::Limit(Limit::Undecided(7)),
    Cause::Limit(Limit::FileSize(7)),
    Cause::Limit(Limit::Mappings(8)),
];

#[test]
fn a_carrier_is_described_in_one_line() {
    let mut terms = Terms::of(Technology::SmcD, SmcVersion::V2);
    terms.release = Release::V2_1;
    assert_eq!(Carrier::Smc(terms).to_string(), "SMC-D v2.1");
    let v1 = Terms::of(Technology::SmcR, SmcVersion::V1);
    assert_eq!(Carrier::Smc(v1).to_string(), "SMC-R v1");
    assert_eq!(
        Carrier::tcp(Cause::NotOffered).to_string(),
        "TCP: 0x03010000 (peer does not speak SMC). The other side offered no SMC at all, \
         or none of a kind that the sender knows."
    );
    let declined = negotiated(DiagnosisCode::PEER_DECLINED, Some(DiagnosisCode::MEMORY));
    assert!(
        Carrier::Tcp(declined)
            .to_string()
            .ends_with("state of a connection.")
    );
    assert_eq!(declined.smcss(), "0x05000000/0x01010000");
}

#[test]
fn every_reason_has_a_sentence_a_side_and_a_remedy() {
    let mut sentences = std::collections::HashSet::new();
    for why in CAUSES.map(found) {
        let line = Carrier::Tcp(why).to_string();
        assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        assert!(
            line.starts_with(&format!("TCP: {} (", why.smcss())),
            "{line}"
        );
        assert!(sentences.insert(why.sentence()), "{line}");
        for text in [why.sentence(), why.remedy()] {
            assert!(text.ends_with('.') && text.len() > 20, "{text}");
            // Other processes read all of it.
            assert!(text.len() <= smc_view::Sentence::MOST, "{text}");
        }
    }
    for code in DiagnosisCode::ALL {
        for why in [
            negotiated(*code, None),
            negotiated(DiagnosisCode::PEER_DECLINED, Some(*code)),
        ] {
            assert_eq!(why.sentence(), code.sentence());
            assert_eq!(why.remedy(), code.remedy());
        }
    }
}

#[test]
fn the_deciding_side_is_reported() {
    let peers = CAUSES.map(found).map(|why| why.decided_by() == Side::Peer);
    let by_peer = CAUSES.iter().zip(peers).filter(|(_, peer)| *peer);
    assert_eq!(
        by_peer.map(|(cause, _)| *cause).collect::<Vec<_>>(),
        [Cause::NotOffered, Cause::NoOption, Cause::NotPaired]
    );
    assert_eq!(
        negotiated(DiagnosisCode::MEMORY, None).decided_by(),
        Side::Here
    );
    assert_eq!(
        negotiated(DiagnosisCode::TIMEOUT_CONFIRM_LINK, None).decided_by(),
        Side::Here
    );
    assert_eq!(
        negotiated(DiagnosisCode::PEER_DECLINED, Some(DiagnosisCode::NO_UEID)).decided_by(),
        Side::Peer
    );
}

#[test]
fn codes_are_those_that_tools_print() {
    let code = |cause| found(cause).smcss();
    assert_eq!(code(Cause::Policy(Rule::ListenPort(80))), "0x03000000");
    assert_eq!(code(Cause::NoDevice), "0x03030002");
    assert_eq!(
        code(Cause::Limit(Limit::LockedMemory(64 << 10))),
        "0x01010000"
    );
    assert_eq!(code(Cause::NoOption), "0x03010000");
    let limit = found(Cause::Limit(Limit::LockedMemory(64 << 10)));
    assert!(
        limit
            .sentence()
            .contains("65536 bytes of memory (RLIMIT_MEMLOCK)")
    );
    assert!(limit.remedy().contains("ulimit -l"));
    let missing = Cause::CannotAsk(OptionMissing::Capabilities("CAP_BPF and CAP_NET_ADMIN"));
    let missing = found(missing);
    assert!(
        missing
            .sentence()
            .contains("lacks CAP_BPF and CAP_NET_ADMIN")
    );
    let rule = Rule::Excluded("10.0.0.0/8".parse().unwrap());
    let sentence = found(Cause::Policy(rule)).sentence();
    assert!(
        sentence.ends_with("exclude has \"10.0.0.0/8\"."),
        "{sentence}"
    );
}

#[test]
fn what_this_side_knows_goes_with_its_own_decision_only() {
    let known = Cause::Limit(Limit::LockedMemory(7));
    let reason = |code, peer_diagnosis| {
        let mut reason = FallbackReason::new(code);
        reason.peer_diagnosis = peer_diagnosis;
        let carrier = Carrier::fallen_back(reason, Some(known));
        carrier.why_tcp().unwrap().cause()
    };
    assert_eq!(reason(DiagnosisCode::MEMORY, None), known);
    let peers = Some(DiagnosisCode::NO_UEID);
    assert_eq!(
        reason(DiagnosisCode::PEER_DECLINED, peers),
        Cause::Negotiation
    );
}
