//! Bodies over CLC messages alone.

use core::fmt::{self, Write as _};

use smc_proto::wire::clc::{
    AcceptConfirm, ClcHeader, ClcMessage, ClcParseError, ClcVersion, Decline, HEADER_LENGTH,
    Ipv6Prefix, IsmArea, MAX_LENGTH, OfferedPath, PeerOs, Proposal, Subnets,
};
use smc_proto::wire::types::{
    AlertToken, BufferSize, DiagnosisCode, Gid, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken, RmbeIndex,
};

use super::Reader;

/// Takes text and keeps nothing of it.
struct Nowhere;

impl fmt::Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

pub(super) fn print(value: &impl fmt::Display) {
    write!(Nowhere, "{value}").expect("printing cannot fail");
}

/// Any octets as a CLC message.
///
/// Parsing looks at nothing behind the message, an error points into the input,
/// and what was parsed is emitted in the length it said, parses to itself and is
/// emitted the same again.
pub fn clc_any(data: &[u8]) {
    match ClcMessage::parse(data) {
        Ok((message, length)) => check_message(data, &message, length),
        Err(error) => check_error(data, error),
    }
}

fn check_message(data: &[u8], message: &ClcMessage, length: usize) {
    print(message);
    let header = ClcHeader::parse(data).expect("the message has a header");
    assert_eq!(
        (usize::from(header.length), header.kind),
        (length, message.kind())
    );
    assert!(length <= data.len() && length <= MAX_LENGTH);
    assert_eq!(
        ClcMessage::parse(&data[..length]),
        Ok((message.clone(), length)),
        "the octets behind the message were looked at"
    );
    let have = length - 1;
    assert_eq!(
        ClcMessage::parse(&data[..have]),
        Err(ClcParseError::TooShort {
            have,
            needed: length
        })
    );
    let octets = emit(message);
    let (again, used) = ClcMessage::parse(&octets).expect("what was emitted parses");
    assert_eq!((&again, used), (message, octets.len()));
    assert_eq!(emit(&again), octets);
}

/// Emits into a buffer of just the right size, after one that is too small.
fn emit(message: &ClcMessage) -> Vec<u8> {
    let needed = message.encoded_len();
    assert!(needed <= MAX_LENGTH);
    let mut octets = vec![0xa5; needed];
    let error = message
        .emit(&mut octets[..needed - 1])
        .expect_err("too small");
    assert_eq!(error.needed, needed);
    assert!(
        octets.iter().all(|octet| *octet == 0xa5),
        "written although too small"
    );
    assert_eq!(message.emit(&mut octets), Ok(needed));
    octets
}

fn check_error(data: &[u8], error: ClcParseError) {
    print(&error);
    match error {
        ClcParseError::TooShort { have, needed } => {
            assert_eq!(have, data.len());
            assert!(have < needed && needed <= MAX_LENGTH);
        }
        ClcParseError::EyeCatcher { offset, found } => {
            assert_eq!(data.get(offset..offset + 4), Some(&found[..]));
        }
        ClcParseError::UnknownType { kind } => assert_eq!(data.get(4), Some(&kind)),
        ClcParseError::BadLength { length, .. } | ClcParseError::ProposalLength { length, .. } => {
            assert_eq!(data.get(5..7), Some(&length.to_be_bytes()[..]));
        }
        _ => assert!(data.len() >= HEADER_LENGTH),
    }
}

/// A CLC message made of the input: parsing gives it back.
pub fn clc_roundtrip(data: &[u8]) {
    let mut r = Reader::new(data);
    let message = clc_message(&mut r);
    let octets = emit(&message);
    assert_eq!(
        ClcMessage::parse(&octets),
        Ok((message.clone(), octets.len()))
    );
    check_message(&octets, &message, octets.len());
}

/// A legal message of any kind.
pub(super) fn clc_message(r: &mut Reader<'_>) -> ClcMessage {
    match r.below(4) {
        0 => ClcMessage::Proposal(proposal(r)),
        1 => ClcMessage::Accept(accept_confirm(r)),
        2 => ClcMessage::Confirm(accept_confirm(r)),
        _ => ClcMessage::Decline(decline(r)),
    }
}

fn version(r: &mut Reader<'_>) -> ClcVersion {
    ClcVersion::new(r.u8() & 0x0f).unwrap_or(ClcVersion::V1)
}

fn decline(r: &mut Reader<'_>) -> Decline {
    Decline {
        version: version(r),
        out_of_sync: r.flag(),
        peer_id: PeerId(r.array()),
        diagnosis: DiagnosisCode(r.u32()),
        os: PeerOs(r.u8() & 0x0f),
    }
}

fn accept_confirm(r: &mut Reader<'_>) -> AcceptConfirm {
    AcceptConfirm {
        first_contact: r.flag(),
        peer_id: PeerId(r.array()),
        gid: Gid(r.array()),
        mac: Mac(r.array()),
        qpn: Qpn::new(r.u32()),
        rtoken: RToken {
            rkey: RKey(r.u32()),
            address: r.u64(),
        },
        rmbe_index: RmbeIndex(r.u8()),
        alert_token: AlertToken(r.u32()),
        buffer_size: BufferSize::from_code(r.u8()),
        mtu: Mtu::from_code(r.u8()),
        psn: Psn::new(r.u32()),
    }
}

fn proposal(r: &mut Reader<'_>) -> Proposal {
    let version = version(r);
    let v1 = [
        OfferedPath::SmcR,
        OfferedPath::SmcD,
        OfferedPath::Neither,
        OfferedPath::Both,
    ][r.below(4)];
    let mut subnets = Subnets::default();
    if version.is_v1() || v1 != OfferedPath::Neither {
        subnets.network = r.array::<4>().into();
        subnets.prefix_length = r.u8();
        for _ in 0..r.below(9) {
            let prefix = Ipv6Prefix {
                address: r.array::<16>().into(),
                length: r.u8(),
            };
            subnets.ipv6.push(prefix).expect("at most eight");
        }
    }
    // The area is there in version 2 always, in version 1 only if it is filled.
    let has_ism = v1.has_smcd() && (!version.is_v1() || r.flag());
    Proposal {
        version,
        v1,
        peer_id: PeerId(r.array()),
        gid: Gid(r.array()),
        mac: Mac(r.array()),
        ism: has_ism.then(|| IsmArea {
            gid: r.u64(),
            chid: r.u16(),
        }),
        subnets,
        v2_offer: None,
    }
}
