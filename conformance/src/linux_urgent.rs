//! Urgent data between a [`Connection`](smc_proto::connection::Connection) of the engine
//! and a model of Linux's, in any order of events that a seed chooses.
//!
//! The model behaves as Linux 6.12 does, for what decides about urgent data: flags of CDC
//! messages, cursors, updates of the consumer cursor, `MSG_OOB`, `SO_OOBINLINE`, half-close,
//! close, and changes of link. Buffers are small, so a tenth of a buffer is the least update
//! whatever its size. In SMC-D the engine's CDC messages overwrite each other.
//!
//! A run fails if a byte or an urgent mark is lost, or if nothing moves any more. One stall is
//! known (URG-005): a reader that takes an urgent byte out of line with no byte before it
//! never acknowledges it. Such runs end as [`Ending::TakenAtTheMark`].

mod applications;
mod kernel;
mod world;

pub use world::{Case, Ending, Medium, Reader, run};
