//! Events of urgent bytes for an application.

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::event::Event;
use smc_proto::wire::cdc::ProducerFlags;

#[test]
fn an_urgent_byte_is_reported_when_it_is_announced_and_when_it_is_there() {
    //= URG-008 test
    let mut s = Script::server();
    let (conn, token) = s.server_first_contact();
    let link = s.link();
    let (ordinary, pending) = (ProducerFlags::empty(), ProducerFlags::URGENT_PENDING);
    let present = pending | ProducerFlags::URGENT_PRESENT;
    for (number, (flags, produced)) in (1..).zip([(ordinary, 3), (pending, 3), (present, 4)]) {
        s.take_events();
        let mut cdc = Peer::cdc(token, number, produced, 0);
        cdc.producer_flags = flags;
        s.send_cdc(link, cdc);
        let notified = s.take_events().contains(&Event::Urgent { conn });
        check!(s, notified, !flags.is_empty());
    }
    s.end();
}
