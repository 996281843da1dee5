//! The bodies of the fuzz targets.
//!
//! Each takes any octets, decodes from them what to do, and panics if a property
//! does not hold. They are deterministic and need nothing but stable Rust, so
//! that the corpora in `fuzz/corpus` replay as ordinary tests
//! (`conformance/tests/corpora.rs`); the targets in `fuzz/` only call them. With
//! `FUZZ_TRACE` in the environment they print what they do.
//!
//! - [`clc`], [`llc_v2`], [`wire`]: what stands on a wire, alone.
//! - [`stream`]: CLC messages in a TCP stream that is cut anywhere.
//! - [`solo`]: one endpoint between a hostile peer and a device in any mood.
//! - [`pair`]: two endpoints, and between them a network that takes its time.
//! - [`cdc_apply`], [`conn_pair`]: an established pair, attacked or not.
//! - [`smcd_cdc`]: one endpoint of SMC-D between a peer and a device that are both hostile.

mod attack;
pub mod cdc_apply;
pub mod clc;
pub mod conn_pair;
mod contract;
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

/// A fuzz target: its name, which is also that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Prints what happens, if the environment variable `FUZZ_TRACE` is set.
fn trace(what: core::fmt::Arguments<'_>) {
    static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    if *ON.get_or_init(|| std::env::var_os("FUZZ_TRACE").is_some()) {
        println!("{what}");
    }
}

/// Every target there is.
pub const TARGETS: &[Target] = &[
    ("clc_any", clc::clc_any),
    ("clc_roundtrip", clc::clc_roundtrip),
    ("llc_v1", wire::llc_v1),
    ("llc_v2", llc_v2::llc_v2),
    ("cdc_any", wire::cdc_any),
    ("cdc_ism", wire::cdc_ism),
    ("tcp_option", wire::tcp_option),
    ("clc_stream", stream::clc_stream),
    ("handshake_ops", solo::handshake_ops),
    ("linkgroup_ops", solo::linkgroup_ops),
    ("transport_completions", solo::transport_completions),
    ("handshake_pair", pair::handshake_pair),
    ("close_pair", conn_pair::close_pair),
    ("conn_pair", conn_pair::conn_pair),
    ("cdc_apply", cdc_apply::cdc_apply),
    ("smcd_cdc", smcd_cdc::smcd_cdc),
];
