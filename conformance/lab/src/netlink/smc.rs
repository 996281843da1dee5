//! What is configured in the kernel's SMC, and its own view of it.

mod generic;
mod view;

pub use generic::Smc;
pub use view::{Carried, SocketView, records, sockets};
