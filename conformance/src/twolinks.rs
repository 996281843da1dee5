//! Two endpoints with several RNICs each, moved one step at a time: the test
//! decides for every posted WRITE and SEND whether it is placed at the peer,
//! whether its completion is reported, and when its link fails.
//!
//! ```text
//!    commit ─► post ─► place (WRITE) or deliver (SEND) ─► complete (SEND)
//!                  order within a link is kept; a failure may fall anywhere
//! ```
//!
//! [`explore`] visits every interleaving of these steps and, in every state it
//! meets, lets a link fail in every way it can; each such case is then run to
//! the end and checked. A failing case prints its whole trace and its name;
//! `FAILOVER_CASE=<name> cargo test -p conformance --test explored failover_every_cut::` runs just that one.

mod app;
mod execute;
pub mod explore;
pub mod failure;
mod host;
mod in_place;
mod run;
mod tcp;
mod world;

pub use app::{Action, App, Reading};
pub use failure::Failure;
pub use host::{Host, Item, Qp, Work};
pub use world::{Shape, World};
