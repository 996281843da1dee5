//! Changes that the rules about links are to find.

use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::llc::{LlcMessage, RTokenPair};
use smc_proto::wire::types::{LinkNumber, Psn, RKey};

use crate::scenario::valid::{add_link, confirm_link, psn, test_link};
use crate::scenario::{self, CLIENT, SERVER, mac};
use crate::{Case, change, change_llc, llc, with};

pub(crate) static CASES: &[Case] = &[
    (&["link-first-psn"], || {
        with(|s| {
            change!(s, "accept 1", Accept(m) => m.psn = Psn::new(psn(0, SERVER).value() ^ 0x80_0000));
        })
    }),
    (&["link-confirmed-first"], || {
        with(|s| s.insert_behind("confirm 1", llc(CLIENT, 0, test_link(false))))
    }),
    (&["link-after-deletion"], || {
        with(|s| s.insert_behind("delete link reply", llc(CLIENT, 0, test_link(false))))
    }),
    (&["link-data-in-first-contact"], || {
        with(|s| {
            s.move_behind("update", "continuation reply");
            s.line("update").cdc().consumer.count = 0;
            s.line("update").cdc().connection_flags = ConnectionFlags::empty();
            s.line("cdc 2").cdc().producer_flags = ProducerFlags::empty();
        })
    }),
    (&["link-confirm-identity"], || {
        with(|s| change_llc!(s, "confirm link", ConfirmLink(m) => m.mac = mac(0, 7)))
    }),
    (&["link-confirm-number"], || {
        with(|s| {
            change_llc!(s, "confirm link 2 reply", ConfirmLink(m) => m.link = LinkNumber(3));
        })
    }),
    (&["link-max-links"], || {
        with(|s| change_llc!(s, "confirm link reply", ConfirmLink(m) => m.max_links = 3))
    }),
    (&["link-confirm-once"], || {
        with(|s| {
            let again = [SERVER, CLIENT].map(|from| confirm_link(1, from));
            for (from, again) in [SERVER, CLIENT].into_iter().zip(again).rev() {
                s.insert_behind("update", llc(from, 1, LlcMessage::ConfirmLink(again)));
            }
        })
    }),
    (&["link-new-number"], || {
        with(|s| {
            change_llc!(s, "add link", AddLink(m) => m.link = LinkNumber(0));
            change_llc!(s, "add link reply", AddLink(m) => m.link = LinkNumber(0));
        })
    }),
    (&["link-number-reuse"], || {
        with(|s| {
            let mut add = add_link(SERVER);
            add.link = LinkNumber(1);
            let line = llc(SERVER, 1, LlcMessage::AddLink(add));
            s.insert_behind("delete link reply", line);
        })
    }),
    (&["link-add-reply"], || {
        with(|s| change_llc!(s, "add link reply", AddLink(m) => m.link = LinkNumber(3)))
    }),
    (&["link-parallel"], || {
        with(|s| {
            for (name, host) in [("add link", SERVER), ("add link reply", CLIENT)] {
                if let LlcMessage::AddLink(m) = s.line(name).llc() {
                    (m.gid, m.mac) = (scenario::gid(host, 0), mac(host, 0));
                }
            }
        })
        .up_to("add link reply")
    }),
    (&["link-limit"], || {
        with(|s| {
            let confirms = ["confirm link", "confirm link 2"];
            let replies = ["confirm link reply", "confirm link 2 reply"];
            for name in confirms.into_iter().chain(replies) {
                if let LlcMessage::ConfirmLink(m) = s.line(name).llc() {
                    m.max_links = 1;
                }
            }
            let mut add = add_link(SERVER);
            add.link = LinkNumber(3);
            s.insert_behind("closed too", llc(SERVER, 0, LlcMessage::AddLink(add)));
        })
        .up_to("new")
    }),
    (&["link-continuation-link"], || {
        with(|s| change_llc!(s, "continuation", AddLinkContinuation(m) => m.link = LinkNumber(3)))
    }),
    (
        &["link-continuation-count", "link-continuation-rmbs"],
        || {
            with(|s| {
                // One more round, in which the server's count does not fall.
                let (mut asks, mut answers) = (
                    s.line("continuation").clone(),
                    s.line("continuation reply").clone(),
                );
                if let (
                    LlcMessage::AddLinkContinuation(asks),
                    LlcMessage::AddLinkContinuation(answers),
                ) = (asks.llc(), answers.llc())
                {
                    asks.pairs[0] = RTokenPair::default();
                    answers.remaining = 0;
                    answers.pairs = Default::default();
                }
                s.insert_behind("continuation reply", answers);
                s.insert_behind("continuation reply", asks);
            })
        },
    ),
    (
        &["link-continuation-rmbs", "link-announced-before-confirm"],
        || {
            with(|s| {
                change_llc!(s, "continuation", AddLinkContinuation(m) => {
                    m.pairs[0].reference = RKey(0x77);
                });
            })
            .up_to("confirm link 2 reply")
        },
    ),
    (&["link-announced-before-confirm"], || {
        with(|s| {
            change_llc!(s, "continuation reply", AddLinkContinuation(m) => {
                m.remaining = 0;
                m.pairs = Default::default();
            });
        })
        .up_to("confirm link 2 reply")
    }),
    (&["link-delete-known"], || {
        with(|s| {
            for name in ["delete link", "delete link reply"] {
                if let LlcMessage::DeleteLink(m) = s.line(name).llc() {
                    m.link = LinkNumber(9);
                }
            }
        })
    }),
];
