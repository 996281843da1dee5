//! What an embedder decides for its engine.

use std::ops::RangeInclusive;

use smc_proto::endpoint::ConnOptions;
use smc_proto::time::Duration;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::DiagnosisCode;

/// How a host treats the connections it is asked for.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Options of each connection.
    pub options: ConnOptions,
    /// The server declines every Proposal with this code.
    pub decline: Option<DiagnosisCode>,
    /// When it has no room for further events.
    pub full: Option<EventsFull>,
}

/// An embedder whose queue of events is full now and then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventsFull {
    /// After which events it takes no others for a while, counted from 1.
    pub after: RangeInclusive<u64>,
    /// How long.
    pub time: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            options: ConnOptions::new(Subnets::default()),
            decline: None,
            full: None,
        }
    }
}
