//! The program of the chapter "Embed the engine" prints what the chapter shows.

use std::process::Command;

/// Whether a line is as shown: ` ...` stands for a part of it.
fn is_as_shown(shown: &str, printed: &str) -> bool {
    let mut rest = printed;
    for (number, part) in shown.split(" ...").enumerate() {
        match rest.find(part) {
            Some(0) => rest = &rest[part.len()..],
            Some(at) if number > 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || shown.ends_with(" ...")
}

#[test]
fn the_chapter_shows_what_the_program_prints() {
    let output = Command::new(env!("CARGO_BIN_EXE_memory")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let chapter = include_str!("../../../docs/guide/src/embed.md");
    let (_, block) = chapter.split_once("--bin memory\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let (shown, printed): (Vec<_>, Vec<_>) = (block.lines().collect(), printed.lines().collect());
    assert_eq!(shown.len(), printed.len(), "{printed:#?}");
    for (shown, printed) in shown.into_iter().zip(printed) {
        assert!(is_as_shown(shown, printed), "{printed:?} is not {shown:?}");
    }
}
