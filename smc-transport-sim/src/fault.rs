//! What goes wrong in a run, and when. A plan and a seed replay a run exactly.
//!
//! A [`FaultPlan`] is a list of faults: what happens ([`FaultAction`]), its target
//! and when ([`Trigger`]). The fabric asks it at every [`Operation`] and notes in
//! it which faults took effect, and in which [`Phase`] of the link group they
//! struck: a fault that hit nothing proves nothing.

mod action;
mod effect;
mod operation;
mod phase;
mod plan;

#[cfg(test)]
mod tests;

pub use action::{Ends, FaultAction, FaultKind, Lost, PortSelector, TcpFate};
pub use effect::Effect;
pub use operation::{Operation, Trigger};
pub use phase::Phase;
pub use plan::{Fault, FaultPlan};
