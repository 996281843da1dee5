//! Values of arguments.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::str::FromStr;

/// Percentages in rising order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Percentages(pub Vec<u8>);

impl FromStr for Percentages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = text.split(',').map(str::trim).map(percentage);
        let all = all.collect::<Result<Vec<_>, _>>()?;
        if !all.is_sorted_by(|one, next| one < next) {
            return Err("each percentage must be greater than the one before".to_owned());
        }
        Ok(Self(all))
    }
}

/// Seeds: at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seeds(pub Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
        let ends = text.split_once("..");
        let ends = ends.and_then(|(from, to)| Some((number(from)?, number(to)?)));
        match ends {
            Some((from, to)) if from < to => Ok(Self(from..to)),
            Some(_) => Err("the second number must be greater than the first".to_owned()),
            None => Err("two numbers are wanted, such as 0..1000".to_owned()),
        }
    }
}

/// A number of jobs.
pub(super) fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|_| !text.starts_with('+'));
    number.ok_or_else(|| "a number of jobs is wanted, at least 1".to_owned())
}

/// A percentage at which something is left to be carried.
pub(super) fn percentage(text: &str) -> Result<u8, String> {
    let wanted = "a percentage from 1 to 99 is wanted, without a sign";
    number(text)
        .filter(|number| (1..=99).contains(number))
        .ok_or_else(|| wanted.to_owned())
}

/// A number of RNICs.
pub(super) fn rnics(text: &str) -> Result<u8, String> {
    let wanted = "a host of the demo has 1 to 8 RNICs";
    number(text)
        .filter(|number| (1..=8).contains(number))
        .ok_or_else(|| wanted.to_owned())
}

fn number(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// A number of bytes with k, m or g for KiB, MiB and GiB.
pub(super) fn byte_count(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let short = lower
        .strip_suffix("ib")
        .or(lower.strip_suffix('b'))
        .unwrap_or(&lower);
    let (digits, shift) = match short.char_indices().last() {
        Some((at, 'k')) => (&short[..at], 10),
        Some((at, 'm')) => (&short[..at], 20),
        Some((at, 'g')) => (&short[..at], 30),
        _ => (short, 0),
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .filter(|_| !digits.starts_with('+'));
    let wanted = "a number of bytes is wanted, such as 1000, 64k, 10m or 1g";
    number
        .ok_or(wanted)?
        .checked_mul(1 << shift)
        .ok_or_else(|| "too many bytes".to_owned())
}
