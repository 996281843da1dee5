//! Changes that the rules about LLC messages are to find.

use smc_proto::wire::llc::{DeleteLinkFlags, Entries, LlcMessage};
use smc_proto::wire::types::{DeleteLinkReason, LinkNumber, RKey};

use crate::scenario::valid::{confirm_link, confirm_rkey, delete_link, rtoken};
use crate::scenario::{CLIENT, SERVER};
use crate::{Case, change_llc, llc, with};

pub(crate) static CASES: &[Case] = &[
    (&["llc-reply"], || {
        with(|s| {
            s.remove("test link");
        })
    }),
    (&["llc-one-flow"], || {
        with(|s| {
            let [asks, answers] = [false, true].map(|reply| {
                let mut other = confirm_rkey(SERVER, reply);
                other.rtoken = rtoken(SERVER, 3, 0);
                other.others[0].rtoken = rtoken(SERVER, 3, 1);
                LlcMessage::ConfirmRkey(other)
            });
            s.insert_behind("delete rkey", llc(SERVER, 0, asks));
            s.insert_behind("delete rkey reply", llc(CLIENT, 0, answers));
        })
    }),
    (&["llc-server-only"], || {
        with(|s| {
            let mut asks = confirm_link(1, CLIENT);
            asks.reply = false;
            let line = llc(CLIENT, 1, LlcMessage::ConfirmLink(asks));
            s.0.insert(s.place("confirm link 2"), line);
        })
    }),
    (&["llc-test-link-echo"], || {
        with(|s| change_llc!(s, "test link reply", TestLink(m) => m.user_data[3] ^= 1))
    }),
    (&["llc-confirm-rkey-echo"], || {
        with(|s| change_llc!(s, "confirm rkey reply", ConfirmRkey(m) => m.rtoken.address += 1))
    }),
    (&["llc-delete-rkey-echo"], || {
        with(
            |s| change_llc!(s, "delete rkey reply", DeleteRkey(m) => m.rkeys = Entries::inline([RKey(5)])),
        )
    }),
    (&["llc-delete-link-reply"], || {
        with(|s| change_llc!(s, "delete link reply", DeleteLink(m) => m.link = LinkNumber(2)))
    }),
    (&["llc-delete-link-by-server"], || {
        with(|s| {
            let asks = delete_link(1, DeleteLinkFlags::ORDERLY, false);
            let answer = delete_link(1, DeleteLinkFlags::ORDERLY, true);
            s.insert_behind("closed too", llc(CLIENT, 0, LlcMessage::DeleteLink(asks)));
            s.insert_behind("new", llc(SERVER, 0, LlcMessage::DeleteLink(answer)));
        })
    }),
    (&["llc-delete-all-number"], || {
        with(|s| change_llc!(s, "delete all", DeleteLink(m) => m.link = LinkNumber(1)))
    }),
    (&["llc-delete-link-reason"], || {
        with(|s| change_llc!(s, "delete link", DeleteLink(m) => m.reason = DeleteLinkReason(7)))
    }),
    (&["llc-reserved"], || {
        with(|s| s.line("test link").patch = Some((43, 1)))
    }),
    (&["llc-malformed"], || {
        with(|s| s.line("test link reply").patch = Some((0, 5)))
    }),
];
