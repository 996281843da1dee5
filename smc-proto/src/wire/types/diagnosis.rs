//! Why a peer declined, in words.

use core::fmt;

/// Why a peer sent Decline. RFC 7609 leaves the values to the sender
/// (CLC-044); these are the ones deployed peers use and their tools print.
///
/// Other values survive, compare, and print in hexadecimal.
//= V2-073
//= V2-272
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiagnosisCode(pub u32);

/// One row a code: constant, value, a few words, a sentence, a remedy.
macro_rules! diagnosis_codes {
    ($($konst:ident = $value:literal, $words:literal, $sentence:literal, $remedy:literal;)*) => {
        impl DiagnosisCode {
            $(#[doc = $sentence] pub const $konst: Self = Self($value);)*

            /// Every code that has a name, in ascending order.
            pub const ALL: &[Self] = &[$(Self::$konst),*];

            /// What the code means in a few words, or `None` if it is not assigned.
            #[must_use]
            pub const fn meaning(self) -> Option<&'static str> {
                match self.0 { $($value => Some($words),)* _ => None }
            }

            /// The name of the constant, or `UNASSIGNED`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 { $($value => stringify!($konst),)* _ => "UNASSIGNED" }
            }

            /// One sentence on what the sender of the code ran into.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self.0 {
                    $($value => $sentence,)*
                    _ => "The sender gave a reason that has no agreed meaning.",
                }
            }

            /// What an operator can do about it.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self.0 {
                    $($value => $remedy,)*
                    _ => "Look up the code in the documentation of the peer.",
                }
            }
        }
    };
}

diagnosis_codes! {
    MEMORY = 0x0101_0000, "no memory",
        "The sender had no memory left for the buffers or the state of a connection.",
        "Give SMC more memory, use smaller buffers or fewer connections.";
    TIMEOUT_CONFIRM_LINK = 0x0201_0000, "timeout waiting for CONFIRM LINK",
        "The first link was set up but no CONFIRM LINK, or no answer to it, came over it in time.",
        "Check that RDMA packets pass between both ports: VLAN, MTU, firewalls for UDP port 4791.";
    TIMEOUT_ADD_LINK = 0x0202_0000, "timeout waiting for ADD LINK",
        "The second link was not offered, or the offer not answered, in time.",
        "Check that the first link is stable; set the limit of links to 1 if there is one port only.";
    CONFIGURATION = 0x0300_0000, "configuration error",
        "The sender's configuration forbids SMC for this connection or cannot serve it.",
        "Compare the SMC configuration of both hosts.";
    PEER_NO_SMC = 0x0301_0000, "peer does not speak SMC",
        "The other side offered no SMC at all, or none of a kind that the sender knows.",
        "Enable SMC on the other side, and see that the TCP option is not removed on the way.";
    IPSEC = 0x0302_0000, "connection uses IPsec",
        "The connection is protected by IPsec, which RDMA would bypass.",
        "Use SMC without IPsec, or leave the connection on TCP.";
    NO_DEVICE = 0x0303_0000, "no SMC device found",
        "The sender found no device of any kind that could carry the connection.",
        "Check ports, PNET IDs and, for version 2, that both sides have a common EID.";
    NO_SMCD_DEVICE = 0x0303_0001, "no SMC-D device found",
        "The sender found no ISM device that reaches the other side.",
        "Check that an ISM device with the right PNET ID is online on both sides.";
    NO_SMCR_DEVICE = 0x0303_0002, "no SMC-R device found",
        "The sender found no RNIC port for the network of the connection.",
        "Check that the port is active, and its PNET ID and GID.";
    NO_ISM_V2 = 0x0303_0003, "no ISM of version 2",
        "Version 2 of SMC-D was offered but the sender has no ISM that supports it.",
        "Offer SMC-R or version 1 as well, or use an ISM of version 2.";
    NO_V2_EXTENSION = 0x0303_0004, "no version-2 extension",
        "The Proposal offers version 2 but lacks the part that describes the offer.",
        "Update the client: its Proposal contradicts itself.";
    NO_SMCD_V2_EXTENSION = 0x0303_0005, "no SMC-D version-2 extension",
        "The Proposal offers version 2 of SMC-D but lacks the list of devices.",
        "Update the client: its Proposal contradicts itself.";
    NO_SEID = 0x0303_0006, "no system EID",
        "A system EID was needed and one side has none.",
        "Enable the system EID, or define a common user EID.";
    NO_SMCD_V2_DEVICE = 0x0303_0007, "no SMC-D version-2 device",
        "None of the ISM devices that were offered is one the sender can reach.",
        "Check that both sides are on the same machine and have a device on the same channel.";
    NO_UEID = 0x0303_0008, "no user EID",
        "The offer carries no EID by which the sides could find that they belong together.",
        "Define at least one user EID, the same one on both hosts.";
    RELEASE_MISMATCH = 0x0303_0009, "releases differ",
        "The Confirm names another release than the Accept.",
        "Update the client: it has to repeat the release that the server chose.";
    MAX_CONNECTIONS = 0x0303_000a, "limit of connections refused",
        "The limit of connections in a link group is below 16, or was not repeated as agreed.",
        "Configure 16 to 255 connections for each link group on both sides.";
    MAX_LINKS = 0x0303_000b, "limit of links refused",
        "The limit of links in a link group is out of range, or was not repeated as agreed.",
        "Configure one or two links for each link group on both sides.";
    MODE_MISMATCH = 0x0304_0000, "modes differ",
        "The server chose a technology or a version that the client had not offered.",
        "Update the server: its choice contradicts the Proposal.";
    RMBE_EYE_CATCHER = 0x0305_0000, "RMBE eye catcher expected",
        "One side puts an eye catcher in front of the data in its buffers and the other does not.",
        "Configure this side to announce buffers without an eye catcher.";
    FAST_OPEN = 0x0306_0000, "TCP fast open in use",
        "The connection was opened with data in its first segment, before SMC could be agreed on.",
        "Do not use TCP fast open on connections that are to use SMC.";
    PREFIX_MISMATCH = 0x0307_0000, "subnet or prefix differs",
        "The two sides have no IP subnet in common, which version 1 requires.",
        "Put both hosts in one subnet, or use version 2.";
    VLAN = 0x0308_0000, "VLAN error",
        "The sender could not determine which VLAN the connection is in.",
        "Check the VLAN interfaces of the connection's network device.";
    ISM_VLAN = 0x0309_0000, "VLAN error of ISM",
        "The ISM device could not be put into the VLAN of the connection.",
        "Use fewer VLANs on the device, or version 2, which needs none.";
    NO_ACTIVE_LINK = 0x030a_0000, "no active link",
        "The link group has no link that works at the moment.",
        "Check the state of the RNIC ports of both sides; the next connection starts anew.";
    SERVER_LINK_UNKNOWN = 0x030b_0000, "server link not found",
        "The link that the server chose is not one that the client has in that link group.",
        "Nothing, if it happens once while links change; else update both sides.";
    VERSION_MISMATCH = 0x030c_0000, "versions differ",
        "The versions of SMC that the two sides use for this connection differ.",
        "Update the side with the older software.";
    DMB_LIMIT = 0x030d_0000, "no DMB left",
        "The ISM device has no room for another buffer.",
        "Use fewer SMC-D connections on the device.";
    NO_ROUTE = 0x030e_0000, "no route to the peer's GID",
        "There is no IP route to the RNIC port of the other side.",
        "Check routes and neighbours between the addresses of the RNIC ports.";
    INDIRECT_MISMATCH = 0x030f_0000, "one side needs a gateway, the other does not",
        "One side reaches the other through an IP gateway while the other one does so directly.",
        "Make the routes between the RNIC ports the same in both directions.";
    OUT_OF_SYNC = 0x0400_0000, "link group out of sync",
        "The server took a link group for known that the client does not have.",
        "Nothing: the server drops the link group and the next connection starts a new one.";
    PEER_DECLINED = 0x0500_0000, "peer declined",
        "The other side declined and gave a reason of its own.",
        "Check the reason that the other side gave.";
    INTERNAL = 0x0999_0000, "internal error",
        "The sender ran into something that has no code of its own.",
        "Check the messages of the sender.";
    RTOKEN = 0x0999_0001, "RToken cannot be stored",
        "The sender has no room to remember another buffer of the other side, or cannot use it.",
        "Use fewer connections for each link group.";
    LINK_READY = 0x0999_0002, "queue pair error",
        "The queue pair of the link could not be brought to work.",
        "Check the RNIC port and its GID table; the next connection tries again.";
    REGISTER_BUFFER = 0x0999_0003, "buffer registration failed",
        "The buffer could not be registered with the RNIC or announced to the other side.",
        "Check the limits of the RNIC for registered memory, and that the link is stable.";
}

impl fmt::Display for DiagnosisCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)?;
        match self.meaning() {
            Some(text) => write!(f, " ({text})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DiagnosisCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::format;

    #[test]
    fn every_code_has_words_of_its_own() {
        //= V2-272 test
        let mut seen = HashSet::new();
        let mut last = 0;
        for code in DiagnosisCode::ALL {
            assert!(code.0 > last, "ascending");
            last = code.0;
            assert!(seen.insert(code.name()));
            assert!(seen.insert(code.meaning().unwrap()));
            assert!(seen.insert(code.sentence()), "{}", code.name());
            for text in [code.sentence(), code.remedy()] {
                assert!(text.ends_with('.') && text.len() > 20, "{text}");
            }
        }
        assert_eq!(DiagnosisCode::ALL.len(), 36);
        assert_eq!(DiagnosisCode::NO_UEID.name(), "NO_UEID");
    }

    #[test]
    fn unassigned_codes_survive() {
        //= CASE-A16 test
        //= V2-073 test
        let code = DiagnosisCode(0x1234_5678);
        assert_eq!(format!("{code}"), "0x12345678");
        assert_eq!((code.meaning(), code.name()), (None, "UNASSIGNED"));
        assert!(code.sentence().contains("no agreed meaning"));
    }
}
