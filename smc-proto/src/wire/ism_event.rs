//! Software events that SMC-D peers send each other's ISM devices.

use super::cdc_ism::Endianness;

/// Code of the event by which a peer announces that it ended a link group.
//= D-051
pub const SHUTDOWN: u32 = 0x80;
/// Code of the event by which a peer asks whether SMC-D is alive.
//= D-054
pub const TEST: u32 = 0x83;
/// VLAN of [`EventInfo`] that stands for all of them.
pub const ANY_VLAN: u16 = 0x0fff;

/// What goes with the code of a software event, 64 bits in the order of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventInfo {
    /// The sender's name for the link group; it is not checked.
    pub group: [u8; 4],
    /// VLAN of the link group.
    pub vlan: u16,
    /// Whether it asks or answers.
    pub kind: u16,
}

impl EventInfo {
    /// [`EventInfo::kind`] of one that asks.
    pub const REQUEST: u16 = 1;
    /// [`EventInfo::kind`] of one that answers.
    pub const RESPONSE: u16 = 2;

    /// Reads what goes with an event.
    #[must_use]
    pub const fn from_bits(bits: u64, order: Endianness) -> Self {
        let [a, b, c, d, v0, v1, k0, k1] = order.octets(bits);
        Self {
            group: [a, b, c, d],
            vlan: order.wrap([v0, v1]),
            kind: order.wrap([k0, k1]),
        }
    }

    /// The event as 64 bits.
    #[must_use]
    pub const fn bits(self, order: Endianness) -> u64 {
        let [a, b, c, d] = self.group;
        let [v0, v1] = order.wrap_octets(self.vlan);
        let [k0, k1] = order.wrap_octets(self.kind);
        order.bits([a, b, c, d, v0, v1, k0, k1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_four_octets_and_two_numbers_in_memory() {
        //= D-054 test
        let info = EventInfo {
            group: *b"abcd",
            vlan: 0x0fff,
            kind: EventInfo::REQUEST,
        };
        assert_eq!(info.bits(Endianness::Big), 0x6162_6364_0fff_0001);
        assert_eq!(info.bits(Endianness::Little), 0x0001_0fff_6463_6261);
        for order in [Endianness::Big, Endianness::Little] {
            assert_eq!(EventInfo::from_bits(info.bits(order), order), info);
            assert_eq!(EventInfo::from_bits(u64::MAX, order).bits(order), u64::MAX);
        }
    }
}
