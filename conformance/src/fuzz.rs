//! The bodies of the fuzz targets.
//!
//! Each takes any bytes, decodes from them what to do, and panics if a property
//! does not hold. They are deterministic and need nothing but stable Rust, so
//! that the corpora in `fuzz/corpus` replay as ordinary tests
//! (`conformance/tests/captures/corpora.rs`); the targets in `fuzz/` only call them. With
//! `FUZZ_TRACE` in the environment they print what they do.
//!
//! - [`clc`], [`llc_v2`], [`wire`]: what is on a wire, alone.
//! - [`stream`]: CLC messages in a TCP stream that is cut anywhere.
//! - [`solo`]: one endpoint between a hostile peer and a device of any behaviour.
//! - [`pair`]: two endpoints, and between them a network that takes its time.
//! - [`cdc_apply`], [`conn_pair`]: an established pair, attacked or not.
//! - [`smcd_cdc`]: one endpoint of SMC-D between a peer and a device that are both hostile.

mod attack;
pub mod cdc_apply;
pub mod clc;
pub mod conn_pair;
mod contract;
pub mod events;
pub mod llc_v2;
mod model;
mod net;
pub mod pair;
mod reader;
#[cfg(test)]
mod regressions;
mod side;
pub mod smcd_cdc;
pub mod solo;
pub mod stream;
mod text;
pub mod wire;

pub use reader::Reader;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target, which is also that of its corpus.
    pub name: &'static str,
    /// What its bytes are.
    pub bytes: Bytes,
    /// What is done with them.
    pub body: fn(&[u8]),
}

/// What the bytes of a target are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// A message, or what one is made of: a byte may be compared with any other.
    Message,
    /// Steps of a world that has a state.
    Steps,
}

/// Prints what happens, if the environment variable `FUZZ_TRACE` is set.
fn trace(what: core::fmt::Arguments<'_>) {
    static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    if *ON.get_or_init(|| std::env::var_os("FUZZ_TRACE").is_some()) {
        println!("{what}");
    }
}

const fn message(name: &'static str, body: fn(&[u8])) -> Target {
    let bytes = Bytes::Message;
    Target { name, bytes, body }
}

const fn steps(name: &'static str, body: fn(&[u8])) -> Target {
    let bytes = Bytes::Steps;
    Target { name, bytes, body }
}

/// Every target there is.
pub const TARGETS: &[Target] = &[
    message("clc_any", clc::clc_any),
    message("clc_roundtrip", clc::clc_roundtrip),
    message("llc_v1", wire::llc_v1),
    message("llc_v2", llc_v2::llc_v2),
    message("cdc_any", wire::cdc_any),
    message("cdc_ism", wire::cdc_ism),
    message("tcp_option", wire::tcp_option),
    message("event_records", events::event_records),
    steps("clc_stream", stream::clc_stream),
    steps("handshake_ops", solo::handshake_ops),
    steps("linkgroup_ops", solo::linkgroup_ops),
    steps("transport_completions", solo::transport_completions),
    steps("handshake_pair", pair::handshake_pair),
    steps("close_pair", conn_pair::close_pair),
    steps("conn_pair", conn_pair::conn_pair),
    steps("cdc_apply", cdc_apply::cdc_apply),
    steps("smcd_cdc", smcd_cdc::smcd_cdc),
];
