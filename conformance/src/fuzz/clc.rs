//! Bodies over CLC messages alone.

use smc_proto::wire::clc::{ClcHeader, ClcMessage, ClcParseError, HEADER_LENGTH, MAX_LENGTH};

use super::Reader;
use super::text::{print, print_in_part};

mod asked;
mod made;

pub use made::clc_message;

/// Any bytes as a CLC message.
///
/// Parsing ignores what follows the message, an error points into the input,
/// and what was parsed is emitted in the length that it stated, parses to itself and is
/// emitted the same again.
/// Every so often it is asked what else can be asked of it, which takes longer.
pub fn clc_any(data: &[u8]) {
    let more = is_one_of_many(data);
    match ClcMessage::parse(data) {
        Ok((message, length)) => {
            check_message(data, &message, length);
            if more {
                print_in_part(&message);
                asked::ask(&message);
            }
        }
        Err(error) => check_error(data, error),
    }
    if more {
        asked::name(data);
    }
}

/// Accepts one input of thirty-two.
pub(super) fn is_one_of_many(data: &[u8]) -> bool {
    // By all bytes: the last ones of a message are always the same.
    let sum = data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    sum.is_multiple_of(32)
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
        "the octets behind the message were read"
    );
    let have = length - 1;
    assert_eq!(
        ClcMessage::parse(&data[..have]),
        Err(ClcParseError::TooShort {
            have,
            needed: length
        })
    );
    let bytes = emit(message);
    let (again, used) = ClcMessage::parse(&bytes).expect("what was emitted parses");
    assert_eq!((&again, used), (message, bytes.len()));
    assert_eq!(emit(&again), bytes);
}

/// Emits into a buffer of just the right size, after one that is too small.
fn emit(message: &ClcMessage) -> Vec<u8> {
    let needed = message.encoded_len();
    assert!(needed <= MAX_LENGTH);
    let mut bytes = vec![0xa5; needed];
    let error = message
        .emit(&mut bytes[..needed - 1])
        .expect_err("too small");
    print(&error);
    assert_eq!(error.needed, needed);
    assert!(
        bytes.iter().all(|byte| *byte == 0xa5),
        "written although too small"
    );
    assert_eq!(message.emit(&mut bytes), Ok(needed));
    bytes
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
    let bytes = emit(&message);
    assert_eq!(
        ClcMessage::parse(&bytes),
        Ok((message.clone(), bytes.len()))
    );
    check_message(&bytes, &message, bytes.len());
    if is_one_of_many(data) {
        print_in_part(&message);
        asked::ask(&message);
    }
}
