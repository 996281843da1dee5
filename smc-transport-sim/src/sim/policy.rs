//! What an embedder decides for its engine.

use smc_proto::endpoint::ConnOptions;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::DiagnosisCode;

/// How a host treats the connections it is asked for.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Options of each connection.
    pub options: ConnOptions,
    /// As server: declines every Proposal with this code.
    pub decline: Option<DiagnosisCode>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            options: ConnOptions::new(Subnets::default()),
            decline: None,
        }
    }
}
