//! What an engine, or a decoder of captures, asks a message that was parsed.

use core::fmt::Write as _;
use core::net::IpAddr;

use smc_proto::wire::clc::{ClcMessage, Decline, GidList, IsmGidList, Proposal};
use smc_proto::wire::types::{BufferSize, Eid, Gid};

use super::super::text::{Nowhere, print, print_in_part};

/// Asks everything there is to ask: the answers fit the message, and nothing panics.
pub(super) fn ask(message: &ClcMessage) {
    write!(Nowhere, "{message:?}").expect("printing cannot fail");
    match message {
        ClcMessage::Proposal(proposal) => ask_proposal(proposal),
        ClcMessage::Accept(with) | ClcMessage::Confirm(with) => {
            ask_buffer(with.buffer_size);
            let bytes = with.mtu.octets();
            assert_eq!(bytes.is_some(), (1..=5).contains(&with.mtu.code()));
            if let Some(v2) = &with.v2 {
                ask_eid(&v2.eid);
                ask_gids(v2.gids.as_slice());
            }
        }
        ClcMessage::SmcdAccept(with) | ClcMessage::SmcdConfirm(with) => {
            ask_buffer(with.buffer_size);
            if let Some(v2) = &with.v2 {
                ask_eid(&v2.eid);
            }
        }
        ClcMessage::Decline(decline) => ask_decline(decline),
    }
}

fn ask_proposal(proposal: &Proposal) {
    let subnets = &proposal.subnets;
    let known = (1..=32).contains(&subnets.prefix_length);
    assert_eq!(subnets.contain(IpAddr::V4(subnets.network)), known);
    for prefix in &subnets.ipv6 {
        let known = (1..=128).contains(&prefix.length);
        assert!(!known || subnets.contain(IpAddr::V6(prefix.address)));
    }
    let mut list = IsmGidList::default();
    let mut kept = Vec::new();
    for gid in proposal.ism_gids() {
        print(&gid);
        if list.push(gid).is_ok() {
            kept.push(gid);
        }
    }
    assert!(list.into_iter().eq(kept), "a list gives what it was given");
    if let Some(offer) = &proposal.v2_offer {
        let devices = &offer.smcd.devices;
        let mut again = IsmGidList::default();
        for entry in devices.entries() {
            assert_eq!(again.push_entry(*entry), Ok(()));
        }
        assert_eq!(again, *devices);
    }
    for eid in proposal.v2_offer.iter().flat_map(|offer| &offer.eids) {
        ask_eid(eid);
    }
}

fn ask_decline(decline: &Decline) {
    let why = decline.diagnosis;
    assert_eq!(why.meaning().is_none(), why.name() == "UNASSIGNED");
    assert!(!why.sentence().is_empty() && !why.remedy().is_empty());
}

fn ask_buffer(size: BufferSize) {
    assert_eq!(BufferSize::at_least(size.octets()), size);
    assert_eq!(size.is_rfc7609(), size.octets() <= 512 << 10);
}

fn ask_gids(gids: &[Gid]) {
    let mut list = GidList::default();
    for gid in gids {
        assert_eq!(list.push(*gid), Ok(()));
    }
    assert_eq!(list.as_slice(), gids);
}

/// One that is of a form is of it when its text is read again.
fn ask_eid(eid: &Eid) {
    print_in_part(eid);
    if eid.is_user() {
        let text = eid.to_string();
        assert_eq!(Eid::user(&text), Ok(*eid));
    }
    let system = eid.is_system();
    assert!(!system || eid.to_string().starts_with("IBM-SYSZ-ISMSEID"));
}

/// Bytes as lines that may be EIDs, and as what the system EID of a machine is made of.
pub(super) fn name(bytes: &[u8]) {
    for line in core::str::from_utf8(bytes).unwrap_or_default().split('\n') {
        match Eid::user(line) {
            Ok(eid) => assert!(eid.is_user()),
            Err(error) => print(&error),
        }
    }
    if let [a, b, c, d, ..] = *bytes {
        let cpu = u16::from_be_bytes([a, b]);
        let machine = u16::from_be_bytes([c, d]);
        let eid = Eid::system(cpu, machine);
        assert!(eid.is_system());
        let digits = format!("00000000{cpu:04X}{machine:04X}");
        assert_eq!(eid.to_string().get(16..), Some(&*digits));
    }
}
