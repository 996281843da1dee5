//! Whatever an engine asks for and does not get: every slot, every command, all room in
//! a queue, each refused once at every place of every scenario, and from every place on.
//!
//! ```text
//!   Scenario ─► run unharmed: N requests for a Resource
//!                 │  for k in 1..=N
//!                 ▼
//!             run with request k refused ──► everything ended, nothing is left
//!             run with k and all that follow it refused ──► the same
//! ```
//!
//! A run is judged like those of [`chaos`](smc_transport_sim::chaos): by the invariants
//! after every step, by the oracle when it is over, and by what engines and devices
//! still hold then.

mod resource;
mod round;
mod run;
mod scenario;
mod scenarios;
mod tally;

pub use resource::{Refusal, Resource};
pub use round::{Progress, ScenarioOutcome, round};
pub use run::{Ended, Requests, requests, run};
pub use scenario::{Act, Scenario};
pub use scenarios::scenarios;
pub use tally::{Tally, tally};
