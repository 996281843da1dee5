//! Attacks by other users, and what honest clients of third users see of them.
#![cfg(target_os = "linux")]

mod accepting;
mod baseline;
mod calls;
mod channels;
mod hoarding;
mod limits;
mod names;
mod servers;
mod silence;

use smc_attacks::World;

/// A world of its own, if this is root.
fn world() -> Option<World> {
    World::new(env!("CARGO_BIN_EXE_smc-attack-role"))
}
