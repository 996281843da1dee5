//! IP addresses as text, in the form of `core::net`.
//!
//! The `Display` of `core::net` brings panicking code for paddings that no caller asks
//! for, and the absence of such code is checked in the linked engine.

use core::fmt;

/// Prints an IPv4 address.
pub(super) struct Ipv4<'a>(pub(super) &'a [u8; 4]);

/// Prints an IPv6 address; mapped IPv4 addresses with dots.
pub(super) struct Ipv6<'a>(pub(super) &'a [u8; 16]);

impl fmt::Display for Ipv4<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

impl fmt::Display for Ipv6<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] = *self.0 {
            return write!(f, "::ffff:{}", Ipv4(&[a, b, c, d]));
        }
        let groups: [[u8; 2]; 8] = zerocopy::transmute!(*self.0);
        let gap = longest_zeros(&groups);
        let mut separator = "";
        for (index, group) in groups.into_iter().enumerate() {
            if index == gap.start {
                f.write_str("::")?;
                separator = "";
            }
            if gap.contains(&index) {
                continue;
            }
            write!(f, "{separator}{:x}", u16::from_be_bytes(group))?;
            separator = ":";
        }
        Ok(())
    }
}

/// The first of the longest runs of two or more zero groups; past the end if
/// there is none.
fn longest_zeros(groups: &[[u8; 2]; 8]) -> core::ops::Range<usize> {
    let mut longest = 8..9;
    let mut start = 0usize;
    for (index, group) in groups.iter().enumerate() {
        let next = index.saturating_add(1);
        if *group != [0, 0] {
            start = next;
        } else if next.saturating_sub(start) > longest.len() {
            longest = start..next;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::format;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_read_as_in_the_standard_library(
            octets in any::<[u8; 16]>(),
            zeros in any::<u16>(),
            mapped in any::<bool>(),
        ) {
            let mut octets = octets;
            for (index, octet) in octets.iter_mut().enumerate() {
                if zeros >> (index / 2) & 1 != 0 || zeros >> (8 + index / 2) & 1 != 0 {
                    *octet = 0;
                }
            }
            if mapped {
                octets[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
            }
            prop_assert_eq!(format!("{}", Ipv6(&octets)), format!("{}", Ipv6Addr::from(octets)));
            let four = [octets[12], octets[13], octets[14], octets[15]];
            prop_assert_eq!(format!("{}", Ipv4(&four)), format!("{}", Ipv4Addr::from(four)));
        }
    }
}
