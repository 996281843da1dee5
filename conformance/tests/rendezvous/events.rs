//! What two engines say they do, from the first octet to the last; and the page about it.

use std::fmt::Write;
use std::path::Path;

use conformance::world::World;
use smc_proto::trace::{Entry, Kind};
use smc_transport_sim::fabric::HostId;

/// Events of a host so far.
fn events(world: &mut World, host: HostId) -> Vec<Entry> {
    let endpoint = world.sim.endpoint(host).expect("a host");
    let recorder = endpoint.observer_ref().recorder().expect("it is on");
    assert_eq!(recorder.overwritten(), 0);
    recorder.entries().collect()
}

/// Events as lines without their time; those of timers are left out.
fn transcript(events: &[Entry]) -> String {
    let mut lines = String::new();
    for entry in events.iter().filter(|e| e.event.kind().group() != "timer") {
        let _ = writeln!(lines, "{} {}", entry.subject, entry.event);
    }
    lines
}

const CLIENT: &str = "\
conn0.0 rendezvous:started side=client option=yes
conn0.0 clc:sent message=proposal version=2 length=92 code=none
conn0.0 rendezvous:moved old=proposing new=awaiting_accept
conn0.0 clc:received message=accept version=1 length=68 code=none
conn0.0 rendezvous:moved old=awaiting_accept new=preparing
group0.0 group:created side=client technology=smc_r version=v1
link0.0 link:created group=group0.0 device=device0 port=1
group0.0 group:joined conn=conn0.0
buffer0.0 buffer:created buffer=rmb elements=1 bytes=65536
buffer0.0 buffer:assigned conn=conn0.0 element=1
buffer1.0 buffer:created buffer=send elements=1 bytes=65536
buffer1.0 buffer:assigned conn=conn0.0 element=1
buffer0.0 buffer:allocated
buffer1.0 buffer:allocated
link0.0 link:qp_moved old=absent new=init
buffer0.0 buffer:registered link=link0.0
buffer1.0 buffer:registered link=link0.0
link0.0 link:qp_moved old=init new=rtr
conn0.0 rendezvous:moved old=preparing new=confirming
conn0.0 clc:sent message=confirm version=1 length=68 code=none
conn0.0 rendezvous:moved old=confirming new=forming
link0.0 llc:received message=confirm_link reply=no version=v1 flags=0x03 link=none reason=none
link0.0 link:qp_moved old=rtr new=rts
link0.0 link:moved old=adding new=active reason=none failed=no
link0.0 link:up number=1 group=group0.0
link0.0 llc:sent message=confirm_link reply=yes version=v1 flags=0x83 link=none reason=none
link0.0 llc:received message=add_link reply=no version=v1 flags=0x00 link=none reason=none
group0.0 group:moved old=forming new=active reason=none
conn0.0 rendezvous:established group=group0.0 first_contact=yes technology=smc_r
link0.0 llc:sent message=add_link reply=yes version=v1 flags=0xc0 link=none reason=none
";

const SERVER: &str = "\
conn0.0 rendezvous:started side=server option=yes
conn0.0 clc:received message=proposal version=2 length=92 code=none
conn0.0 rendezvous:moved old=awaiting_proposal new=proposed
conn0.0 rendezvous:moved old=proposed new=preparing
group0.0 group:created side=server technology=smc_r version=v1
link0.0 link:created group=group0.0 device=device0 port=1
group0.0 group:joined conn=conn0.0
buffer0.0 buffer:created buffer=rmb elements=1 bytes=65536
buffer0.0 buffer:assigned conn=conn0.0 element=1
buffer1.0 buffer:created buffer=send elements=1 bytes=65536
buffer1.0 buffer:assigned conn=conn0.0 element=1
buffer0.0 buffer:allocated
buffer1.0 buffer:allocated
link0.0 link:qp_moved old=absent new=init
buffer0.0 buffer:registered link=link0.0
buffer1.0 buffer:registered link=link0.0
conn0.0 rendezvous:moved old=preparing new=accepting
conn0.0 clc:sent message=accept version=1 length=68 code=none
conn0.0 rendezvous:moved old=accepting new=awaiting_confirm
conn0.0 clc:received message=confirm version=1 length=68 code=none
conn0.0 rendezvous:moved old=awaiting_confirm new=forming
link0.0 link:qp_moved old=init new=rtr
link0.0 link:qp_moved old=rtr new=rts
link0.0 llc:sent message=confirm_link reply=no version=v1 flags=0x03 link=none reason=none
link0.0 llc:received message=confirm_link reply=yes version=v1 flags=0x83 link=none reason=none
link0.0 link:moved old=adding new=active reason=none failed=no
link0.0 link:up number=1 group=group0.0
link1.0 link:created group=group0.0 device=device0 port=1
link1.0 link:moved old=adding new=offered reason=none failed=no
link1.0 link:qp_moved old=absent new=init
link0.0 llc:sent message=add_link reply=no version=v1 flags=0x00 link=none reason=none
link0.0 llc:received message=add_link reply=yes version=v1 flags=0xc0 link=none reason=none
link1.0 link:moved old=offered new=removing reason=0x00010000 failed=yes
group0.0 group:moved old=forming new=active reason=none
conn0.0 rendezvous:established group=group0.0 first_contact=yes technology=smc_r
";

#[test]
fn first_contact_is_a_transcript_of_both_engines() {
    let mut world = World::new(1);
    world.sim.record_events();
    world.open();
    let (client, server) = (world.client, world.server);
    assert_eq!(transcript(&events(&mut world, client)), CLIENT);
    assert_eq!(transcript(&events(&mut world, server)), SERVER);
}

/// The tables of the page: kinds by their groups, and the fields of each.
fn tables() -> String {
    let mut page = String::new();
    let mut group = "";
    for kind in Kind::ALL {
        if kind.group() != group {
            group = kind.group();
            let _ = writeln!(page, "\n### {group}\n");
            let _ = writeln!(
                page,
                "| number | event | when | fields |\n|---|---|---|---|"
            );
        }
        let fields: Vec<_> = kind
            .fields()
            .iter()
            .map(|field| {
                let meaning = field.meaning.trim_end_matches('.');
                format!("`{}`: {meaning}", field.name)
            })
            .collect();
        let _ = writeln!(
            page,
            "| `0x{:02x}` | `{}` | {} | {} |",
            *kind as u8,
            kind.full_name(),
            kind.meaning(),
            fields.join("; ")
        );
    }
    page
}

#[test]
fn the_page_about_events_has_all_of_them() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/events.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("conformance -->\n").expect("the mark");
    let (found, _) = rest.split_once("\n<!-- end of kinds").expect("its end");
    let expected = tables();
    if found.trim() != expected.trim() {
        panic!("docs/events.md is to have these tables:\n{expected}");
    }
}
