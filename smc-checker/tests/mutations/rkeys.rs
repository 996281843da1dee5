//! Changes that the rules about RTokens and RDMA WRITEs are to find.

use smc_proto::wire::llc::{Entries, LlcMessage};
use smc_proto::wire::types::{LinkNumber, RKey};

use crate::scenario::valid::write;
use crate::scenario::{CLIENT, Line, SERVER, What};
use crate::{Case, change_llc, with};

pub(crate) static CASES: &[Case] = &[
    (
        &[
            "rkey-current-links",
            "rkey-every-link",
            "contact-rmb-on-all-links",
        ],
        || {
            with(|s| {
                for name in ["confirm rkey", "confirm rkey reply"] {
                    if let LlcMessage::ConfirmRkey(m) = s.line(name).llc() {
                        m.others[0].link = LinkNumber(7);
                    }
                }
            })
        },
    ),
    (&["rkey-every-link", "contact-rmb-on-all-links"], || {
        with(|s| {
            for name in ["confirm rkey 2", "confirm rkey 2 reply"] {
                if let LlcMessage::ConfirmRkey(m) = s.line(name).llc() {
                    m.other_links = 0;
                    m.others = Default::default();
                }
            }
        })
    }),
    (&["rkey-delete-known"], || {
        with(|s| {
            for name in ["delete rkey", "delete rkey reply"] {
                if let LlcMessage::DeleteRkey(m) = s.line(name).llc() {
                    m.rkeys = Entries::inline([RKey(0x5555)]);
                }
            }
        })
    }),
    (&["rkey-delete-unused"], || {
        with(|s| {
            for name in ["abort", "abort reply"] {
                s.remove(name);
            }
        })
    }),
    (&["write-key"], || {
        with(|s| {
            if let What::Write { rkey, .. } = &mut s.line("write 5").what {
                *rkey = 0x5555;
            }
        })
        .up_to("write 5")
    }),
    (&["write-key-alive"], || {
        with(|s| {
            let line = Line::new("new", 0, CLIENT, write(0, SERVER, 2, 0, 10));
            s.insert_behind("delete rkey reply", line);
            // The server alone ended the connection.
            s.remove("abort");
        })
    }),
    (&["write-element"], || {
        with(|s| {
            let line = Line::new("new", 0, CLIENT, write(0, SERVER, 1, 0x4000, 10));
            s.insert_behind("write 1", line);
        })
    }),
    (&["write-inside", "window-write"], || {
        with(|s| {
            let line = Line::new("new", 0, CLIENT, write(0, SERVER, 1, 16_000, 500));
            s.insert_behind("write 1", line);
        })
    }),
    (&["write-eye-catcher"], || {
        with(|s| {
            // The server's elements have an eye catcher, so that all begin at 4.
            change_llc!(s, "confirm link", ConfirmLink(m) => m.flags = Default::default());
        })
        .up_to("write 1")
    }),
    (&["write-mtu"], || {
        with(|s| {
            if let What::Write { mtu, .. } = &mut s.line("write 1").what {
                *mtu = 4096;
            }
        })
    }),
];
