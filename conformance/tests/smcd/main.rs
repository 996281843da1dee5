//! SMC-D: connections over the shared memory of one machine.

mod anything;
mod ends;
mod hostile;
mod lending;
mod offer;
mod out_of_sync;
mod polling;
mod signalling;
mod slow_device;
mod streams;
mod withdrawn;
