//! Values and times.

use core::time::Duration;
use std::net::Ipv6Addr;

use crate::scripts::parsed::Value;
use crate::scripts::text::Token;

/// A value as it is behind `=`.
pub(super) fn value(plain: &str, quoted: Option<&str>) -> Option<Value> {
    if let Some(text) = quoted {
        return plain.is_empty().then(|| Value::Text(text.to_owned()));
    }
    if plain == "*" {
        return Some(Value::Any);
    }
    if let Some(name) = plain.strip_prefix('$') {
        let (name, added) = match name.split_once(['+', '-']) {
            Some((variable, added)) => {
                let added: i64 = added.parse().ok()?;
                let negative = name.as_bytes().get(variable.len()) == Some(&b'-');
                (variable, if negative { -added } else { added })
            }
            None => (name, 0),
        };
        return Some(Value::Variable(name.to_owned(), added));
    }
    if let Some((count, each)) = plain.split_once('*') {
        let (count, each): (usize, _) = (count.parse().ok()?, hexadecimal(each)?);
        return Some(Value::Number(0, each.repeat(count)));
    }
    if let Some(bytes) = hexadecimal(plain) {
        return Some(Value::Number(number(&bytes), bytes));
    }
    if let Some(value) = address(plain) {
        return Some(value);
    }
    let (digits, scale) = match plain.strip_suffix('k') {
        Some(digits) => (digits, 1024),
        None => (plain, 1),
    };
    if let Ok(value) = digits.parse::<u128>() {
        let value = value.checked_mul(scale)?;
        return Some(Value::Number(value, value.to_be_bytes().to_vec()));
    }
    (!plain.is_empty()).then(|| Value::Word(plain.to_owned()))
}

/// Bytes in hexadecimal digits behind 0x.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text
        .strip_prefix("0x")
        .filter(|digits| !digits.is_empty())?;
    let even = if digits.len() % 2 == 0 {
        digits.to_owned()
    } else {
        format!("0{digits}")
    };
    let pairs = (0..even.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(even.get(at..at + 2)?, 16).ok())
        .collect()
}

fn number(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u128::from(*byte))
}

/// A cursor `wrap:count`, a MAC or a GID.
fn address(text: &str) -> Option<Value> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [wrap, count] => {
            let (wrap, count): (u16, u32) = (wrap.parse().ok()?, count.parse().ok()?);
            let value = u128::from(wrap) << 32 | u128::from(count);
            Some(Value::Number(value, value.to_be_bytes().to_vec()))
        }
        [_, _, _, _, _, _] if parts.iter().all(|part| part.len() == 2) => {
            let bytes: Option<Vec<u8>> = parts
                .iter()
                .map(|part| u8::from_str_radix(part, 16).ok())
                .collect();
            let bytes = bytes?;
            Some(Value::Number(number(&bytes), bytes))
        }
        _ => {
            let address: Ipv6Addr = text.parse().ok()?;
            Some(Value::Number(address.to_bits(), address.octets().to_vec()))
        }
    }
}

/// A time: `10ms`, `2s`, `1500us`, `7ns`, `5m`; 0 needs no unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let unit = text.find(|each: char| !each.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit)?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "ns" => Duration::from_nanos(number),
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        _ => return None,
    })
}

/// Bytes of two hexadecimal digits each.
pub(super) fn bytes(words: &[Token]) -> Result<Vec<u8>, u32> {
    let byte = |token: &Token| {
        (token.plain.len() == 2)
            .then(|| u8::from_str_radix(&token.plain, 16).ok())
            .flatten()
            .ok_or(token.column)
    };
    let mut bytes = Vec::new();
    for token in words {
        match token.plain.split_once('*') {
            Some((count, _)) => {
                let count: usize = count.parse().map_err(|_| token.column)?;
                let mut each = token.clone();
                each.plain = token
                    .plain
                    .split_once('*')
                    .map_or("", |two| two.1)
                    .to_owned();
                let each = byte(&each)?;
                bytes.resize(bytes.len() + count, each);
            }
            None => bytes.push(byte(token)?),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_of(text: &str) -> Option<u128> {
        match value(text, None)? {
            Value::Number(number, _) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn values_are_numbers_addresses_cursors_variables_and_words() {
        assert_eq!(number_of("64k"), Some(65_536));
        assert_eq!(number_of("0x1ff"), Some(511));
        assert_eq!(number_of("1:5"), Some(1 << 32 | 5));
        assert_eq!(number_of("02:00:00:00:01:01"), Some(0x0200_0000_0101));
        assert_eq!(number_of("::ffff:10.0.1.2"), Some(0xffff_0a00_0102));
        assert_eq!(
            value("3*0x0102", None),
            Some(Value::Number(0, vec![1, 2, 1, 2, 1, 2]))
        );
        assert_eq!(
            value("$q-1", None),
            Some(Value::Variable("q".to_owned(), -1))
        );
        assert_eq!(value("yes", None), Some(Value::Word("yes".to_owned())));
        assert_eq!(value("", None), None);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("0"), Some(Duration::ZERO));
        assert_eq!(duration("1500us"), Some(Duration::from_micros(1500)));
        assert_eq!(duration("5m"), Some(Duration::from_secs(300)));
        for wrong in ["5", "ms", "5h", "-1s", "1.5s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
