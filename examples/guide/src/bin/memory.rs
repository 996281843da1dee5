//! Two engines, a TCP connection and a cable, all in the memory of this program.

use std::error::Error;

use example_guide::host::{Carrier, World};

fn main() -> Result<(), Box<dyn Error>> {
    let mut report = |who: &str, what: std::fmt::Arguments<'_>| println!("{who}: {what}");
    let mut world = World::connect()?;
    // The rendezvous has a pause of some milliseconds: time passes until both are through.
    for _ in 0..100 {
        world.run(&mut report);
        if world
            .hosts
            .iter()
            .all(|host| host.carrier() == Carrier::Smc)
        {
            break;
        }
        world.sleep();
    }

    let now = world.now;
    assert_eq!(world.hosts[0].write(now, b"hello, memory"), 13);
    world.run(&mut report);
    let mut bytes = [0; 64];
    let read = world.hosts[1].read(now, &mut bytes);
    println!("server read {:?}", String::from_utf8_lossy(&bytes[..read]));
    assert_eq!(&bytes[..read], b"hello, memory");

    world.hosts[0].close(now);
    world.hosts[1].close(now);
    world.run(&mut report);
    assert!(
        world
            .hosts
            .iter()
            .all(|host| host.carrier() == Carrier::Closed)
    );
    Ok(())
}
