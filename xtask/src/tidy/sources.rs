//! The checked files, and the code in Rust files.

use std::path::Path;

use anyhow::{Context, Result};

const EXTENSIONS: [&str; 7] = ["rs", "py", "sh", "toml", "cu", "cuh", "md"];

pub(super) struct Source {
    /// The path from the root, with `/` between folders.
    pub(super) path: String,
    pub(super) text: String,
    /// For Rust, the text with comments and literals replaced by spaces, line for line; else the
    /// text.
    pub(super) code: String,
}

impl Source {
    pub(super) fn new(path: &str, text: String) -> Source {
        let code = if path.ends_with(".rs") {
            code_only(&text)
        } else {
            text.clone()
        };
        Source {
            path: path.to_owned(),
            text,
            code,
        }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Marker {
    /// A doc comment of the item after it: `///`.
    OuterDoc,
    /// A doc comment of the enclosing item: `//!`.
    InnerDoc,
    /// Any other comment.
    Plain,
}

#[derive(Debug, PartialEq)]
pub(super) struct Comment {
    /// The line's number.
    pub(super) line: usize,
    pub(super) marker: Marker,
    /// The text after the marker.
    pub(super) text: String,
    /// Set if the line has no code.
    pub(super) alone: bool,
}

/// Reads all checked files below `root`, in order of their paths. Folders in `.gitignore` and
/// hidden folders other than `.ci` are excluded. Git is not used, so that an unpacked archive is
/// checked alike.
pub(super) fn read_all(root: &Path) -> Result<Vec<Source>> {
    let ignored =
        std::fs::read_to_string(root.join(".gitignore")).context("cannot read .gitignore")?;
    let ignored: Vec<&str> = ignored
        .lines()
        .filter_map(|line| line.strip_prefix('/'))
        .collect();
    let mut sources = Vec::new();
    visit(root, "", &ignored, &mut sources)?;
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Adds the files in the folder `prefix`, which is empty or ends with `/`, to `sources`.
fn visit(root: &Path, prefix: &str, ignored: &[&str], sources: &mut Vec<Source>) -> Result<()> {
    let folder = root.join(prefix);
    for entry in
        std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if (!name.starts_with('.') || name == ".ci") && !ignored.contains(&path.as_str()) {
                visit(root, &format!("{path}/"), ignored, sources)?;
            }
        } else if prefix == ".ci/"
            || name
                .rsplit_once('.')
                .is_some_and(|(_, kind)| EXTENSIONS.contains(&kind))
        {
            let text = std::fs::read_to_string(entry.path())
                .with_context(|| format!("cannot read {path}"))?;
            sources.push(Source::new(&path, text));
        }
    }
    Ok(())
}

/// Replaces every character of comments, strings and character literals in Rust source by a space.
/// Lines keep their numbers.
pub(super) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (_, part, is_code) in parts(text) {
        let blank = |letter| if letter == '\n' { '\n' } else { ' ' };
        code.extend(
            part.chars()
                .map(|letter| if is_code { letter } else { blank(letter) }),
        );
    }
    code
}

/// Splits Rust source into comments, literals, and the code of each line between them. Each part
/// has its line's number, and whether it is code.
fn parts(text: &str) -> Vec<(usize, String, bool)> {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut line) = (0, 1);
    let mut parts: Vec<(usize, String, bool)> = Vec::new();
    while at < text.len() {
        let blank = blank_length(&text, at);
        let end = at + blank.max(1);
        match parts.last_mut() {
            Some((_, code, true)) if blank == 0 && !code.ends_with('\n') => code.push(text[at]),
            _ => parts.push((line, text[at..end].iter().collect(), blank == 0)),
        }
        line += text[at..end]
            .iter()
            .filter(|&&letter| letter == '\n')
            .count();
        at = end;
    }
    parts
}

fn is_comment(part: &str) -> bool {
    part.starts_with("//") || part.starts_with("/*")
}

pub(super) fn comments(text: &str) -> Vec<Comment> {
    let mut comments = Vec::new();
    let mut alone = true;
    for (line, part, is_code) in parts(text) {
        if !is_code && is_comment(&part) {
            comments.extend((line..).zip(part.lines()).map(|(line, part)| {
                let (marker, text) = without_marker(part);
                Comment {
                    line,
                    marker,
                    text: text.to_owned(),
                    alone,
                }
            }));
        } else if !part.trim().is_empty() {
            alone = false;
        }
        alone |= part.contains('\n');
    }
    comments
}

/// Returns the literals and the names of several words in Rust source, with spaces between the
/// words, each with its line.
pub(super) fn literals_and_names(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, part, is_code) in parts(text) {
        if !is_code && is_comment(&part) {
            continue;
        }
        for text in part.split(|letter| is_code && !is_word(letter)) {
            let words = text.split(['_', ' ', '\n', '\\']);
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            if words.len() > 1 {
                found.push((line, words.join(" ")));
            }
        }
    }
    found
}

/// Splits a line of a comment into its marker and its text.
fn without_marker(line: &str) -> (Marker, &str) {
    let (marker, text) = match line.strip_prefix("///") {
        Some(text) if !text.starts_with('/') => (Marker::OuterDoc, text),
        _ => match line.strip_prefix("//!") {
            Some(text) => (Marker::InnerDoc, text),
            None => (
                Marker::Plain,
                line.trim_start().trim_start_matches(['/', '*']),
            ),
        },
    };
    (marker, text.strip_prefix(' ').unwrap_or(text))
}

/// Returns the length of the comment or literal that starts at `at`, or 0 if none starts there.
fn blank_length(text: &[char], at: usize) -> usize {
    let rest = &text[at..];
    match rest {
        ['/', '/', ..] => rest
            .iter()
            .position(|&letter| letter == '\n')
            .unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment_length(rest),
        ['"', ..] => quoted_length(rest, '"'),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted_length(rest, '\''),
        // The prefix of a raw string is not part of a longer word, except for a `b` or `c` before
        // it.
        ['r', '"' | '#', ..] => match text[..at] {
            [.., before, 'b' | 'c'] if is_word(before) => 0,
            [.., 'b' | 'c'] => raw_string_length(rest),
            [.., before] if is_word(before) => 0,
            _ => raw_string_length(rest),
        },
        _ => 0,
    }
}

/// Returns the length of the block comment at the start of `text`, including nested comments.
fn block_comment_length(text: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match text[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the length of the literal at the start of `text` that begins and ends with `quote`. A
/// backslash escapes the next character.
fn quoted_length(text: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Returns the length of the raw string at the start of `text`, or 0 if it is a raw identifier.
fn raw_string_length(text: &[char]) -> usize {
    let hashes = text[1..]
        .iter()
        .take_while(|&&letter| letter == '#')
        .count();
    let body = 1 + hashes + 1;
    if text.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let ends = |at: &usize| {
        text[*at] == '"'
            && text[at + 1..]
                .iter()
                .take_while(|&&letter| letter == '#')
                .count()
                >= hashes
    };
    (body..text.len())
        .find(ends)
        .map_or(text.len(), |at| at + 1 + hashes)
}

/// Returns whether `letter` can be part of an identifier.
pub(super) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that exactly the given words among those that start with `code` are kept, and that
    /// lines keep their numbers.
    #[track_caller]
    fn assert_kept(text: &str, words: &[&str]) {
        let code = code_only(text);
        let found: Vec<&str> = code
            .split(|letter| !is_word(letter))
            .filter(|word| word.starts_with("code"))
            .collect();
        assert_eq!(found, words, "of {text:?}");
        assert_eq!(code.chars().count(), text.chars().count());
        assert_eq!(code.matches('\n').count(), text.matches('\n').count());
    }

    #[test]
    fn comments_are_blanked() {
        assert_kept(
            "code1 // code2 \" code3\ncode4 /* code5 /* code6 */ \n code7 */ code8",
            &["code1", "code4", "code8"],
        );
        assert_kept("//! code1\n/// code2\ncode3 / code4", &["code3", "code4"]);
        assert_kept("code1 /* code2", &["code1"]);
    }

    #[test]
    fn comments_are_listed_with_their_lines() {
        let text = "//! a\n/// b\nfn f() {} // c\nlet s = \"// d\";\n/* e\n f */ g\n//// h\n";
        let found: Vec<_> = comments(text)
            .into_iter()
            .map(|comment| (comment.line, comment.marker, comment.text, comment.alone))
            .collect();
        let expected = [
            (1, Marker::InnerDoc, "a", true),
            (2, Marker::OuterDoc, "b", true),
            (3, Marker::Plain, "c", false),
            (5, Marker::Plain, "e", true),
            (6, Marker::Plain, "f */", true),
            (7, Marker::Plain, "h", true),
        ]
        .map(|(line, marker, text, alone)| (line, marker, text.to_owned(), alone));
        assert_eq!(found, expected);
    }

    #[test]
    fn strings_are_blanked() {
        assert_kept(
            r#"code1("code2 \" code3 \\", b"code4", c"code5") code6"#,
            &["code1", "code6"],
        );
        assert_kept("code1 \"// code2\n code3\" code4", &["code1", "code4"]);
        assert_kept("code1 \"code2", &["code1"]);
    }

    #[test]
    fn raw_strings_are_blanked_and_raw_identifiers_kept() {
        assert_kept(
            "code1 r\"code2 \\\" code3 r#\"code4 \" code5\"# code6",
            &["code1", "code3", "code6"],
        );
        assert_kept("code1 br##\"code2 \"# code3\"## code4", &["code1", "code4"]);
        assert_kept("r#type code1 r#code2 color#\"code3", &["code1", "code2"]);
    }

    #[test]
    fn characters_are_blanked_and_lifetimes_kept() {
        assert_kept(
            "code1 '\"' code2 '\\'' code3 b'\\\\' code4 '\\u{2f}' code5 '/' code6",
            &["code1", "code2", "code3", "code4", "code5", "code6"],
        );
        assert_kept(
            "fn code1<'a, 'b>(x: &'a str, y: &'static code2) -> code3<'_>",
            &["code1", "code2", "code3"],
        );
    }
}
