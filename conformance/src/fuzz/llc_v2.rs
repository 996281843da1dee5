//! Bodies over LLC messages of version 2, and messages made of bytes.

use core::fmt::Write as _;

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{
    AddLink, AddLinkExtension, ConfirmLink, ConfirmLinkFlags, ConfirmRkey, DeleteLink,
    DeleteLinkFlags, DeleteRkey, Entries, LLC_LENGTH, LLC_V2_MAX_LENGTH, LinkRToken, LlcMessage,
    LlcParseError, RTokenPair, RequestAddLink, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{
    AddLinkRejectReason, DeleteLinkReason, Gid, LinkNumber, LinkUserId, Mac, Mtu, Psn, Qpn, RKey,
    RToken,
};

use super::Reader;
use super::clc::is_one_of_many;
use super::text::{Nowhere, print, print_in_part};

/// Any bytes as an LLC message of version 2: an error fits the bytes it
/// speaks of, and what was parsed is emitted, no longer than it was, parses to
/// itself and is emitted the same again. So is a message made of the bytes.
pub fn llc_v2(data: &[u8]) {
    match LlcMessage::parse(data, SmcVersion::V2) {
        Ok(message) => {
            assert_eq!(Some(&message.kind(SmcVersion::V2)), data.first());
            assert_eq!(message.is_reply(), data[3] & 0x80 != 0);
            assert!(message.encoded_len(SmcVersion::V2) <= data.len());
            check(&message, data);
        }
        Err(error) => check_error(data, error),
    }
    let mut lists = Lists::default();
    let message = llc_v2_message(&mut Reader::new(data), &mut lists);
    check(&message, data);
}

fn check_error(data: &[u8], error: LlcParseError) {
    print(&error);
    let kind = data.first().copied();
    match error {
        LlcParseError::TooShort { have } => {
            assert!(have == data.len() && have < LLC_LENGTH);
        }
        LlcParseError::BadLengthV2 { length } => {
            assert_eq!(data.get(1..3), Some(&length.to_be_bytes()[..]));
            assert!(length < 44 && length.swap_bytes() < 44);
        }
        LlcParseError::ShortExtension { have } => {
            assert!((45..72).contains(&have) && have == data.len());
        }
        LlcParseError::UnknownOptional { kind: k } => {
            assert_eq!((Some(k), k & 0xc0), (kind, 0x80));
        }
        LlcParseError::UnknownMandatory { kind: k } => {
            assert_eq!((Some(k), k & 0x80), (kind, 0));
        }
        LlcParseError::Cdc { kind: k } => assert_eq!((Some(k), k & 0xc0), (kind, 0xc0)),
        LlcParseError::CountOutOfRange {
            count, least, most, ..
        } => {
            assert_eq!(data.get(4), Some(&count));
            assert!(!(least..=most).contains(&count));
        }
        other => panic!("{other}"),
    }
}

fn check(message: &LlcMessage<'_>, data: &[u8]) {
    // A list of GIDs takes as long to print as everything else together.
    if is_one_of_many(data) {
        print_in_part(&message.display(SmcVersion::V2));
        ask(message);
    }
    let bytes = emit(message);
    assert_eq!(
        LlcMessage::parse(&bytes, SmcVersion::V2).as_ref(),
        Ok(message)
    );
}

/// Asks a list, whatever it is of, for its entries: as many as its length.
macro_rules! ask_list {
    ($list:expr) => {{
        let values: Vec<_> = $list.into_iter().collect();
        assert_eq!($list.is_empty(), values.is_empty());
        assert_eq!($list, Entries::from(&*values));
    }};
}

/// Asks what an engine, or a decoder of captures, asks.
fn ask(message: &LlcMessage<'_>) {
    write!(Nowhere, "{message:?}").expect("printing cannot fail");
    match message {
        LlcMessage::AddLink(AddLink {
            extension: Some(extension),
            ..
        }) => ask_list!(extension.rtokens),
        LlcMessage::RequestAddLink(request) => ask_list!(request.gids),
        LlcMessage::DeleteRkey(delete) => ask_list!(delete.rkeys),
        _ => {}
    }
}

/// Emits into a buffer of just the right size, after one that is too small.
pub fn emit(message: &LlcMessage<'_>) -> Vec<u8> {
    let needed = message.encoded_len(SmcVersion::V2);
    assert!((LLC_LENGTH..=LLC_V2_MAX_LENGTH).contains(&needed));
    let mut bytes = vec![0xa5; needed];
    let error = message.emit(SmcVersion::V2, &mut bytes[..needed - 1]);
    assert_eq!(error.expect_err("too small").needed, needed);
    assert!(bytes.iter().all(|byte| *byte == 0xa5));
    assert_eq!(message.emit(SmcVersion::V2, &mut bytes), Ok(needed));
    bytes
}

/// What the lists of a message are made of.
#[derive(Default, Debug)]
pub struct Lists {
    rtokens: Vec<RTokenPair>,
    gids: Vec<Gid>,
    rkeys: Vec<RKey>,
}

fn rtoken(r: &mut Reader<'_>) -> RToken {
    RToken {
        rkey: RKey(r.u32()),
        address: r.u64(),
    }
}

/// A legal message of any kind, as it is read.
pub fn llc_v2_message<'a>(r: &mut Reader<'_>, lists: &'a mut Lists) -> LlcMessage<'a> {
    let reply = r.flag();
    match r.below(7) {
        0 => LlcMessage::ConfirmLink(ConfirmLink {
            reply,
            flags: ConfirmLinkFlags::from_bits_truncate(r.u8()),
            mac: Mac(r.array()),
            gid: Gid(r.array()),
            qpn: Qpn::new(r.u32()),
            link: LinkNumber(r.u8()),
            user_id: LinkUserId(r.u32()),
            max_links: r.u8(),
            max_connections: r.u8(),
        }),
        1 => {
            let mut link = AddLink {
                reply,
                rejection: r.flag().then_some(AddLinkRejectReason::UNSPECIFIED),
                mac: Mac(r.array()),
                gid: Gid(r.array()),
                qpn: Qpn::new(r.u32()),
                link: LinkNumber(r.u8()),
                mtu: Mtu::from_code(r.u8()),
                psn: Psn::new(r.u32()),
                extension: None,
            };
            let (direct, target_gid, extended) = (r.flag(), Gid(r.array()), r.flag());
            for _ in 0..r.below(256) {
                lists.rtokens.push(RTokenPair {
                    reference: RKey(r.u32()),
                    new: rtoken(r),
                });
            }
            link.extension = extended.then(|| AddLinkExtension {
                direct,
                target_gid,
                rtokens: lists.rtokens.as_slice().into(),
            });
            LlcMessage::AddLink(link)
        }
        2 => LlcMessage::DeleteLink(DeleteLink {
            reply,
            flags: DeleteLinkFlags::from_bits_truncate(r.u8()),
            link: LinkNumber(r.u8()),
            reason: DeleteLinkReason(r.u32()),
        }),
        3 => {
            lists.gids = (0..r.below(256)).map(|_| Gid(r.array())).collect();
            LlcMessage::RequestAddLink(RequestAddLink {
                reply,
                rejected: r.flag(),
                gids: lists.gids.as_slice().into(),
            })
        }
        4 => {
            let (flags, rtoken_here) = (RkeyFlags::from_bits_truncate(r.u8()), rtoken(r));
            let other = |r: &mut Reader<'_>| LinkRToken {
                link: LinkNumber(r.u8()),
                rtoken: rtoken(r),
            };
            let others: Vec<LinkRToken> = (0..r.below(3)).map(|_| other(r)).collect();
            LlcMessage::ConfirmRkey(ConfirmRkey {
                reply,
                flags,
                rtoken: rtoken_here,
                other_links: others.len() as u8,
                others: others.into_iter().collect(),
            })
        }
        5 => LlcMessage::TestLink(TestLink {
            reply,
            user_data: r.array(),
        }),
        _ => {
            let flags = RkeyFlags::from_bits_truncate(r.u8()) & RkeyFlags::NEGATIVE;
            let unknown = r.u8();
            lists.rkeys = (0..=r.below(255)).map(|_| RKey(r.u32())).collect();
            LlcMessage::DeleteRkey(DeleteRkey {
                reply,
                flags,
                unknown,
                rkeys: lists.rkeys.as_slice().into(),
            })
        }
    }
}
