//! The commands of the program, a room each.

pub(crate) mod bugs;
pub(crate) mod close_machine;
pub(crate) mod cursors;
pub(crate) mod drawn;
pub(crate) mod exhaustion;
pub(crate) mod fuzz;
pub(crate) mod handshake_machine;
pub(crate) mod ledger;
pub(crate) mod mutants;
pub(crate) mod scripts;
