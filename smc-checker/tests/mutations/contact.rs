//! Changes that the rules about first and subsequent contact are to find.

use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, DiagnosisCode};

use crate::scenario::valid::{decline, rtoken, token};
use crate::scenario::{self, CLIENT, Line, SERVER, What, mac};
use crate::{Case, change, with};

pub(crate) static CASES: &[Case] = &[
    (&["contact-new-queue-pair"], || {
        with(|s| change!(s, "accept 2", Accept(m) => m.first_contact = true)).up_to("accept 2")
    }),
    (&["contact-known-link", "contact-rmb-of-accept"], || {
        with(|s| {
            // Another subsequent contact, behind the end of the group.
            s.move_behind("delete all", "closed too");
            for name in ["syn 2", "proposal 2", "accept 2"] {
                let mut line = s.line(name).clone();
                line.on = 3;
                s.0.push(line);
            }
        })
    }),
    (&["contact-same-end"], || {
        with(|s| change!(s, "accept 2", Accept(m) => m.mac = mac(0, 7)))
    }),
    (&["contact-same-kind", "contact-new-queue-pair"], || {
        with(|s| change!(s, "confirm 2", Confirm(m) => m.first_contact = true))
    }),
    (&["contact-same-group"], || {
        with(|s| change!(s, "confirm 2", Confirm(m) => m.qpn = scenario::qpn(7, 1)))
    }),
    (&["contact-rmb-of-accept"], || {
        with(|s| change!(s, "accept 2", Accept(m) => m.rtoken.address += 0x1000))
    }),
    (&["contact-rmb-of-confirm"], || {
        with(|s| change!(s, "confirm 2", Confirm(m) => m.rtoken.address += 0x1000))
    }),
    (&["contact-rmb-on-all-links", "rkey-every-link"], || {
        with(|s| {
            for name in ["confirm rkey", "confirm rkey reply"] {
                if let LlcMessage::ConfirmRkey(m) = s.line(name).llc() {
                    m.other_links = 0;
                    m.others = Default::default();
                }
            }
        })
    }),
    (&["contact-free-element"], || {
        with(|s| {
            change!(s, "accept 2", Accept(m) => m.rtoken = rtoken(SERVER, 1, 0));
            for name in ["delete rkey", "delete rkey reply"] {
                s.remove(name);
            }
        })
    }),
    (&["contact-token", "cdc-token"], || {
        with(|s| {
            let taken = AlertToken(token(CLIENT, 1));
            change!(s, "confirm 2", Confirm(m) => m.alert_token = taken);
            // What the server still sends to it.
            for name in ["closed", "abort reply", "closed too", "done"] {
                s.remove(name);
            }
        })
    }),
    (&["contact-no-return"], || {
        with(|s| {
            let words = What::Clc(decline(CLIENT, DiagnosisCode(0x0301_0000)));
            s.insert_behind("cdc 1", Line::new("new", 0, CLIENT, words));
            let end = s.place("cdc 1") + 2;
            s.0.truncate(end);
        })
    }),
];
