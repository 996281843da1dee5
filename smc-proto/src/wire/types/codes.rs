//! Codes that keep unassigned values.

use core::fmt;

/// Declares a wire code: a newtype with named constants that keeps unknown values.
macro_rules! wire_code {
    ($(#[$meta:meta])* $name:ident($int:ty), $width:literal {
        $($(#[$cmeta:meta])* $konst:ident = $value:literal => $text:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $int);
        impl $name {
            $($(#[$cmeta])* pub const $konst: Self = Self($value);)*
            /// What the code means in a few words, or `None` if it is not assigned.
            #[must_use]
            pub const fn meaning(self) -> Option<&'static str> {
                match self.0 { $($value => Some($text),)* _ => None }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("0x{:0", $width, "x}"), self.0)?;
                match self.meaning() {
                    Some(text) => write!(f, " ({text})"),
                    None => Ok(()),
                }
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}
wire_code! {
    /// Why a link is deleted (RFC 7609 A.3.4, LLC-044).
    //= LLC-044
    DeleteLinkReason(u32), "8" {
        /// Loss of path.
        LOST_PATH = 0x0001_0000 => "lost path",
        /// Operator request.
        OPERATOR = 0x0002_0000 => "operator request",
        /// Program decision or inactivity.
        PROGRAM = 0x0003_0000 => "program or inactivity",
        /// LLC protocol violation.
        PROTOCOL_VIOLATION = 0x0004_0000 => "LLC protocol violation",
        /// An asymmetric link is no longer needed.
        ASYMMETRIC_NOT_NEEDED = 0x0005_0000 => "asymmetric link not needed",
        /// Response: the link is not known.
        UNKNOWN_LINK = 0x0010_0000 => "unknown link",
        /// Response: the link group is not known.
        UNKNOWN_GROUP = 0x0020_0000 => "unknown link group",
    }
}

wire_code! {
    /// Why an ADD LINK is rejected (RFC 7609 A.3.2, LLC-024), 4 bits.
    AddLinkRejectReason(u8), "1" {
        /// No reason is given, as in version 2.
        UNSPECIFIED = 0 => "unspecified",
        /// No alternate path.
        NO_ALTERNATE_PATH = 1 => "no alternate path",
        /// MTU not usable.
        INVALID_MTU = 2 => "invalid MTU",
    }
}

wire_code! {
    /// Operating system of the sender, 4 bits. RFC 7609 has reserved bits
    /// here; version 2 fills them.
    //= V2-070
    PeerOs(u8), "1" {
        /// No system is named.
        UNKNOWN = 0 => "unknown",
        /// z/OS.
        ZOS = 1 => "z/OS",
        /// Linux.
        LINUX = 2 => "Linux",
        /// AIX.
        AIX = 3 => "AIX",
    }
}
