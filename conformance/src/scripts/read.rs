//! Reads scripts. The format is described in `conformance/scripts/README.md`.

mod line;
mod value;

pub(crate) use value::duration;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::parsed::{Act, Form, ParsedScript, Place, Setup, Step};
use super::text::{Token, Unclear, words};
use line::{Line, Read};

/// How deep files may include files.
const DEEPEST: u32 = 8;

/// The scripts of this repository.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// Names and paths of all scripts below a folder, in order of their names. What
/// is in `lib` is for others to include.
///
/// # Errors
/// A folder that cannot be read.
pub fn all(folder: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for chapter in fs::read_dir(folder)? {
        let chapter = chapter?.path();
        if !chapter.is_dir() || chapter.ends_with("lib") {
            continue;
        }
        for file in fs::read_dir(&chapter)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "smc") {
                let stem = |path: &Path| {
                    let name = path.file_stem().unwrap_or_default();
                    name.to_string_lossy().into_owned()
                };
                found.push((format!("{}/{}", stem(&chapter), stem(&path)), path));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a script and what it includes.
///
/// # Errors
/// [`Unclear`]: where it is not understood, and what was expected there.
pub fn script(name: &str, path: &Path) -> Result<ParsedScript, Unclear> {
    let mut reader = Reader {
        library: path
            .parent()
            .and_then(Path::parent)
            .map(|folder| folder.join("lib"))
            .unwrap_or_default(),
        setup: Setup {
            rnics: 1,
            ..Setup::default()
        },
        sentence: None,
        cites: Vec::new(),
    };
    let steps = reader.file(path, 0)?;
    let Some(sentence) = reader.sentence else {
        return Err(Unclear {
            file: shown(path),
            line: 1,
            column: 1,
            what: "a comment with the subject in one sentence was expected".to_owned(),
        });
    };
    Ok(ParsedScript {
        name: name.to_owned(),
        path: path.to_owned(),
        sentence,
        cites: reader.cites,
        setup: reader.setup,
        steps,
    })
}

fn shown(path: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let short = root.and_then(|root| path.strip_prefix(root).ok());
    short.unwrap_or(path).display().to_string()
}

struct Reader {
    library: PathBuf,
    setup: Setup,
    sentence: Option<String>,
    cites: Vec<String>,
}

/// Lines of a block that is not closed yet, and where it began.
struct Open {
    at: Place,
    text: String,
    count: u64,
    steps: Vec<Step>,
}

impl Reader {
    fn file(&mut self, path: &Path, depth: u32) -> Result<Vec<Step>, Unclear> {
        let file: Arc<str> = shown(path).into();
        let unclear = |line: u32, column: u32, what: String| Unclear {
            file: file.to_string(),
            line,
            column,
            what,
        };
        let text = fs::read_to_string(path)
            .map_err(|error| unclear(1, 1, format!("the file cannot be read: {error}")))?;
        if depth == 0 {
            self.head(&text);
        }
        let mut steps = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let words = words(line).map_err(|(column, what)| unclear(number, column, what))?;
            let Some(first) = words.first() else {
                continue;
            };
            let at = Place {
                file: Arc::clone(&file),
                line: number,
                column: first.column,
            };
            let mut line = Line::new(&words, &file, number);
            let read = line.read(&mut self.setup)?;
            let into = match open.last_mut() {
                Some(open) => &mut open.steps,
                None => &mut steps,
            };
            match read {
                Read::Setup => {}
                Read::Step(when, act) => into.push(Step {
                    at,
                    text: text_of(&words),
                    when,
                    act,
                }),
                Read::Include(_) if depth == DEEPEST => {
                    let what = format!("files include each other more than {DEEPEST} deep");
                    return Err(unclear(number, first.column, what));
                }
                Read::Include(name) => {
                    let path = self.library.join(format!("{name}.smc"));
                    into.extend(self.file(&path, depth + 1)?);
                }
                Read::Repeat(count) => open.push(Open {
                    at,
                    text: text_of(&words),
                    count,
                    steps: Vec::new(),
                }),
                Read::Close => {
                    let Some(done) = open.pop() else {
                        let what = "there is no block to close".to_owned();
                        return Err(unclear(number, first.column, what));
                    };
                    let step = Step {
                        at: done.at,
                        text: done.text,
                        when: None,
                        act: Act::Repeat(done.count, done.steps),
                    };
                    match open.last_mut() {
                        Some(outer) => outer.steps.push(step),
                        None => steps.push(step),
                    }
                }
            }
        }
        match open.pop() {
            Some(open) => {
                let what = "the block that begins here needs a closing }".to_owned();
                Err(unclear(open.at.line, open.at.column, what))
            }
            None => Ok(steps),
        }
    }

    /// The sentence and the citations in the comments at the top.
    fn head(&mut self, text: &str) {
        let comments = text
            .lines()
            .map_while(|line| line.trim().strip_prefix('#'))
            .map(str::trim);
        let mut sentence = String::new();
        for line in comments {
            match citations(line) {
                Some(ids) => self.cites.extend(ids.map(str::to_owned)),
                None if line.is_empty() => {}
                None => {
                    if !sentence.is_empty() {
                        sentence.push(' ');
                    }
                    sentence.push_str(line);
                }
            }
        }
        if !sentence.is_empty() {
            self.sentence = Some(sentence);
        }
    }
}

fn text_of(words: &[Token]) -> String {
    let words = words.iter().map(|word| match &word.quoted {
        Some(quoted) => format!("{}\"{quoted}\"", word.plain),
        None => word.plain.clone(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The IDs of a comment that has nothing else.
pub fn citations(comment: &str) -> Option<impl Iterator<Item = &str>> {
    let is_citation = |word: &str| {
        word.split_once('-').is_some_and(|(chapter, number)| {
            let capital = |each: char| each.is_ascii_uppercase() || each.is_ascii_digit();
            !chapter.is_empty()
                && chapter.chars().all(capital)
                && number.chars().all(capital)
                && number.contains(|each: char| each.is_ascii_digit())
        })
    };
    let words = comment.split_whitespace();
    let all = !comment.is_empty() && words.clone().all(is_citation);
    all.then_some(words)
}

impl Form {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "smcr" => Self::R1,
            "smcr-v2" => Self::R2,
            "smcd" => Self::D1,
            "smcd-v2" => Self::D2,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_of(text: &str) -> String {
        let folder = std::env::temp_dir().join(format!("smc-read-{}", std::process::id()));
        let chapter = folder.join("clc");
        fs::create_dir_all(&chapter).unwrap();
        let path = chapter.join(format!("{}.smc", text.len()));
        fs::write(&path, text).unwrap();
        let result_of = match script("clc/x", &path) {
            Ok(script) => format!("{} steps, {:?}", script.steps.len(), script.cites),
            Err(unclear) => {
                let Unclear {
                    line, column, what, ..
                } = unclear;
                format!("{line}:{column}: {what}")
            }
        };
        fs::remove_file(path).unwrap();
        result_of
    }

    #[test]
    fn a_script_has_a_sentence_citations_and_steps() {
        let text = "# It works.\n# CLC-014 CASE-C2\n\napp > connect\nrepeat 3 {\n  wait 1s\n}\n";
        assert_eq!(result_of(text), "2 steps, [\"CLC-014\", \"CASE-C2\"]");
    }

    #[test]
    fn what_is_not_understood_is_reported_with_its_place() {
        for (text, expected) in [
            ("app > connect\n", "1:1: a comment with the subject"),
            ("# A.\nape > connect\n", "2:1: one of peer, engine, app, "),
            ("# A.\napp > conect\n", "2:7: one of connect, listen, "),
            (
                "# A.\npeer > CLC Accept rky=3\n",
                "2:19: a field of this message was",
            ),
            (
                "# A.\npeer > CLC Accept rmtu=1\n",
                "2:19: a field of this message was",
            ),
            (
                "# A.\npeer > CLC Accept mtu=\n",
                "2:19: a value behind = was expected",
            ),
            (
                "# A.\npeer > LLC raw 0 1\n",
                "2:16: octets of two hexadecimal",
            ),
            (
                "# A.\n+3 app > connect\n",
                "2:1: a time such as +0, +10ms or",
            ),
            (
                "# A.\nrepeat 3 {\nwait 1s\n",
                "2:1: the block that begins here",
            ),
            ("# A.\n}\n", "2:1: there is no block to close"),
            ("# A.\nwait\n", "2:5: a time such as 10ms was expected"),
            ("# A.\ninclude nowhere\n", "1:1: the file cannot be read"),
            ("# A.\napp < read \"x\n", "2:12: a closing \" was expected"),
            ("# A.\napp > close now\n", "2:13: nothing more was expected"),
        ] {
            let found = result_of(text);
            assert!(found.starts_with(expected), "{text}{found}");
        }
    }
}
