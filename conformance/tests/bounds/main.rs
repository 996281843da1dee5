//! Bounds of memory and work, and the ledger of requirements.

mod growth;
mod ledger;
mod sizes;
mod steps;
