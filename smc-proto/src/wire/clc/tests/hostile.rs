//! Lengths, offsets and counts of a hostile peer: every value of each.

use super::*;

#[test]
fn cve_2024_49571_subnet_offset_and_prefix_count_are_bounded() {
    //= CASE-H11 test
    //= CASE-A05 test
    //= CASE-A01 test
    let (p1, p2) = (p1(), p2());
    //= CLC-012 test
    //= CLC-024 test
    //= CLC-027 test
    for skip in 0..=u16::MAX {
        let result = proposal(&with(&p1, 38, skip.to_be_bytes()));
        match skip {
            0 => assert!(result.is_ok()),
            1..=40 => assert!(matches!(
                result,
                Err(ClcParseError::ProposalLength {
                    length: 52,
                    expected: 53..
                })
            )),
            _ => assert_eq!(result, Err(ClcParseError::SubnetOffset { offset: skip })),
        }
        let result = proposal(&with(&p2, 38, skip.to_be_bytes()));
        match skip {
            40 => assert!(result.is_ok()),
            _ => assert_eq!(result, Err(ClcParseError::SubnetOffset { offset: skip })),
        }
    }
    for count in 0..=u8::MAX {
        for base in [(&p1, 47), (&p2, 87)] {
            let result = proposal(&with(base.0, base.1, [count]));
            match count {
                0 => assert!(result.is_ok()),
                1..=8 => assert!(matches!(
                    result,
                    Err(ClcParseError::ProposalLength { .. }
                        | ClcParseError::V2ExtensionOffset { .. })
                )),
                _ => assert_eq!(result, Err(ClcParseError::TooManyPrefixes { count })),
            }
        }
    }
}

#[test]
fn cve_2024_49568_version_2_offset_and_counts_are_bounded() {
    //= CASE-H11 test
    //= CASE-A05 test
    //= CASE-A02 test
    //= V2-026 test
    let p2 = p2();
    for offset in 0..=u16::MAX {
        let result = proposal(&with(&p2, 50, offset.to_be_bytes()));
        match offset {
            36 => assert!(result.is_ok()),
            _ => assert_eq!(
                result,
                Err(ClcParseError::V2ExtensionOffset {
                    offset,
                    expected: 36
                })
            ),
        }
    }
    for count in 0..=u8::MAX {
        let eids = proposal(&with(&p2, 88, [count]));
        let gids = proposal(&with(&p2, 89, [count]));
        match count {
            1 => assert!(eids.is_ok() && gids.is_ok()),
            0..=8 => {
                assert!(eids.is_err());
                let length = 212 + 10 * u16::from(count);
                assert_eq!(
                    gids,
                    Err(ClcParseError::ProposalLength {
                        length: 222,
                        expected: length
                    })
                );
            }
            _ => {
                assert_eq!(eids, Err(ClcParseError::TooManyEids { count }));
                assert_eq!(gids, Err(ClcParseError::TooManyIsmGids { count }));
            }
        }
    }
}

#[test]
fn cve_2024_47408_smcd_extension_offset_is_bounded() {
    //= CASE-A05 test
    //= CASE-A03 test
    //= V2-082 test
    let p2 = p2();
    for offset in 0..=u16::MAX {
        let result = proposal(&with(&p2, 94, offset.to_be_bytes()));
        match offset {
            64 => assert!(result.is_ok()),
            _ => assert_eq!(
                result,
                Err(ClcParseError::SmcdExtensionOffset {
                    offset,
                    expected: 64
                })
            ),
        }
    }
}

#[test]
fn cve_2024_57791_a_length_no_message_has_is_refused_by_its_header() {
    //= CASE-A04 test
    let (p1, p2, accept, decline) = (p1(), p2(), hex(ACCEPT), hex(DECLINE_V2));
    //= CLC-010 test
    //= CLC-011 test
    for length in 0..=u16::MAX {
        for (octets, low, high) in [
            (&p1, 52, 228),
            (&p2, 84, 652),
            (&accept, 68, 68),
            (&decline, 44, 44),
        ] {
            let header = ClcHeader::parse(&with(octets, 5, length.to_be_bytes())[..8]);
            match header {
                Ok(header) => assert!(header.length == length && (low..=high).contains(&length)),
                Err(error) => {
                    assert!(matches!(error, ClcParseError::BadLength { .. }));
                    assert!(!(low..=high).contains(&length));
                }
            }
        }
        // As a whole message only its own length is right: any other ends
        // early, or not in an eye catcher, or at a sum that is not its own.
        let result = ClcMessage::parse(&with(&p2, 5, length.to_be_bytes()));
        assert_eq!(result.is_ok(), length == 222);
    }
}
