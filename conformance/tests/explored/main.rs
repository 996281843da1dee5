//! State spaces explored whole, or drawn at random: closing, the rendezvous, failover.

mod close_machine;
mod close_property;
mod failover_every_cut;
mod handshake_machine;
