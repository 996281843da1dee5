//! Commands that use the sockets and devices of this machine.
#![cfg(target_os = "linux")]

mod child;
mod devices;
mod net;
mod run;
mod why;
