//! The words of a line.

use core::fmt;

use nom::bytes::complete::{tag, take_while};
use nom::character::complete::{char, space0};
use nom::combinator::opt;
use nom::multi::many0;
use nom::sequence::{delimited, preceded};
use nom::{IResult, Parser};

/// Why a script cannot be understood, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// What was expected, and what was found.
    pub what: String,
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            what,
        } = self;
        write!(f, "{file}:{line}:{column}: {what}")
    }
}

impl std::error::Error for Unclear {}

/// A token: what is between blanks, and a text in quotes at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// What is before the quotes.
    pub(super) plain: String,
    /// What is in quotes.
    pub(super) quoted: Option<String>,
    /// Column of its first character, from 1.
    pub(super) column: u32,
}

fn plain(line: &str) -> IResult<&str, &str> {
    take_while(|each: char| !each.is_whitespace() && each != '"' && each != '#').parse(line)
}

fn quoted(line: &str) -> IResult<&str, &str> {
    delimited(char('"'), take_while(|each| each != '"'), tag("\"")).parse(line)
}

fn token(line: &str) -> IResult<&str, (&str, Option<&str>, usize)> {
    let (rest, _) = space0(line)?;
    let left = rest.len();
    let (rest, (plain, quoted)) = (plain, opt(quoted)).parse(rest)?;
    if plain.is_empty() && quoted.is_none() {
        let nothing = nom::error::Error::new(rest, nom::error::ErrorKind::Eof);
        return Err(nom::Err::Error(nothing));
    }
    Ok((rest, (plain, quoted, left)))
}

/// The words of a line up to a comment; or the column that makes no sense, and why.
pub(super) fn words(line: &str) -> Result<Vec<Token>, (u32, String)> {
    let column = |left: usize| (line.len() - left) as u32 + 1;
    let (rest, found) = match many0(token).parse(line) {
        Ok(found) => found,
        Err(_) => return Err((1, "words were expected".to_owned())),
    };
    let (rest, _) = preceded(space0, opt(comment))
        .parse(rest)
        .map_err(|_: nom::Err<nom::error::Error<&str>>| (1, "words were expected".to_owned()))?;
    if !rest.is_empty() {
        return Err((column(rest.len()), "a closing \" was expected".to_owned()));
    }
    Ok(found
        .into_iter()
        .map(|(plain, quoted, left)| Token {
            plain: plain.to_owned(),
            quoted: quoted.map(str::to_owned),
            column: column(left),
        })
        .collect())
}

fn comment(line: &str) -> IResult<&str, &str> {
    preceded(char('#'), take_while(|_| true)).parse(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_text(line: &str) -> Vec<String> {
        let words = words(line).unwrap();
        words.into_iter().map(|token| token.plain).collect()
    }

    #[test]
    fn words_stand_between_blanks_and_know_their_columns() {
        assert_eq!(plain_text("peer > CDC # why"), ["peer", ">", "CDC"]);
        assert_eq!(plain_text("  # nothing"), Vec::<String>::new());
        let found = words("app < read \"a b\" eid=\"X\"").unwrap();
        assert_eq!(found[3].quoted.as_deref(), Some("a b"));
        assert_eq!(found[4].plain, "eid=");
        assert_eq!((found[3].column, found[4].column), (12, 18));
    }

    #[test]
    fn a_text_that_does_not_end_is_reported() {
        let (column, what) = words("app < read \"abc").unwrap_err();
        assert_eq!((column, what.as_str()), (12, "a closing \" was expected"));
    }
}
