//! What is proven about the engine, and by what.

mod command;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What is proven about the engine, and by what.
#[derive(Parser)]
#[command(name = "conformance", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Each requirement with the lines that decide it and the tests that prove it.
    ///
    /// Requirements are the numbered statements of docs/rfc7609.md, docs/smc-v2.md,
    /// docs/smc-d.md and docs/shared-memory.md. The exit status is 1 if one of them
    /// has no line or no test, and no exception either.
    Ledger(command::ledger::Selection),
    /// Each defect and attack of docs/regressions.md with the tests against it.
    ///
    /// The exit status is 1 if one of them has no test.
    Regressions(command::ledger::Selection),
    /// Everything that can happen to two connections that end, in every order, within
    /// bounds.
    ///
    /// The exit status is 1 if something can happen that must not; then the shortest way
    /// there is printed.
    CloseMachine(command::close_machine::CloseMachine),
    /// Cursor arithmetic, proven for every ring and position by an SMT solver.
    ///
    /// Needs z3 or cvc5. The exit status is 1 if a law fails for some arguments, or if a
    /// change of cursor.rs is noticed by no law.
    Cursors(command::cursors::Cursors),
    /// Everything that can happen to two engines while they decide whether SMC carries a
    /// connection, in every order, within bounds.
    ///
    /// The exit status is 1 if they can come to different answers, get stuck, or put an
    /// byte into the wrong hands; then the shortest way there is printed.
    HandshakeMachine(command::handshake_machine::HandshakeMachine),
    /// Whatever an engine asks for and does not get, in scenarios of two hosts: each
    /// request for a slot, a device's service or room in a queue is refused once, and
    /// from there on.
    ///
    /// The exit status is 1 if a connection does not end as it should, or anything is
    /// left.
    Exhaustion(command::exhaustion::Exhaustion),
    /// Mistakes made in a copy of the engine, each of which the simulations must find.
    ///
    /// The exit status is 1 if one of them was not found.
    Bugs(command::bugs::Bugs),
    /// Small changes to the lines that decide requirements, each of which a test that
    /// cites the requirement must notice.
    ///
    /// Needs cargo-mutants; conformance/mutants/decisions installs that and calls this.
    /// The exit status is 1 if a change was not noticed.
    Mutants(command::mutants::Mutants),
    /// Small changes drawn with a fixed seed from whole areas, each of which some test must
    /// notice.
    ///
    /// The exit status is 1 if a change was not noticed.
    Drawn(command::drawn::Drawing),
    /// Plays the scripts of conformance/scripts, each a conversation between the engine
    /// and a peer that is played by hand.
    ///
    /// The exit status is 1 if the engine does anything else than a script demands.
    Scripts(command::scripts::Scripts),
    /// A bounded round of the fuzz targets: executions, coverage, what was found.
    ///
    /// Needs a nightly toolchain and cargo-fuzz; fuzz/run installs that and calls this.
    /// The exit status is 1 if a target failed; the input that did it is kept.
    Fuzz(command::fuzz::Fuzz),
}

fn main() -> ExitCode {
    match &Cli::parse().command {
        Command::Ledger(selection) => selection.run(false),
        Command::Regressions(selection) => selection.run(true),
        Command::CloseMachine(machine) => machine.run(),
        Command::Cursors(cursors) => cursors.run().unwrap_or_else(|error| {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }),
        Command::HandshakeMachine(machine) => machine.run(),
        Command::Exhaustion(exhaustion) => exhaustion.run(),
        Command::Bugs(bugs) => bugs.run(),
        Command::Mutants(mutants) => mutants.run(),
        Command::Drawn(drawing) => drawing.run(),
        Command::Scripts(scripts) => scripts.run().unwrap_or_else(|error| {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }),
        Command::Fuzz(fuzz) => fuzz.run(),
    }
}
