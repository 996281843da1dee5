//! Bodies over LLC and CDC messages and the TCP option alone.

use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{CDC_LENGTH, CDC_TYPE, Cdc, CdcError, ConnectionFlags, ProducerFlags};
use smc_proto::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, CdcIsmError, Endianness, PRODUCER};
use smc_proto::wire::llc::{LLC_LENGTH, LlcMessage, LlcParseError};
use smc_proto::wire::tcp_option::{OPTION, find_in_options};
use smc_proto::wire::types::{AlertToken, Cursor};

use super::Reader;
use super::clc::is_one_of_many;
use super::text::{print, print_in_part};

/// Any bytes as an LLC message: 44 bytes and no more are read, an error
/// fits the bytes it speaks of, and what was parsed is emitted, parses to
/// itself and is emitted the same again.
pub fn llc_v1(data: &[u8]) {
    let kind = data.first().copied();
    match LlcMessage::parse(data, SmcVersion::V1) {
        Ok(message) => {
            print(&message);
            if is_one_of_many(data) {
                print_in_part(&message);
            }
            assert_eq!(Some(message.kind(SmcVersion::V1)), kind);
            assert_eq!(message.is_reply(), data[3] & 0x80 != 0);
            assert_eq!(
                LlcMessage::parse(&data[..LLC_LENGTH], SmcVersion::V1),
                Ok(message.clone()),
                "the octets behind the message were read"
            );
            let bytes = message.emit_short(SmcVersion::V1).unwrap();
            assert_eq!(bytes[..2], data[..2]);
            assert_eq!(LlcMessage::parse(&bytes, SmcVersion::V1), Ok(message));
        }
        Err(error) => {
            print(&error);
            match error {
                LlcParseError::TooShort { have } => {
                    assert_eq!(have, data.len());
                    assert!(have < LLC_LENGTH);
                }
                LlcParseError::BadLength { length } => {
                    assert_eq!(data.get(1), Some(&length));
                    assert_ne!(usize::from(length), LLC_LENGTH);
                }
                LlcParseError::UnknownOptional { kind: k } => {
                    assert_eq!((Some(k), k & 0xc0), (kind, 0x80));
                }
                LlcParseError::UnknownMandatory { kind: k } => {
                    assert_eq!((Some(k), k & 0x80), (kind, 0));
                }
                LlcParseError::Cdc { kind: k } => assert_eq!((Some(k), k & 0xc0), (kind, 0xc0)),
                LlcParseError::CountOutOfRange {
                    kind: k,
                    count,
                    least,
                    most,
                } => {
                    assert_eq!((Some(&k), Some(&count)), (data.first(), data.get(4)));
                    assert!(!(least..=most).contains(&count));
                }
                _ => {}
            }
        }
    }
}

/// Any bytes as a CDC message, and a CDC message made of the input.
pub fn cdc_any(data: &[u8]) {
    match Cdc::parse(data) {
        Ok(cdc) => {
            print(&cdc);
            if is_one_of_many(data) {
                print_in_part(&cdc);
            }
            assert_eq!(Cdc::parse(&data[..CDC_LENGTH]), Ok(cdc));
            let bytes = cdc.emit();
            assert_eq!(bytes[..8], data[..8], "sequence or token changed");
            assert_eq!(Cdc::parse(&bytes), Ok(cdc));
        }
        Err(error) => {
            print(&error);
            match error {
                CdcError::TooShort { have } => {
                    assert!(have == data.len() && have < CDC_LENGTH);
                }
                CdcError::NotCdc { kind } => {
                    assert!(kind == data[0] && kind != CDC_TYPE);
                }
                CdcError::BadLength { length } => {
                    assert!(length == data[1] && usize::from(length) != CDC_LENGTH);
                }
                _ => {}
            }
        }
    }
    let cdc = cdc(&mut Reader::new(data));
    assert_eq!(Cdc::parse(&cdc.emit()), Ok(cdc));
}

fn cdc(r: &mut Reader<'_>) -> Cdc {
    let mut cursor = || Cursor {
        wrap: r.u16(),
        count: r.u32(),
    };
    let (producer, consumer) = (cursor(), cursor());
    Cdc {
        sequence: r.u16(),
        alert_token: AlertToken(r.u32()),
        producer,
        consumer,
        producer_flags: ProducerFlags::from_bits_truncate(r.u8()),
        connection_flags: ConnectionFlags::from_bits_truncate(r.u8()),
    }
}

/// Any bytes as the options of a TCP header: the option is found exactly where
/// a walk written differently finds it.
pub fn tcp_option(data: &[u8]) {
    let mut at = 0;
    let mut expected = false;
    while at + 1 < data.len() && data[at] != 0 {
        let length = match data[at] {
            1 => 1,
            _ => usize::from(data[at + 1]),
        };
        let end = at + length;
        if end > data.len() || length == 0 || (length == 1 && data[at] != 1) {
            break;
        }
        expected |= data[at..end] == OPTION;
        at = end;
    }
    assert_eq!(find_in_options(data), expected, "{data:02x?}");
}

/// Any 32 bytes as the CDC message at the head of a DMB, in both orders: a
/// fault is one of the type byte, and what was parsed is emitted and parses to
/// itself; read in the other order the numbers are swapped and nothing else.
pub fn cdc_ism(data: &[u8]) {
    let bytes: [u8; CDC_ISM_LENGTH] = Reader::new(data).array();
    let read = |order| CdcIsm::parse(&bytes, order);
    match (read(Endianness::Big), read(Endianness::Little)) {
        (Ok(big), Ok(little)) => {
            print(&big);
            if is_one_of_many(data) {
                print_in_part(&big);
            }
            assert_eq!(bytes[0], CDC_TYPE);
            for (message, order) in [(big, Endianness::Big), (little, Endianness::Little)] {
                let emitted = message.emit(order);
                assert_eq!(emitted[PRODUCER.start..PRODUCER.end - 2], bytes[8..14]);
                assert_eq!(CdcIsm::parse(&emitted, order), Ok(message));
            }
            let swapped = |cursor: Cursor| Cursor {
                wrap: cursor.wrap.swap_bytes(),
                count: cursor.count.swap_bytes(),
            };
            let expected = CdcIsm {
                producer: swapped(little.producer),
                consumer: swapped(little.consumer),
                ..little
            };
            assert_eq!(big, expected);
        }
        (Err(error), again) => {
            print(&error);
            assert_eq!(again, Err(error));
            match error {
                CdcIsmError::NotWritten => assert_eq!(bytes[0], 0),
                CdcIsmError::NotCdc { kind } => {
                    assert!(kind == bytes[0] && kind != CDC_TYPE && kind != 0);
                }
                _ => {}
            }
        }
        (Ok(_), Err(error)) => panic!("{error} in one order only"),
    }
}
