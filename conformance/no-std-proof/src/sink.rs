//! Where results go, so that computing them cannot be left out.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::hint::black_box;

/// Takes any value, so that it has to be there.
pub fn keep<T>(value: T) {
    black_box(value);
}

/// A checksum of everything printed, hashed or returned.
pub struct Sink(u64);

impl Sink {
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub fn octets(&mut self, octets: &[u8]) {
        for octet in octets {
            self.0 = (self.0 ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Derived `Debug` of six fields and more calls a function of core that asserts
    /// something about its arguments, which the compiler wrote: so it is linked
    /// where panics may be, to be counted as reached, and not where they may not.
    pub fn debug<T: fmt::Debug + ?Sized>(&mut self, value: &T) {
        if cfg!(feature = "panics") {
            let _ = fmt::write(self, format_args!("{value:?} {value:#?}"));
        }
    }

    pub fn display<T: fmt::Display + ?Sized>(&mut self, value: &T) {
        let _ = fmt::write(self, format_args!("{value} {value:>40}"));
    }

    pub fn hash<T: Hash + ?Sized>(&mut self, value: &T) {
        value.hash(self);
    }

    /// What any plain value can do.
    pub fn value<T: Clone + PartialEq + fmt::Debug>(&mut self, a: &T, b: &T) {
        self.debug(a);
        let copy = black_box(a).clone();
        keep(copy == *b);
    }

    /// Takes two values with `Hash`.
    pub fn hashed<T: Clone + PartialEq + fmt::Debug + Hash>(&mut self, a: &T, b: &T) {
        self.value(a, b);
        self.hash(a);
    }

    /// Takes two values with `Display`.
    pub fn shown<T: Clone + PartialEq + fmt::Debug + Hash + fmt::Display>(&mut self, a: &T, b: &T) {
        self.hashed(a, b);
        self.display(a);
    }

    /// Takes two values with an order.
    pub fn ordered<T: Ord>(&mut self, a: &T, b: &T) {
        keep(a.partial_cmp(b));
        keep(a.cmp(b));
    }
}

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.octets(text.as_bytes());
        Ok(())
    }
}

impl Hasher for Sink {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, octets: &[u8]) {
        self.octets(octets);
    }
}
