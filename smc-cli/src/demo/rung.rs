//! What the ladder keeps: the first and the latest of many messages, and notes
//! of what happened to links.

use std::collections::VecDeque;

use smc_proto::time::Instant;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::cdc_ism::CdcIsm;
use smc_proto::wire::types::RKey;
use smc_transport_sim::observe::Outcome;

use super::tally::{Family, Tally};

/// A message of the ladder, or a note in it.
#[derive(Clone, Debug)]
pub(super) struct Rung {
    /// Messages and notes before this one, kept or not.
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(super) to_server: bool,
    /// Number of the link that carried it.
    pub(super) link: Option<u8>,
    pub(super) said: Said,
    pub(super) outcome: Outcome,
    /// What had been said before this, and this included.
    pub(super) before: Tally,
    pub(super) after: Tally,
}

/// What was said. Data messages come in great numbers and are put into words
/// only when they are shown.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Words(Family, String),
    Cdc(Cdc),
    Write {
        length: usize,
        rkey: RKey,
        address: u64,
    },
    /// A CDC message of SMC-D.
    CdcIsm(CdcIsm),
    /// Octets of SMC-D, and where in a DMB.
    Move {
        length: usize,
        offset: u32,
    },
    /// Nothing: this happened.
    Note(Mood, String),
}

/// What a note means for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    Bad,
    Good,
    Neutral,
}

impl Rung {
    /// The family of a message; a note has none.
    pub(super) const fn family(&self) -> Option<Family> {
        Some(match self.said {
            Said::Words(family, _) => family,
            Said::Cdc(_) | Said::CdcIsm(_) => Family::Cdc,
            Said::Write { .. } | Said::Move { .. } => Family::Write,
            Said::Note(..) => return None,
        })
    }
}

/// The first and the latest of many.
#[derive(Debug)]
pub(super) struct Ends {
    limits: (usize, usize),
    first: Vec<Rung>,
    last: VecDeque<Rung>,
}

impl Ends {
    pub(super) const fn new(limits: (usize, usize)) -> Self {
        Self {
            limits,
            first: Vec::new(),
            last: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, rung: Rung) {
        if self.first.len() < self.limits.0 {
            return self.first.push(rung);
        }
        if self.last.len() >= self.limits.1 {
            self.last.pop_front();
        }
        self.last.push_back(rung);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Rung> {
        self.first.iter().chain(&self.last)
    }
}
