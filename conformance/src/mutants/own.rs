//! Changes that cargo-mutants does not know: a statement left out, a condition turned
//! round.

use super::Change;

/// Keywords that begin what cannot be left out.
const NEEDED: [&str; 14] = [
    "let ", "const ", "static ", "type ", "use ", "pub ", "mod ", "return", "break", "continue",
    "}", ")", "]", ".",
];

/// The changes of those lines of a file, which are counted from 1.
pub(super) fn changes(
    file: &str,
    text: &str,
    lines: impl IntoIterator<Item = usize>,
) -> Vec<Change> {
    let all: Vec<&str> = text.lines().collect();
    let of_line = |line: usize| {
        let text = all.get(line.checked_sub(1)?)?;
        let indented = text.len() - text.trim_start().len();
        let begins = all.get(..line - 1).is_some_and(begins);
        let (end, with, what) = match begins {
            true => left_out(&all, line)
                .map(|(last, width)| ((last, width), ";".to_owned(), "leave the statement out"))
                .or_else(|| turned(text, line))?,
            false => turned(text, line)?,
        };
        Some(Change {
            file: file.to_owned(),
            from: (line, indented + 1),
            to: end,
            with,
            line,
            name: format!("{file}:{line}:{}: {what}", indented + 1),
        })
    };
    lines.into_iter().filter_map(of_line).collect()
}

/// Whether a statement begins below these lines: the one above ended, or a block began.
fn begins(above: &[&str]) -> bool {
    let mut above = above.iter().rev().map(|line| line.trim());
    let last =
        above.find(|line| !(line.is_empty() || line.starts_with("//") || line.starts_with("#[")));
    last.is_some_and(|line| line.ends_with([';', '{', '}']))
}

/// Where the statement ends that begins with a line and may be left out: its last line,
/// and the column behind it.
fn left_out(lines: &[&str], line: usize) -> Option<(usize, usize)> {
    let first = lines.get(line - 1)?;
    let text = first.trim_start();
    let indented = first.len() - text.len();
    if NEEDED.iter().any(|keyword| text.starts_with(keyword)) || text.ends_with(['{', ',']) {
        return None;
    }
    for (at, text) in lines.iter().enumerate().skip(line - 1) {
        let rest = text.trim_start();
        if at + 1 > line && text.len() - rest.len() < indented {
            return None;
        }
        if rest.ends_with(';') && text.len() - rest.len() <= indented + 4 {
            // A line further in ends the statement only if it is a chain's.
            let deeper = text.len() - rest.len() > indented;
            if !deeper || rest.starts_with('.') {
                return Some((at + 1, text.chars().count() + 1));
            }
        }
        if rest.ends_with('}') {
            return None;
        }
    }
    None
}

/// A condition on one line, the other way round.
fn turned(text: &str, line: usize) -> Option<((usize, usize), String, &'static str)> {
    let condition = text.trim_start().strip_prefix("if ")?.strip_suffix(" {")?;
    if condition.contains("let ") {
        return None;
    }
    let end = (line, text.chars().count() + 1);
    Some((
        end,
        format!("if !({condition}) {{"),
        "turn the condition round",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, line: usize) -> Option<String> {
        let mut all = changes("a.rs", text, [line]);
        assert!(all.len() <= 1);
        all.pop()?.of(text)
    }

    #[test]
    fn a_statement_is_left_out_whole() {
        let text = "fn f() {\n    // Why.\n    a.b(\n        c,\n    );\n    d\n}\n";
        assert_eq!(
            of(text, 3).unwrap(),
            "fn f() {\n    // Why.\n    ;\n    d\n}\n"
        );
        let chain = "fn f() {\n    a\n        .b()\n        .c();\n}\n";
        assert_eq!(of(chain, 2).unwrap(), "fn f() {\n    ;\n}\n");
    }

    #[test]
    fn what_others_need_stays() {
        for text in [
            "fn f() {\n    let a = b();\n}\n",
            "fn f() {\n    x(\n    a();\n}\n",
            "fn f() {\n    match a {\n        b => c,\n    };\n}\n",
            "fn f() {\n    return;\n}\n",
            "const A: u8 =\n    3;\n",
        ] {
            let line = 2 + usize::from(text.contains("x("));
            assert_eq!(of(text, line), None, "{text}");
        }
    }

    #[test]
    fn a_condition_is_turned_round() {
        let text = "fn f() {\n    if a || b {\n        c();\n    }\n}\n";
        let turned = "fn f() {\n    if !(a || b) {\n        c();\n    }\n}\n";
        assert_eq!(of(text, 2).unwrap(), turned);
        assert_eq!(of("fn f() {\n    if let Some(a) = b {\n", 2), None);
    }
}
