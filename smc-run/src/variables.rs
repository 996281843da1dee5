//! Environment variables, and the values they take.
//!
//! The library ignores all of them in a process that gained rights when it was executed
//! (`AT_SECURE`).

/// Bytes of a connection's receive buffer, as [`size`] parses them; `smc_run` has it, too.
pub const RECEIVE_BUFFER: &str = "SMC_RCVBUF";

/// Bytes of a connection's send buffer, as [`size`] parses them; `smc_run` has it, too.
pub const SEND_BUFFER: &str = "SMC_SNDBUF";

/// Whether the library writes a line for each connection; see [`is_set`].
pub const DEBUG: &str = "SMC_DEBUG";

/// Path of the table of [`crate::statistics`].
pub const STATISTICS: &str = "SMC_STATS";

/// `0` turns the library off.
pub const PRELOAD: &str = "SMC_PRELOAD";

/// Parses a number of bytes: decimal digits with an optional suffix `K` or `M`, upper or
/// lower case, for KiB and MiB, as `smc_run` does.
///
/// Returns `None` for anything else, for 0, and for more than `i32::MAX`, the most that
/// `SO_RCVBUF` takes.
#[must_use]
pub fn size(text: &str) -> Option<u32> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 20),
        _ => (text, 0),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    let bytes = u32::try_from(bytes).ok()?;
    (1..=i32::MAX.unsigned_abs())
        .contains(&bytes)
        .then_some(bytes)
}

/// Whether the value of a switch such as [`DEBUG`] turns it on: any but an empty one and `0`.
#[must_use]
pub fn is_set(value: &[u8]) -> bool {
    !matches!(value, b"" | b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_smc_run() {
        for (text, bytes) in [
            ("1", Some(1)),
            ("65536", Some(65_536)),
            ("64k", Some(65_536)),
            ("64K", Some(65_536)),
            ("2M", Some(2 << 20)),
            ("2047m", Some(2047 << 20)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", None),
            ("2048M", None),
            ("99999999999999999999K", None),
            ("18446744073709551615M", None),
            ("0", None),
            ("0K", None),
            ("", None),
            ("K", None),
            ("-1", None),
            ("+1", None),
            ("1 K", None),
            ("1KK", None),
            ("1G", None),
            ("1é", None),
        ] {
            assert_eq!(size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn a_switch_is_off_when_empty_or_zero() {
        assert!(!is_set(b"") && !is_set(b"0"));
        assert!(is_set(b"1") && is_set(b"no") && is_set(b"\xff"));
    }
}
