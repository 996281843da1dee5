//! What is asked of the RNIC for a buffer, in which order.

use super::*;
use crate::id::DeviceId;

const BUFFER: BufferId = BufferId {
    index: Idx::new(0),
    generation: 0,
};
const LINK: LinkId = LinkId {
    index: Idx::new(0),
    generation: 0,
};
const RTOKEN: RToken = RToken {
    rkey: crate::wire::types::RKey(7),
    address: 0x1000,
};

/// An RMB on the first of two links, which was announced to the peer there.
fn announced() -> (Buffer, Registrable) {
    let mut rmb = Buffer::new(
        Idx::new(0),
        BufferDevice::Rnic(DeviceId(0)),
        BufferKind::Rmb,
        BufferSize::K16,
        1,
    );
    let mut open = LinkSet::only(0);
    open.insert(1);
    let links = Registrable {
        open,
        drained: LinkSet::EMPTY,
    };
    assert_eq!(rmb.wanted(|| links), Some(Control::Alloc));
    rmb.start_control(Control::Alloc, BUFFER, LINK, false);
    rmb.on_allocated();
    rmb.start_control(Control::Register(0), BUFFER, LINK, false);
    assert!(rmb.on_registered(0, RTOKEN));
    rmb.announced.insert(0);
    rmb.agreement = Agreement::Confirmed;
    (rmb, links)
}

#[test]
fn an_rmb_that_one_link_refuses_is_kept_until_the_peer_has_forgotten_it() {
    //= RMB-030 test
    let (mut rmb, links) = announced();
    let element = rmb.take_element().expect("a clean one");
    assert_eq!(rmb.wanted(|| links), Some(Control::Register(1)));
    rmb.start_control(Control::Register(1), BUFFER, LINK, false);
    assert_eq!(rmb.take_refused(), Some(Control::Register(1)));
    rmb.retired = true;
    // Its user goes on over the first link; the second one is not asked again.
    assert_eq!(rmb.wanted(|| links), None);
    rmb.return_element(element);
    // Nothing is given back before the peer has answered DELETE RKEY.
    assert_eq!(rmb.wanted(|| links), None);
    rmb.agreement = Agreement::Deleting;
    assert_eq!(rmb.wanted(|| links), None);
    // It has answered.
    rmb.agreement = Agreement::None;
    assert_eq!(rmb.wanted(|| links), Some(Control::Deregister(0)));
    rmb.start_control(Control::Deregister(0), BUFFER, LINK, false);
    assert!(rmb.on_deregistered(0));
    assert_eq!(rmb.wanted(|| links), Some(Control::Free));
}

#[test]
fn an_rmb_that_was_never_announced_is_given_back_at_once() {
    //= RMB-030 test
    let (mut rmb, links) = announced();
    rmb.agreement = Agreement::None;
    rmb.retired = true;
    assert_eq!(rmb.wanted(|| links), Some(Control::Deregister(0)));
    // A link that was drained has it back even while the peer is asked.
    rmb.agreement = Agreement::Deleting;
    let drained = Registrable {
        open: LinkSet::only(1),
        drained: LinkSet::only(0),
    };
    assert_eq!(rmb.wanted(|| drained), Some(Control::Deregister(0)));
}
