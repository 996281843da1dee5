//! Amounts of memory.

/// `67108864`, `64m`, `64 MiB`: octets, of which there are 1024 in a k.
pub(super) fn octets(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no amount of memory; write it as \"64 MiB\"");
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::octets;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, expected) in [
            ("0", 0),
            ("512", 512),
            ("16k", 16 << 10),
            ("64 MiB", 64 << 20),
            ("2G", 2 << 30),
            ("1 tib", 1 << 40),
        ] {
            assert_eq!(octets(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "m",
            "-1",
            "1.5g",
            "64 MB",
            "99999999999999999999",
            "16777216t",
        ] {
            assert!(octets(text).unwrap_err().contains("64 MiB"), "{text}");
        }
    }
}
