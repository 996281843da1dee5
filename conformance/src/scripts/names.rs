//! What scripts call GIDs, MACs, queue pairs and memory, and back.
//!
//! On a wire of its own the names are what they are called; elsewhere that wire gives them
//! other ones ([`Wire::name_for_wire`](super::Wire::name_for_wire)).

/// Number of the engine's host in addresses.
pub const ENGINE: u8 = 0;
/// The peer's.
pub const PEER: u8 = 1;

/// Bytes of memory between two connections of the peer on a link.
const APART: u128 = 0x10_0000;

/// GID and MAC of a port of a host follow from its number.
#[must_use]
pub const fn port(host: u8, number: u8) -> (u128, u128) {
    let address = 10_u128 << 24 | (host as u128) << 8 | number as u128;
    let mac = 2_u128 << 40 | (host as u128) << 8 | number as u128;
    (0xffff << 32 | address, mac)
}

/// Host and number of the port with this GID.
#[must_use]
pub fn port_of(gid: u128) -> Option<(u8, u8)> {
    let [.., host, number] = gid.to_be_bytes();
    let known = host <= PEER && number > 0 && port(host, number).0 == gid;
    known.then_some((host, number))
}

/// Identities: a number and the MAC of the first port.
#[must_use]
pub const fn identity(host: u8) -> u128 {
    let instance: u128 = if host == ENGINE { 1 } else { 9 };
    instance << 48 | port(host, 1).1
}

/// The peer's queue pair of a link.
#[must_use]
pub const fn peer_qpn(link: u8) -> u128 {
    0x4710 + link as u128
}

/// The link of a queue pair of the peer.
#[must_use]
pub fn link_of(qpn: u128) -> Option<u8> {
    let link = qpn.checked_sub(peer_qpn(0))?;
    // No group has more than three.
    let known = |link: &u8| (1..=3).contains(&(link % 10));
    u8::try_from(link).ok().filter(known)
}

/// Key of the peer's RMB of a connection on a link.
#[must_use]
pub const fn peer_rkey(link: u8, conn: u8) -> u128 {
    0x100 * link as u128 + conn as u128
}

/// Link and connection of a key of the peer.
#[must_use]
pub fn rmb_of(rkey: u128) -> Option<(u8, u8)> {
    let (link, conn) = (rkey / 0x100, rkey % 0x100);
    let known = (1..=3).contains(&link) && conn > 0;
    known.then_some((link as u8, conn as u8))
}

/// Address of the peer's RMB of a connection on a link.
#[must_use]
pub const fn peer_address(link: u8, conn: u8) -> u128 {
    0x1000_0000 * (link as u128 - 1) + APART * conn as u128
}

/// Where an address is in the RMB of a connection on a link.
#[must_use]
pub fn offset_of(link: u8, conn: u8, address: u128) -> Option<u64> {
    let offset = address.checked_sub(peer_address(link, conn))?;
    (offset < APART).then_some(offset as u64)
}

/// The peer's DMB of a connection.
#[must_use]
pub(super) const fn peer_dmb(conn: u8) -> u128 {
    0xd00 + conn as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_what_they_name() {
        assert_eq!(port_of(port(PEER, 2).0), Some((PEER, 2)));
        assert_eq!(port_of(port(ENGINE, 1).0 + 7), Some((ENGINE, 8)));
        assert_eq!(port_of(port(2, 1).0), None);
        assert_eq!(link_of(peer_qpn(12)), Some(12));
        assert_eq!(link_of(0x4710), None);
        assert_eq!(rmb_of(peer_rkey(2, 5)), Some((2, 5)));
        assert_eq!(rmb_of(0x0900_0001), None);
        assert_eq!(offset_of(2, 5, peer_address(2, 5) + 9), Some(9));
        assert_eq!(offset_of(2, 5, peer_address(2, 6)), None);
    }
}
