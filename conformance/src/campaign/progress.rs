//! What libFuzzer prints while it runs.

/// How far a round has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Inputs that were executed.
    pub executions: u64,
    /// Edges of the program that were reached.
    pub edges: u64,
    /// Edges, how often each, and values compared: what libFuzzer is after.
    pub features: u64,
    /// Inputs worth keeping.
    pub inputs: u64,
}

impl Progress {
    /// Takes a line in, if it reports progress: `#2048 pulse cov: 31 ft: 45 corp: 7/1Kb`,
    /// or, at the end, `stat::number_of_executed_units: 2048`.
    pub(super) fn read(&mut self, line: &str) -> bool {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            let Ok(count) = count.trim().parse() else {
                return false;
            };
            self.executions = count;
            return true;
        }
        let mut words = line.split_ascii_whitespace();
        let executions = words.next().and_then(|word| word.strip_prefix('#'));
        let Some(executions) = executions.and_then(|count| count.parse().ok()) else {
            return false;
        };
        self.executions = executions;
        while let Some(name) = words.next() {
            let place = match name {
                "cov:" => &mut self.edges,
                "ft:" => &mut self.features,
                "corp:" => &mut self.inputs,
                _ => continue,
            };
            let count = words.next().and_then(|word| word.split('/').next());
            *place = count.and_then(|count| count.parse().ok()).unwrap_or(*place);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_and_the_end_are_read() {
        let mut progress = Progress::default();
        let pulse = "#4194304\tpulse  cov: 312 ft: 1045 corp: 87/4096b lim: 700 exec/s: 190650";
        assert!(progress.read(pulse));
        let expected = Progress {
            executions: 4_194_304,
            edges: 312,
            features: 1_045,
            inputs: 87,
        };
        assert_eq!(progress, expected);
        assert!(progress.read("stat::number_of_executed_units: 5000000"));
        assert_eq!(progress.executions, 5_000_000);
        assert_eq!(progress.edges, 312);
    }

    #[test]
    fn other_lines_say_nothing() {
        let mut progress = Progress::default();
        for line in [
            "INFO: Seed: 1",
            "",
            "#",
            "#x cov: 1",
            "stat::new_units_added: 4",
        ] {
            assert!(!progress.read(line), "{line}");
        }
        assert_eq!(progress, Progress::default());
    }
}
