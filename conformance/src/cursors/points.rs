//! Formulas beside the compiled code: equal at many points, most of them at edges.

mod twins;
mod values;

use std::collections::BTreeSet;
use std::fmt::Write;

use super::parallel;
use super::solver::{Answer, Question, Solver};
use super::translate;
use super::{PROOF_SECONDS, Problem, Sources};
use twins::{Point, TWINS};
use values::Source;

/// Compares each function of the sources at `count` points.
pub(super) fn compare(sources: &Sources, solver: &Solver, count: usize) -> Result<usize, Problem> {
    let program = sources.program()?;
    let known: BTreeSet<&str> = TWINS.iter().map(|twin| twin.name).collect();
    let all: BTreeSet<&str> = program.functions().collect();
    if let Some(name) = all.symmetric_difference(&known).next() {
        return Err(Problem::new(format!(
            "{name}: only one of the sources and points/twins.rs has it"
        )));
    }
    let numbered: Vec<_> = TWINS.iter().enumerate().collect();
    parallel::map(&numbered, |&(number, twin)| {
        // A syntax tree stays with its thread.
        let formula = translate::function(&sources.program()?, twin.name)?;
        // Some points are none, as callers must not call the function there.
        let seeds = (0..).map(|seed| (number as u64) << 32 | seed);
        let points = seeds.filter_map(|seed| (twin.run)(&mut Source::new(seed)));
        let points: Vec<Point> = points.take(count).collect();
        if differ(&formula, points.iter(), solver)? {
            for point in &points {
                if differ(&formula, [point], solver)? {
                    let name = twin.name;
                    return Err(Problem::new(format!(
                        "{name}: formula differs at {point:?}"
                    )));
                }
            }
        }
        Ok(())
    })?;
    Ok(TWINS.len())
}

/// Whether a formula differs from the compiled code at one of these points.
fn differ<'a>(
    formula: &translate::Numbers,
    points: impl IntoIterator<Item = &'a Point>,
    solver: &Solver,
) -> Result<bool, Problem> {
    let mut text = formula.text.clone();
    text.push_str("(assert (or false\n");
    for point in points {
        let results = formula.results(point.result.len() + 1)?;
        if formula.parameters() != point.arguments.len() {
            return Err(Problem::new("arguments differ in number"));
        }
        let mut arguments = String::new();
        for value in &point.arguments {
            let _ = write!(arguments, " {value}");
        }
        // No assertion of the code fails.
        for (name, expected) in results.zip(point.result.iter().chain([&0])) {
            let _ = writeln!(text, "(not (= ({name}{arguments}) {expected}))");
        }
    }
    text.push_str("))\n");
    let question = Question {
        text,
        names: Vec::new(),
    };
    match solver.ask(&question, PROOF_SECONDS)? {
        Answer::Never => Ok(false),
        Answer::At(_) => Ok(true),
        Answer::Unknown => Err(Problem::new("points are not decided in time")),
    }
}
