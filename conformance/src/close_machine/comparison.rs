//! The engine beside the model: which states of the model it covers, and by which rule it
//! differs in the others.

use std::collections::HashSet;
use std::fmt;

use super::Bounds;
use super::model::{self, State};
use super::projection::{self, Projection};
use super::rules::Rules;
use crate::explore::Progress;

/// What a rule does to the model when it holds alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect {
    /// The rule as a sentence.
    pub rule: &'static str,
    /// States of the model that are not reached any more.
    pub gone: usize,
    /// States that are reached by it only.
    pub added: usize,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// States of the model.
    pub model: usize,
    /// States of it that the engine reaches.
    pub covered: usize,
    /// States that the engine reaches, seen as states of the model.
    pub engine: usize,
    /// Of the model's states that are not covered, those which all rules together do not
    /// explain; and of the engine's others.
    pub unexplained: [usize; 2],
    /// What each rule does.
    pub effects: Vec<Effect>,
    /// Cells of the table of states and events that were hit.
    pub cells: usize,
}

/// Compares them within the bounds, following so many states of the engine for each state
/// of the model; `progress` gets the number of states, now and then.
#[must_use]
pub fn compare(bounds: Bounds, each: u8, progress: impl FnMut(Progress)) -> Comparison {
    let model = model::states(&bounds, Rules::NONE);
    let effects = Rules::SINGLE.map(|(rule, rules)| {
        let with = model::states(&bounds, rules);
        Effect {
            rule,
            gone: model.difference(&with).count(),
            added: with.difference(&model).count(),
        }
    });
    let expected = model::states(&bounds, Rules::ALL);
    let Projection { states, cells } = projection::project(bounds, each, progress);
    let engine: HashSet<State> = states.into_keys().collect();
    Comparison {
        model: model.len(),
        covered: model.intersection(&engine).count(),
        engine: engine.len(),
        unexplained: [
            expected.difference(&engine).count(),
            engine.difference(&expected).count(),
        ],
        effects: effects.into(),
        cells: cells.len(),
    }
}

impl Comparison {
    /// Whether the engine does what the rules demand, all of it and nothing else.
    #[must_use]
    pub const fn is_explained(&self) -> bool {
        matches!(self.unexplained, [0, 0])
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missing, extra) = (self.model - self.covered, self.engine - self.covered);
        writeln!(f, "the model has {} states", self.model)?;
        writeln!(f, "the engine covers {}, not {missing}", self.covered)?;
        writeln!(f, "and has {extra} others, {} in all", self.engine)?;
        for Effect { rule, gone, added } in &self.effects {
            writeln!(f, "  {gone:>7} less, {added:>7} more: {rule}")?;
        }
        let [missing, extra] = self.unexplained;
        write!(
            f,
            "with all these rules {missing} states of the model are not reached, and {extra} \
             that it does not have are; {} cells of the state table were hit",
            self.cells
        )
    }
}
