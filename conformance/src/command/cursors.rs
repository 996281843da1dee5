//! `conformance cursors`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use conformance::cursors::{Problem, Solver, Sources, compare, prove, refute};

#[derive(Args)]
pub(crate) struct Cursors {
    /// The solver, z3 or cvc5, by name or path.
    #[arg(long, value_name = "PROGRAM", default_value = "z3")]
    solver: PathBuf,
    /// Points at which each formula is compared with the compiled code.
    #[arg(long, value_name = "N", default_value_t = 300)]
    points: usize,
    /// Leave out the changes of cursor.rs.
    #[arg(long)]
    laws_only: bool,
}

impl Cursors {
    pub(crate) fn run(&self) -> Result<ExitCode, Problem> {
        let solver = Solver::new(self.solver.clone())?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let sources = Sources::read(&root)?;
        let compared = compare(&sources, &solver, self.points)?;
        println!(
            "{compared} formulas equal compiled code at {} points each",
            self.points
        );
        let mut failures = 0;
        let proofs = prove(&sources, &solver)?;
        for proof in &proofs {
            if let Some(arguments) = &proof.fails_at {
                println!("FAILS {}: {arguments}", proof.law);
                failures += 1;
            }
        }
        let proven = proofs.len() - failures;
        println!(
            "{proven} of {} laws proven for every ring and position",
            proofs.len()
        );
        if failures == 0 && !self.laws_only {
            failures = self.changes(&sources, &solver)?;
        }
        Ok(match failures {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }

    /// How many changes are not as expected.
    fn changes(&self, sources: &Sources, solver: &Solver) -> Result<usize, Problem> {
        let (mut refuted, mut equivalent, mut failures) = (0, 0, 0);
        for each in refute(sources, solver)? {
            match (each.refuted_by, each.equivalent) {
                (Some(_), None) => refuted += 1,
                (None, Some(_)) => equivalent += 1,
                (None, None) => {
                    println!("NOTICED BY NO LAW {}", each.change);
                    failures += 1;
                }
                (Some((law, arguments)), Some(reason)) => {
                    println!(
                        "{}\n  is no equivalent ({reason}): {law} fails at {arguments}",
                        each.change
                    );
                    failures += 1;
                }
            }
        }
        println!(
            "{refuted} changes refuted, {equivalent} alter nothing, {failures} not as expected"
        );
        Ok(failures)
    }
}
