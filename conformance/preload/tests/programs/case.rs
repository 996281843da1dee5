//! A case: a server, a client, and what is expected of them.

use smc_run::statistics::Counts;

use crate::process::{Role, Transcript};
use crate::program::Program;

/// What carries the connections of a case if both ends have the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    /// SMC, at least one of them.
    Smc,
    /// SMC or TCP.
    Any,
    /// SMC or TCP, and the transcripts differ: what the library does otherwise than TCP, and
    /// is known. The test fails when it no longer does.
    Differs,
}

/// Attempts at SMC: a machine with no time to spare may leave a connection on TCP.
const ATTEMPTS: usize = 5;

/// A case of a program.
pub(crate) struct Case<'a> {
    program: &'a Program,
    name: &'a str,
    carrier: Carrier,
}

/// Both ends of a run.
#[derive(Clone, PartialEq, Eq)]
struct Run {
    server: Transcript,
    client: Transcript,
}

impl<'a> Case<'a> {
    pub(crate) fn new(program: &'a Program, name: &'a str, carrier: Carrier) -> Self {
        Self {
            program,
            name,
            carrier,
        }
    }

    /// Runs the case in all ways.
    ///
    /// # Errors
    /// A text with the transcripts that differ.
    pub(crate) fn compare(&self) -> Result<(), String> {
        let (plain, _) = self.run(false, false);
        for (server, client) in [(true, false), (false, true)] {
            let (run, counts) = self.run(server, client);
            match (self.carrier, self.same(&plain, &run, server, client)) {
                (Carrier::Differs, Err(_)) => return Ok(()),
                (_, same) => same?,
            }
            if counts.iter().flatten().any(|counts| counts.smc() > 0) {
                return Err(format!("{}: SMC with a peer without it", self.name));
            }
        }
        self.over_smc(&plain)
    }

    /// Runs the case with the library at both ends, and compares it with a plain run of another
    /// program.
    ///
    /// # Errors
    /// A text with the transcripts that differ.
    pub(crate) fn compare_with(&self, plain: &Program) -> Result<(), String> {
        let (plain, _) = Case::new(plain, self.name, self.carrier).run(false, false);
        self.over_smc(&plain)
    }

    /// Runs the case with the library at both ends, until SMC carries its connections.
    fn over_smc(&self, plain: &Run) -> Result<(), String> {
        let mut seen = [Vec::new(), Vec::new()];
        let (program, case) = (&self.program.name, self.name);
        for _ in 0..ATTEMPTS {
            let (run, counts) = self.run(true, true);
            let same = self.same(plain, &run, true, true);
            match (self.carrier, same) {
                (Carrier::Differs, Err(_)) => return Ok(()),
                (Carrier::Differs, Ok(())) => continue,
                (_, same) => same?,
            }
            let used = |end: &Vec<Counts>| end.iter().any(|counts| counts.smc() > 0);
            if self.carrier == Carrier::Any || counts.iter().all(used) {
                return Ok(());
            }
            seen = counts;
        }
        if self.carrier == Carrier::Differs {
            return Err(format!(
                "{program} {case}: as over TCP, which was not expected"
            ));
        }
        let reasons = seen.iter().flatten().flat_map(|counts| &counts.reasons);
        let reasons: Vec<_> = reasons
            .map(|(sentence, _)| String::from_utf8_lossy(sentence))
            .collect();
        Err(format!("{program} {case}: not over SMC: {reasons:?}"))
    }

    fn same(&self, plain: &Run, run: &Run, server: bool, client: bool) -> Result<(), String> {
        let ends = [
            ("server", &plain.server, &run.server),
            ("client", &plain.client, &run.client),
        ];
        let library = match (server, client) {
            (true, true) => "at both ends",
            (true, false) => "in the server",
            _ => "in the client",
        };
        let (program, case) = (&self.program.name, self.name);
        // Both ends: one that waits for the other until its alarm does not show why.
        let differing: String = ends
            .iter()
            .filter(|(_, expected, found)| expected != found)
            .map(|(end, expected, found)| {
                format!(
                    "{program} {case}, the {end}, plain:\n{expected}with the library {library}:\n{found}"
                )
            })
            .collect();
        match differing.is_empty() {
            true => Ok(()),
            false => Err(differing),
        }
    }

    fn run(&self, server: bool, client: bool) -> (Run, [Vec<Counts>; 2]) {
        let mut server = Role::start(self.program, &[self.name, "server"], server);
        let port = server.port();
        let client = Role::start(self.program, &[self.name, "client", &port], client);
        let (client, client_counts) = client.finish();
        let (server, server_counts) = server.finish();
        (Run { server, client }, [server_counts, client_counts])
    }
}
