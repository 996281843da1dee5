//! Each rule finds what breaks it: a good conversation in which one thing is changed.

mod story;

use std::collections::BTreeSet;
use std::path::Path;

use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage, RTokenPair};
use smc_proto::wire::types::{
    AlertToken, Chid, DeleteLinkReason, DiagnosisCode, Eid, LinkNumber, Mtu, PeerId, Psn, RKey,
    Release, RmbeIndex,
};
use story::told::{
    add_link, confirm_link, confirm_rkey, decline, delete_link, end, of_kernels, psn, rtoken,
    test_link, token, whole, write,
};
use story::{CLIENT, Line, SERVER, Story, What, cdc, mac};

/// What a test changes, and the rules that are to find it.
type Case = (&'static [&'static str], fn() -> Story);

/// The whole conversation with a change.
fn with(change: impl FnOnce(&mut Story)) -> Story {
    let mut story = whole();
    change(&mut story);
    story
}

/// The first connection of kernels, with a change.
fn kernels(name: &str, change: impl FnOnce(&mut Story)) -> Story {
    let mut story = of_kernels(name);
    change(&mut story);
    story
}

const V2: &str = "linux612-v2-onelink.pcap.gz";
const SMCD: &str = "linux612-smcd-v2-loopback.pcap.gz";

macro_rules! change {
    ($story:ident, $line:literal, $kind:ident($message:ident) => $do:expr) => {
        match $story.line($line).what {
            What::Clc(ClcMessage::$kind(ref mut $message)) => $do,
            _ => panic!("another message"),
        }
    };
}

macro_rules! change_llc {
    ($story:ident, $line:literal, $kind:ident($message:ident) => $do:expr) => {
        match $story.line($line).llc() {
            LlcMessage::$kind($message) => $do,
            _ => panic!("another message"),
        }
    };
}

fn say(from: usize, on: usize, message: smc_proto::wire::cdc::Cdc) -> Line {
    Line::new("new", on, from, What::Cdc(message))
}

fn llc(from: usize, on: usize, message: LlcMessage) -> Line {
    Line::new("new", on, from, What::Llc(message))
}

static CLC: &[Case] = &[
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
        // Octets behind the parts of a version-2 Accept, which receivers take.
        kernels(V2, |s| {
            let mut octets = vec![0; 1024];
            let length = s.line("accept").clc().emit(&mut octets).unwrap();
            octets.truncate(length - 4);
            octets.extend([0, 0, 0, 0, 0xe2, 0xd4, 0xc3, 0xd9]);
            let length = (octets.len() as u16).to_be_bytes();
            octets[5..7].copy_from_slice(&length);
            s.line("accept").what = What::Tcp(octets);
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

static VERSION: &[Case] = &[
    (&["version-offered"], || {
        with(|s| {
            use smc_proto::wire::clc::OfferedPath;
            change!(s, "proposal 1", Proposal(m) => m.v1 = OfferedPath::Neither);
        })
    }),
    (&["version-confirmed"], || {
        kernels(
            V2,
            |s| change!(s, "confirm", Confirm(m) => { m.v2 = None; }),
        )
    }),
    (&["version-eid", "version-eid-repeated"], || {
        let other = Eid::user("ANOTHER.EID").unwrap();
        kernels(
            V2,
            |s| change!(s, "accept", Accept(m) => m.v2.as_mut().unwrap().eid = other),
        )
    }),
    (&["version-eid-repeated"], || {
        let other = Eid::user("ANOTHER.EID").unwrap();
        kernels(SMCD, |s| {
            change!(s, "confirm", SmcdConfirm(m) => m.v2.as_mut().unwrap().eid = other);
        })
    }),
    (&["version-release"], || {
        kernels(V2, |s| {
            change!(s, "confirm", Confirm(m) => {
                m.v2.as_mut().unwrap().extension.release = Release::new(2);
            });
        })
    }),
    (&["version-limits"], || {
        kernels(V2, |s| {
            change!(s, "confirm", Confirm(m) => {
                m.v2.as_mut().unwrap().extension.max_links += 1;
            });
        })
    }),
    (&["version-chid"], || {
        kernels(SMCD, |s| {
            change!(s, "accept", SmcdAccept(m) => m.v2.as_mut().unwrap().chid = Chid(0x77));
        })
    }),
];

static CONTACT: &[Case] = &[
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
        with(|s| change!(s, "confirm 2", Confirm(m) => m.qpn = story::qpn(7, 1)))
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
                    m.others.clear();
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
            // What the server still says to it.
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

static TCP: &[Case] = &[
    (&["tcp-data-in-rendezvous"], || {
        with(|s| {
            let words = What::Tcp(b"too early".to_vec());
            s.insert_behind("accept 1", Line::new("new", 0, SERVER, words));
        })
    }),
    (&["tcp-data-over-smc"], || {
        with(|s| {
            let words = What::Tcp(b"not here".to_vec());
            s.insert_behind("cdc 1", Line::new("new", 0, CLIENT, words));
        })
    }),
    (&["tcp-data-over-smc"], || {
        with(|s| {
            let mut again = s.line("proposal 1").clone();
            again.on = 0;
            s.insert_behind("cdc 1", again);
        })
    }),
];

static LLC: &[Case] = &[
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
        with(|s| change_llc!(s, "delete rkey reply", DeleteRkey(m) => m.rkeys[0] = RKey(5)))
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

static LINKS: &[Case] = &[
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
                    (m.gid, m.mac) = (story::gid(host, 0), mac(host, 0));
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
                    answers.pairs.clear();
                }
                s.insert_behind("continuation reply", answers);
                s.insert_behind("continuation reply", asks);
            })
        },
    ),
    (
        &["link-continuation-rmbs", "link-told-before-confirm"],
        || {
            with(|s| {
                change_llc!(s, "continuation", AddLinkContinuation(m) => {
                    m.pairs[0].reference = RKey(0x77);
                });
            })
            .up_to("confirm link 2 reply")
        },
    ),
    (&["link-told-before-confirm"], || {
        with(|s| {
            change_llc!(s, "continuation reply", AddLinkContinuation(m) => {
                m.remaining = 0;
                m.pairs.clear();
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

static RKEYS: &[Case] = &[
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
                    m.others.clear();
                }
            }
        })
    }),
    (&["rkey-delete-known"], || {
        with(|s| {
            for name in ["delete rkey", "delete rkey reply"] {
                if let LlcMessage::DeleteRkey(m) = s.line(name).llc() {
                    m.rkeys[0] = RKey(0x5555);
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

static CDC: &[Case] = &[
    (&["cdc-reserved"], || {
        with(|s| s.line("cdc 1").patch = Some((40, 1)))
    }),
    (&["cdc-token"], || {
        with(|s| {
            s.line("cdc 5").cdc().alert_token = AlertToken(5);
            for name in [
                "write 5",
                "abort",
                "abort reply",
                "delete rkey",
                "delete rkey reply",
            ] {
                s.remove(name);
            }
        })
    }),
    (&["cdc-first"], || {
        with(|s| {
            s.line("cdc 5").cdc().sequence = 2;
            s.line("abort reply").cdc().sequence = 3;
        })
    }),
    (&["cdc-sequence"], || {
        with(|s| {
            s.line("done").cdc().sequence = 7;
            s.line("closed too").cdc().sequence = 8;
        })
    }),
    (&["cdc-cursor"], || {
        with(|s| {
            s.line("closed").cdc().consumer.count = 20_000;
        })
        .up_to("closed")
    }),
    (&["cdc-start"], || {
        with(|s| {
            for name in ["cdc 5", "abort reply"] {
                s.line(name).cdc().producer.wrap = 0xffff;
            }
        })
    }),
    (&["cdc-producer"], || {
        with(|s| {
            s.line("done").cdc().producer.count = 2000;
            s.line("closed too").cdc().producer.count = 2000;
        })
    }),
    (&["cdc-consumer"], || {
        with(|s| s.line("closed").cdc().consumer.count = 2000)
    }),
    (&["cdc-written-first"], || {
        with(|s| {
            s.remove("write 3");
        })
    }),
];

static WINDOW: &[Case] = &[
    (&["window-producer", "window-write"], || {
        with(|s| {
            // One octet more than the element holds.
            let more = [(2000, 14_384), (0, 1)];
            for (offset, length) in more.into_iter().rev() {
                let what = write(0, SERVER, 1, offset, length);
                s.insert_behind("cdc 1", Line::new("new", 0, CLIENT, what));
            }
            let mut news = cdc(2, token(SERVER, 1), 1, 0);
            news.producer.wrap = 1;
            let end = s.place("write 2");
            s.0.truncate(end);
            s.0.push(say(CLIENT, 0, news));
        })
    }),
    (&["window-consumer"], || {
        with(|s| s.line("update").cdc().consumer.count = 2002)
    }),
    (&["window-needless"], || {
        with(|s| {
            let mut again = *s.line("cdc 4").cdc();
            again.sequence = 5;
            s.insert_behind("cdc 4", say(CLIENT, 1, again));
            s.line("done").cdc().sequence = 6;
            s.line("closed too").cdc().sequence = 7;
        })
    }),
    (&["window-update"], || {
        with(|s| {
            s.line("cdc 2").cdc().producer_flags = ProducerFlags::empty();
        })
    }),
    (&["window-write"], || {
        with(|s| {
            let what = write(0, SERVER, 1, 1999, 1);
            s.insert_behind("cdc 1", Line::new("new", 0, CLIENT, what));
        })
    }),
];

static URGENT: &[Case] = &[
    (&["urgent-pending"], || {
        with(|s| s.line("cdc 2").cdc().producer_flags = ProducerFlags::URGENT_PRESENT)
    }),
    (&["urgent-published"], || {
        with(|s| {
            s.remove("write 2");
            s.line("cdc 2").cdc().producer.count = 2000;
            s.line("update").cdc().consumer.count = 2000;
            s.line("write 3").what = write(0, SERVER, 1, 2000, 11);
        })
    }),
    (&["urgent-over"], || {
        with(|s| {
            let news = cdc(3, token(SERVER, 1), 2001, 0);
            s.insert_behind("update", say(CLIENT, 0, news));
            s.line("cdc 3").cdc().sequence = 4;
            s.line("validation").cdc().sequence = 4;
            s.line("cdc 4").cdc().sequence = 5;
            s.line("done").cdc().sequence = 6;
            s.line("closed too").cdc().sequence = 7;
        })
    }),
    (&["urgent-held"], || {
        with(|s| s.move_behind("write 3", "cdc 2"))
    }),
];

static CLOSE: &[Case] = &[
    (&["close-last-word"], || {
        with(|s| {
            let mut more = *s.line("closed").cdc();
            more.sequence = 3;
            more.producer_flags = ProducerFlags::WRITER_BLOCKED;
            s.insert_behind("closed", say(SERVER, 0, more));
        })
    }),
    (&["abort-last-word"], || {
        with(|s| {
            let mut more = *s.line("abort").cdc();
            more.sequence = 2;
            more.producer_flags = ProducerFlags::WRITER_BLOCKED;
            s.insert_behind("abort", say(CLIENT, 0, more));
        })
    }),
    (&["close-levels"], || {
        with(|s| {
            let mut less = *s.line("done").cdc();
            less.sequence = 6;
            less.connection_flags = ConnectionFlags::empty();
            s.insert_behind("done", say(CLIENT, 1, less));
            s.line("closed too").cdc().sequence = 7;
        })
    }),
    (&["close-no-data"], || {
        with(|s| {
            // Written before it said done, published behind it.
            let what = write(1, SERVER, 1, 2016, 10);
            s.insert_behind("cdc 4", Line::new("new", 1, CLIENT, what));
            s.line("closed too").cdc().producer.count = 2026;
        })
    }),
    (&["close-or-abort"], || {
        with(|s| s.line("closed too").cdc().connection_flags |= ConnectionFlags::ABNORMAL_CLOSE)
    }),
    (&["close-no-write"], || {
        with(|s| {
            let what = write(1, SERVER, 1, 2016, 10);
            s.insert_behind("done", Line::new("new", 1, CLIENT, what));
        })
    }),
];

static FAILOVER: &[Case] = &[
    (&["failover-validation", "failover-write"], || {
        with(|s| {
            s.remove("validation");
        })
    }),
    (&["failover-number"], || {
        with(|s| {
            s.line("validation").cdc().sequence = 9;
            s.line("cdc 4").cdc().sequence = 10;
            s.line("done").cdc().sequence = 11;
            s.line("closed too").cdc().sequence = 12;
        })
    }),
    (&["failover-resume"], || {
        with(|s| {
            s.line("cdc 4").cdc().sequence = 3;
            s.line("done").cdc().sequence = 4;
            s.line("closed too").cdc().sequence = 5;
        })
    }),
    (&["failover-replay"], || {
        with(|s| {
            s.line("cdc 4").cdc().producer.count = 2005;
        })
        .up_to("cdc 4")
    }),
    (&["failover-write"], || {
        with(|s| {
            // Too early, and once more where it belongs.
            let again = s.line("write 4").clone();
            s.insert_behind("cdc 3", again);
        })
    }),
];

fn cases() -> impl Iterator<Item = &'static Case> {
    let all = [
        CLC, VERSION, CONTACT, TCP, LLC, LINKS, RKEYS, CDC, WINDOW, URGENT, CLOSE, FAILOVER,
    ];
    all.into_iter().flatten()
}

#[test]
fn what_is_told_rightly_breaks_no_rule() {
    for story in [whole(), of_kernels(V2), of_kernels(SMCD)] {
        let report = story.judged();
        let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        assert_eq!(report.seen.strangers, 0);
        assert!(report.seen.clc >= 3);
    }
}

#[test]
fn each_change_is_found_by_its_rules_and_no_others() {
    let mut wrong = Vec::new();
    for (rules, story) in cases() {
        let report = story().judged();
        let expected: BTreeSet<_> = rules.iter().copied().collect();
        let found: BTreeSet<_> = report.findings.iter().map(|f| f.rule.name).collect();
        if found != expected {
            let told: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
            wrong.push(format!("{expected:?}:\n    {}", told.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let texts = ["rfc7609.md", "smc-v2.md", "smc-d.md"]
        .map(|name| std::fs::read_to_string(docs.join(name)).expect("a document"));
    for rule in smc_checker::rules() {
        let row = format!("| {} |", rule.id);
        let stated = texts.iter().any(|text| text.contains(&row));
        assert!(stated, "{rule}: {} is stated nowhere", rule.id);
    }
}
