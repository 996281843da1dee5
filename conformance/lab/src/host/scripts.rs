//! Outcomes of the scripts of the conformance suite, and whether they are the known ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

use super::{Trouble, failed};

/// Where Linux differs from the scripts, and why.
const LINUX: &str = include_str!("../../linux.toml");
/// Where our sockets do.
const OURS: &str = include_str!("../../ours.toml");

/// A line of the program that plays them.
#[derive(Deserialize)]
#[serde(untagged)]
enum ScriptLine {
    /// Before a script.
    Begun { begun: String },
    /// Behind it.
    Played(Played),
}

/// Outcome of a script.
#[derive(Clone, Debug, Deserialize)]
struct Played {
    /// Chapter and name.
    script: String,
    outcome: Outcome,
    /// Why it is unfit, or how it failed.
    why: String,
    millis: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Passed,
    /// With longer pauses.
    Again,
    Unfit,
    Failed,
}

/// Differences that are known.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Kept {
    #[serde(default)]
    difference: Vec<Difference>,
    /// What is not played: the kernel does not survive it.
    #[serde(default)]
    crash: Vec<Difference>,
}

#[derive(Clone, Debug, Deserialize)]
struct Difference {
    because: String,
    scripts: BTreeSet<String>,
}

impl Kept {
    /// Deviations of Linux.
    pub(crate) fn of_linux() -> Result<Self, Trouble> {
        toml::from_str(LINUX).map_err(failed("linux.toml"))
    }

    /// Deviations of our sockets.
    pub(crate) fn of_ours() -> Result<Self, Trouble> {
        toml::from_str(OURS).map_err(failed("ours.toml"))
    }

    /// Scripts that are not played.
    pub(crate) fn crashes(&self) -> impl Iterator<Item = &str> {
        let all = self.crash.iter().flat_map(|crash| &crash.scripts);
        all.map(String::as_str)
    }

    fn because(&self, script: &str) -> Option<&str> {
        let mut all = self.difference.iter();
        let found = all.find(|difference| difference.scripts.contains(script))?;
        Some(&found.because)
    }
}

/// All scripts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    played: Vec<Played>,
    /// Begun, and not at its end.
    begun: Option<String>,
}

impl Run {
    /// Takes a line of the program; false if it is none about a script.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        match serde_json::from_str(line) {
            Ok(ScriptLine::Begun { begun }) => self.begun = Some(begun),
            Ok(ScriptLine::Played(played)) => {
                self.begun = None;
                self.played.push(played);
            }
            Err(_) => return false,
        }
        true
    }

    /// The script that is played, if any is.
    pub(crate) fn begun(&self) -> Option<&str> {
        self.begun.as_deref()
    }

    fn count(&self, fits: impl Fn(&Played) -> bool) -> usize {
        self.played.iter().filter(|played| fits(played)).count()
    }

    /// A sentence with the counts; or what is not explained, or no longer so.
    pub(crate) fn judge(&self, kept: &Kept) -> Result<String, String> {
        let of = |outcome| self.count(|played| played.outcome == outcome);
        let known = |played: &Played| kept.because(&played.script).is_some();
        let is_failed = |played: &Played| played.outcome == Outcome::Failed;
        let passed = |played: &Played| matches!(played.outcome, Outcome::Passed | Outcome::Again);
        let unexplained = self.names(|played| is_failed(played) && !known(played));
        let healed = self.names(|played| passed(played) && known(played));
        let counts = format!(
            "{} passed ({} with longer pauses), {} differ as is known, {} unfit, {} not played",
            self.count(passed),
            of(Outcome::Again),
            self.count(|played| is_failed(played) && known(played)),
            of(Outcome::Unfit),
            kept.crashes().count(),
        );
        let mut wrong = Vec::new();
        if !unexplained.is_empty() {
            let count = unexplained.len();
            wrong.push(format!("{count} not explained: {}", unexplained.join(", ")));
        }
        if !healed.is_empty() {
            wrong.push(format!("no longer different: {}", healed.join(", ")));
        }
        if self.played.is_empty() {
            wrong.push("no script was played".to_owned());
        }
        match wrong.is_empty() {
            true => Ok(counts),
            false => Err(format!("{counts}; {}", wrong.join("; "))),
        }
    }

    fn names(&self, fits: impl Fn(&Played) -> bool) -> Vec<&str> {
        let fitting = self.played.iter().filter(|played| fits(played));
        fitting.map(|played| played.script.as_str()).collect()
    }

    /// Everything, to be read: how many by rule and by reason, and each that failed.
    pub(crate) fn report(&self, kept: &Kept) -> String {
        let mut text = String::new();
        let mut reasons: BTreeMap<(Outcome, &str), Vec<&Played>> = BTreeMap::new();
        for played in &self.played {
            let reason = match played.outcome {
                Outcome::Unfit => played.why.as_str(),
                Outcome::Failed => kept.because(&played.script).unwrap_or("NOT EXPLAINED"),
                Outcome::Passed | Outcome::Again => "",
            };
            let all = reasons.entry((played.outcome, reason)).or_default();
            all.push(played);
        }
        for ((outcome, reason), all) in &reasons {
            let outcome = format!("{outcome:?}").to_lowercase();
            let seconds = all.iter().map(|played| played.millis).sum::<u64>() / 1000;
            let _ = writeln!(text, "{:>4} {outcome} ({seconds} s) {reason}", all.len());
            if !reason.is_empty() {
                for played in all {
                    let _ = writeln!(text, "       {}", played.script);
                }
            }
        }
        if let Some(begun) = self.begun() {
            let _ = writeln!(text, "     not at its end\n       {begun}");
        }
        for played in &self.played {
            if played.outcome == Outcome::Failed {
                let _ = writeln!(text, "\n{}\n{}", played.script, played.why);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Kept, Run};

    fn run(lines: &[(&str, &str)]) -> Run {
        let mut run = Run::default();
        for (script, outcome) in lines {
            let why = "as it is";
            let line = format!(
                "{{\"script\":\"{script}\",\"outcome\":\"{outcome}\",\"why\":\"{why}\",\"millis\":5}}"
            );
            assert!(run.take(&line), "{line}");
        }
        run
    }

    #[test]
    fn what_differs_has_to_be_known_and_what_is_known_has_to_differ() {
        let kept: Kept = toml::from_str(
            "[[difference]]\nbecause = \"Linux is lazy\"\nscripts = [\"cdc/lazy\"]\n",
        )
        .unwrap();
        let summary = run(&[
            ("cdc/fine", "passed"),
            ("cdc/slow", "again"),
            ("cdc/lazy", "failed"),
            ("smcd/any", "unfit"),
        ]);
        let sentence = summary.judge(&kept).unwrap();
        assert_eq!(
            sentence,
            "2 passed (1 with longer pauses), 1 differ as is known, 1 unfit, 0 not played"
        );
        assert!(summary.report(&kept).contains("Linux is lazy"));
        let other = run(&[("cdc/other", "failed")]).judge(&kept).unwrap_err();
        assert!(other.contains("1 not explained: cdc/other"), "{other}");
        let healed = run(&[("cdc/lazy", "passed")]).judge(&kept).unwrap_err();
        assert!(healed.contains("no longer different: cdc/lazy"), "{healed}");
        assert!(run(&[]).judge(&kept).is_err());
        assert!(!Run::default().take("a panic"));
        let mut broken = run(&[("cdc/fine", "passed")]);
        assert!(broken.take("{\"begun\":\"cdc/last\"}"));
        assert_eq!(broken.begun(), Some("cdc/last"));
        assert!(broken.report(&kept).contains("cdc/last"));
    }

    #[test]
    fn each_known_difference_is_of_a_script_that_there_is_and_of_one_reason() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
        for kept in [Kept::of_linux().unwrap(), Kept::of_ours().unwrap()] {
            let all = kept.difference.iter().chain(&kept.crash);
            let all = all.flat_map(|of| &of.scripts);
            let mut names: Vec<_> = all.collect();
            for name in &names {
                assert!(folder.join(format!("{name}.smc")).exists(), "{name}");
            }
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
