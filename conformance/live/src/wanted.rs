//! What a script wants the stack under test to be.

use conformance::scripts::{Setting, Setup, Value};
use serde::{Deserialize, Serialize};

/// The EID of all scripts.
const EID: &str = "COMMON";

/// How a script wants the stack under test, of what sockets can be set up with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// Bytes of receive buffers, if it is about them.
    pub receive_buffer: Option<u32>,
    /// EIDs, that of all scripts first.
    pub eids: Vec<String>,
    /// RNICs that there are at first.
    pub rnics: u8,
}

impl Wanted {
    /// What a script's setup asks for.
    #[must_use]
    pub fn by(setup: &Setup) -> Self {
        let mut wanted = Self {
            receive_buffer: None,
            eids: vec![EID.to_owned()],
            rnics: setup.rnics,
        };
        for Setting { name, value, .. } in &setup.settings {
            match (name.as_str(), value) {
                ("receive_buffer", Value::Number(bytes, _)) => {
                    wanted.receive_buffer = Some(*bytes as u32);
                }
                ("eid", Value::Text(eid)) => wanted.eids.push(eid.clone()),
                ("ports", Value::Number(count, _)) => {
                    wanted.rnics = wanted.rnics.min(*count as u8);
                }
                _ => {}
            }
        }
        wanted
    }
}
