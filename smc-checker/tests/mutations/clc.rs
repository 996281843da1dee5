//! Changes that the rules about CLC messages are to find.

use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::{DiagnosisCode, Mtu, PeerId, RmbeIndex};

use crate::scenario::valid::{decline, end};
use crate::scenario::{CLIENT, Line, SERVER, What, mac};
use crate::{Case, V2, change, kernels, with};

pub(crate) static CASES: &[Case] = &[
    (&["clc-sender", "contact-same-end"], || {
        with(|s| {
            let mut accept = end(SERVER, false, 1, 9);
            accept.peer_id = PeerId::new(CLIENT as u16, mac(CLIENT, 0));
            let accept = ClcMessage::Accept(accept);
            s.insert_behind("proposal 3", Line::new("new", 2, CLIENT, What::Clc(accept)));
        })
    }),
    (&["clc-order"], || {
        with(|s| {
            let again = s.line("proposal 1").clone();
            s.insert_behind("proposal 1", again);
        })
    }),
    (&["clc-no-chase"], || {
        with(|s| {
            let words = What::Clc(decline(CLIENT, DiagnosisCode(0x0301_0000)));
            s.insert_behind("proposal 3", Line::new("new", 2, CLIENT, words));
            s.remove("decline");
        })
    }),
    (&["clc-decline-after-accept"], || {
        with(|s| {
            let words = What::Clc(decline(SERVER, DiagnosisCode(0x0301_0000)));
            s.insert_behind("confirm 2", Line::new("new", 1, SERVER, words));
        })
    }),
    (&["clc-decline-after-confirm"], || {
        with(|s| {
            let words = What::Clc(decline(CLIENT, DiagnosisCode(0x0301_0000)));
            s.insert_behind("confirm 2", Line::new("new", 1, CLIENT, words));
        })
    }),
    (&["clc-length"], || {
        // Bytes behind the parts of a version-2 Accept, which receivers take.
        kernels(V2, |s| {
            let mut bytes = vec![0; 1024];
            let length = s.line("accept").clc().emit(&mut bytes).unwrap();
            bytes.truncate(length - 4);
            bytes.extend([0, 0, 0, 0, 0xe2, 0xd4, 0xc3, 0xd9]);
            let length = (bytes.len() as u16).to_be_bytes();
            bytes[5..7].copy_from_slice(&length);
            s.line("accept").what = What::Tcp(bytes);
        })
    }),
    (&["clc-reserved"], || {
        with(|s| s.line("accept 1").patch = Some((60, 1)))
    }),
    (&["clc-element"], || {
        with(|s| change!(s, "accept 2", Accept(m) => m.rmbe_index = RmbeIndex(0)))
    }),
    (&["clc-mtu"], || {
        with(|s| change!(s, "accept 1", Accept(m) => m.mtu = Mtu::from_code(9)))
    }),
    (&["clc-out-of-sync"], || {
        with(|s| change!(s, "decline", Decline(m) => m.out_of_sync = true))
    }),
    (&["clc-peer-id"], || {
        with(|s| change!(s, "proposal 1", Proposal(m) => m.peer_id = PeerId::new(9, mac(1, 0))))
    }),
    (&["clc-malformed"], || {
        with(|s| s.line("decline").patch = Some((4, 9)))
    }),
];
