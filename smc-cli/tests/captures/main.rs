//! `smcx decode` and `smcx check`, over captures.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/little_endian.rs"]
mod little_endian;

mod check;
mod decode_stream;
mod decode_traces;
mod hostile_input;
mod tshark_agrees;
mod written_capture;
