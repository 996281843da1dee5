//! The TCP option by which both ends announce that they speak SMC-R
//! (RFC 7609 A.1): an experimental option (RFC 6994) of six octets.

/// The option as it is among the options of a SYN and of a SYN-ACK: kind
/// 254, length 6, and the eye catcher as experiment identifier.
//= TCPOPT-002
pub const OPTION: [u8; 6] = [254, 6, 0xe2, 0xd4, 0xc3, 0xd9];

const END_OF_LIST: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Whether the options of a TCP header (its octets from 20 on) hold
/// [`OPTION`].
///
/// The walk ends at the end-of-list option and at the first option whose
/// length is below 2 or runs past the octets given; what is before it
/// counts. The same octets inside another option do not.
#[must_use]
pub fn find_in_options(options: &[u8]) -> bool {
    let mut rest = options;
    loop {
        rest = match *rest {
            [] | [END_OF_LIST, ..] | [_] => return false,
            [NO_OPERATION, ref tail @ ..] => tail,
            [_, length, ..] => {
                let length = usize::from(length);
                let Some((option, tail)) = rest.split_at_checked(length) else {
                    return false;
                };
                //= TCPOPT-013
                if *option == OPTION {
                    return true;
                }
                if length < 2 {
                    return false;
                }
                tail
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_option_is_found_where_linux_puts_it() {
        //= TCPOPT-002 test
        let syn = [
            2, 4, 5, 0xb4, 4, 2, 8, 0x0a, 0x77, 0x12, 0x72, 0xa3, 0, 0, 0, 0, 1, 3, 3, 7, 1, 1,
            254, 6, 0xe2, 0xd4, 0xc3, 0xd9,
        ];
        assert!(find_in_options(&syn));
        assert!(find_in_options(&OPTION));
        assert!(!find_in_options(&syn[..27]));
        assert!(!find_in_options(&syn[..22]));
    }

    #[test]
    fn other_experiments_and_lengths_are_not_the_option() {
        //= TCPOPT-013 test
        assert!(!find_in_options(&[254, 6, 0xe2, 0xd4, 0xc3, 0xc4]));
        assert!(!find_in_options(&[254, 8, 0xe2, 0xd4, 0xc3, 0xd9, 0, 0]));
        assert!(!find_in_options(&[253, 6, 0xe2, 0xd4, 0xc3, 0xd9]));
        assert!(!find_in_options(&[254, 4, 0xe2, 0xd4]));
        // Inside another option, behind the end of the list, behind nonsense.
        assert!(!find_in_options(&[3, 8, 254, 6, 0xe2, 0xd4, 0xc3, 0xd9]));
        assert!(!find_in_options(&[0, 254, 6, 0xe2, 0xd4, 0xc3, 0xd9]));
        assert!(!find_in_options(&[3, 0, 254, 6, 0xe2, 0xd4, 0xc3, 0xd9]));
        assert!(!find_in_options(&[3, 1, 254, 6, 0xe2, 0xd4, 0xc3, 0xd9]));
        assert!(!find_in_options(&[3, 40, 254, 6, 0xe2, 0xd4, 0xc3, 0xd9]));
        assert!(find_in_options(&[
            254, 4, 9, 9, 254, 6, 0xe2, 0xd4, 0xc3, 0xd9, 0
        ]));
        assert!(!find_in_options(&[]));
        assert!(!find_in_options(&[1]));
    }

    proptest! {
        #[test]
        fn arbitrary_options_end_the_walk(options in proptest::collection::vec(any::<u8>(), 0..64)) {
            let found = find_in_options(&options);
            prop_assert!(!found || options.windows(6).any(|w| w == OPTION));
        }
    }
}
