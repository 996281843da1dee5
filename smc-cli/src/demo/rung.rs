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
    pub(super) message: Message,
    pub(super) outcome: Outcome,
    /// Totals before this message, and with it.
    pub(super) before: Tally,
    pub(super) after: Tally,
}

/// A message. Data messages come in great numbers and are formatted only when they are
/// shown.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Text(Family, String),
    Cdc(Cdc),
    Write {
        length: usize,
        rkey: RKey,
        address: u64,
    },
    /// A CDC message of SMC-D.
    CdcIsm(CdcIsm),
    /// A move of SMC-D: how many bytes, and where in the DMB.
    Move {
        length: usize,
        offset: u32,
    },
    /// No message, but a note about what happened.
    Note(Effect, String),
}

/// What a note means for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Bad,
    Good,
    Neutral,
}

impl Rung {
    /// The family of a message; a note has none.
    pub(super) const fn family(&self) -> Option<Family> {
        Some(match self.message {
            Message::Text(family, _) => family,
            Message::Cdc(_) | Message::CdcIsm(_) => Family::Cdc,
            Message::Write { .. } | Message::Move { .. } => Family::Write,
            Message::Note(..) => return None,
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
