//! Peers, devices and applications that do anything: what they harm, and what they cost.

mod anything;
mod cdc;
mod clc;
mod device;
mod exhaustion;
mod fields;
mod limits;
mod peer;
mod withstood_calls;
mod withstood_peers;
mod withstood_rnics;
