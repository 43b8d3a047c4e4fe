//! The rules for prose: how comments, texts of programs, names and Markdown are written.
//!
//! A reader who knows the field must be able to skim the documentation. Three habits prevent that,
//! and all three can be measured: doc comments that open with a free relative clause instead of
//! naming their subject, phrases that hide the actor, and lines too long for two columns of code.

use super::allow_list::AllowList;
use super::sources::{Comment, Marker, Source, comments, is_word, literals_and_names};

/// The maximum share of doc comments that may open with a free relative clause, in percent.
const OPENERS_MAX_PERCENT: usize = 3;

/// The words that open a free relative clause.
const OPENERS: [&str; 9] = [
    "what", "how", "whether", "who", "where", "which", "when", "whatever", "whoever",
];

/// The maximum number of columns of a line.
const COLUMNS_MAX: usize = 100;

/// The folder of dated reports, whose tables and quotations are not wrapped.
const REPORTS: &str = "docs/measurements/";

/// The beginning of the paths of the files that have the phrases in literals.
const OWN: &str = "xtask/src/tidy/prose";

/// Phrases that are ruled out anywhere in prose.
const PHRASES: [&str; 7] = [
    "whoever",
    "nobody",
    "of those that",
    "comes to",
    "for want of",
    "none of it",
    "a thing of its own",
];

/// Phrases that are ruled out at the start of a sentence that is not a question.
const OPENING_PHRASES: [&str; 2] = ["what is", "who"];

/// Returns every violation of the rules for prose, as `path:line: message`.
pub(super) fn check(sources: &[Source], wide_files: &AllowList) -> Vec<String> {
    let mut problems = openers(sources);
    problems.extend(sources.iter().flat_map(ruled_out_phrases));
    problems.extend(missing_files(sources));
    problems.extend(sources.iter().flat_map(unmerged_examples));
    problems.extend(wide_files.unexcepted(&per_source(sources, wide_lines)));
    problems
}

/// Returns the violations of a rule in all files, each with its file's path.
fn per_source(sources: &[Source], rule: fn(&Source) -> Vec<String>) -> Vec<(&str, String)> {
    let all = sources.iter().flat_map(|source| {
        let path = source.path.as_str();
        rule(source).into_iter().map(move |message| (path, message))
    });
    all.collect()
}

/// Limits the share of doc comments that open with a free relative clause. Above the limit, every
/// such comment is reported.
fn openers(sources: &[Source]) -> Vec<String> {
    let mut count = 0;
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for doc in doc_comments(&comments(&source.text)) {
            count += 1;
            if opens_with_free_relative(&doc.text) {
                let start: String = doc.text.chars().take(60).collect();
                found.push(format!(
                    "{}:{}: the doc comment opens with a free relative clause: \"{start}\": name \
                     its subject",
                    source.path, doc.lines[0].1
                ));
            }
        }
    }
    if found.len() * 100 <= count * OPENERS_MAX_PERCENT {
        return Vec::new();
    }
    found.push(format!(
        "{} of {count} doc comments open with a free relative clause, more than \
         {OPENERS_MAX_PERCENT} %",
        found.len()
    ));
    found
}

/// Returns whether a doc comment's first sentence opens with a free relative clause. A question
/// does not.
fn opens_with_free_relative(text: &str) -> bool {
    let first = text.split(|letter| !is_word(letter)).next().unwrap_or("");
    OPENERS.contains(&first.to_lowercase().as_str()) && !is_question(text)
}

/// Returns whether the first sentence of `text` is a question.
fn is_question(text: &str) -> bool {
    text.find(['.', '!', '?'])
        .is_some_and(|end| text[end..].starts_with('?'))
}

/// Rejects names of Rust files in Markdown if no path is or ends with that name.
fn missing_files(sources: &[Source]) -> Vec<String> {
    let exists = |name: &str| {
        let path = format!("/{name}");
        let mut rust = sources.iter().filter(|source| source.is_rust());
        rust.any(|source| source.path == name || source.path.ends_with(&path))
    };
    let is_name = |name: &&str| {
        let is_part = |letter: char| is_word(letter) || "/.-".contains(letter);
        name.ends_with(".rs") && name.chars().all(is_part)
    };
    let mut missing = Vec::new();
    let pages = sources.iter().filter(|source| source.is_markdown());
    for page in pages.filter(|page| !page.path.starts_with(REPORTS)) {
        for (number, line) in (1..).zip(page.text.lines()) {
            let parts: Vec<&str> = line.split('`').collect();
            // The text of a link is not a path.
            let names = parts.windows(2).skip(1).step_by(2);
            let names = names
                .filter(|pair| !pair[1].starts_with("]("))
                .map(|pair| pair[0]);
            missing.extend(
                names
                    .filter(is_name)
                    .filter(|name| !exists(name))
                    .map(|name| {
                        format!(
                            "{}:{number}: names `{name}`, which does not exist",
                            page.path
                        )
                    }),
            );
        }
    }
    missing
}

/// Rejects examples of the crates' documentation that include a file and do not stand alone. Their
/// relative paths are wrong in the one program that rustdoc makes of all examples, so that it does
/// not compile, and rustdoc then compiles each example singly.
fn unmerged_examples(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut language = None;
    let lines = (1..).zip(source.text.lines().map(str::trim_start));
    for (number, line) in lines.filter(|_| source.path.contains("/src/")) {
        let doc = ["///", "//!"].map(|marker| line.strip_prefix(marker));
        let Some(text) = (source.is_markdown().then_some(line)).or(doc[0]).or(doc[1]) else {
            continue;
        };
        if let Some(opened) = text.trim().strip_prefix("```") {
            language = language.xor(Some(opened));
        } else if text.contains("include_str!(") && matches!(language, Some("" | "rust")) {
            found.push(format!(
                "{}:{number}: includes a file: begin the example with ```standalone_crate",
                source.path
            ));
        }
    }
    found
}

/// Rejects the ruled-out phrases in comments, literals, names and Markdown.
fn ruled_out_phrases(source: &Source) -> Vec<String> {
    let passages = if source.is_rust() {
        let mut passages = passages(
            comments(&source.text)
                .into_iter()
                .map(|comment| (comment.line, comment.text, comment.marker, comment.alone)),
        );
        if !source.path.starts_with(OWN) {
            let words = literals_and_names(&source.text).into_iter();
            passages.extend(words.map(|(line, text)| Passage {
                text,
                lines: vec![(0, line)],
            }));
        }
        passages
    } else if source.is_markdown() {
        let lines = (1..).zip(source.text.lines());
        passages(lines.map(|(number, line)| (number, line.to_owned(), Marker::Plain, true)))
    } else {
        return Vec::new();
    };
    let found = passages.iter().flat_map(|passage| {
        phrases_in(&passage.text).into_iter().map(|(at, phrase)| {
            format!(
                "{}:{}: \"{phrase}\" hides the actor or the object: name it",
                source.path,
                passage.line_at(at)
            )
        })
    });
    found.collect()
}

/// Returns the ruled-out phrases in a passage, each with its offset.
fn phrases_in(text: &str) -> Vec<(usize, &'static str)> {
    let text = without_code_spans(&text.to_ascii_lowercase());
    let mut found = Vec::new();
    for phrase in PHRASES {
        found.extend(whole_words(&text, phrase).map(|at| (at, phrase)));
    }
    for start in sentence_starts(&text) {
        let sentence = &text[start..];
        let opens = |phrase: &&str| whole_words(sentence, phrase).next() == Some(0);
        if !is_question(sentence) {
            found.extend(
                OPENING_PHRASES
                    .iter()
                    .find(|phrase| opens(phrase))
                    .map(|phrase| (start, *phrase)),
            );
        }
    }
    found.sort_unstable();
    found
}

/// Returns the offsets at which `phrase` occurs in `text` as whole words.
fn whole_words<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(phrase).map(|(at, _)| at).filter(|&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Returns the offsets at which sentences start: the first word of the passage, and each word after
/// the end of a sentence.
fn sentence_starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut expected = true;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        if expected && is_word(letter) {
            starts.push(at);
            expected = false;
        } else if letter.is_whitespace() && matches!(before, '.' | '!' | '?') {
            expected = true;
        }
        before = letter;
    }
    starts
}

/// Replaces code spans (`` `like this` ``) by spaces, since they quote code.
fn without_code_spans(text: &str) -> String {
    let mut parts = text.split('`');
    let mut result = parts.next().unwrap_or("").to_owned();
    let mut is_code = true;
    for part in parts {
        result.push('`');
        if is_code {
            result.extend(part.bytes().map(|_| ' '));
        } else {
            result.push_str(part);
        }
        is_code = !is_code;
    }
    result
}

/// Limits the columns of a line in Rust and Markdown.
fn wide_lines(source: &Source) -> Vec<String> {
    if !source.is_rust() && !source.is_markdown() || source.path.starts_with(REPORTS) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(source.text.lines()) {
        let prose = line.trim_start();
        if source.is_markdown() && prose.starts_with("```") {
            fenced = !fenced;
        }
        let is_table = match source.is_markdown() {
            true => prose.starts_with('|'),
            false => prose.starts_with("/// |") || prose.starts_with("//! |"),
        };
        let has_link = line.contains("http") || source.is_markdown() && line.contains("](");
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !fenced && !is_table && !has_link {
            found.push(format!(
                "{}:{number}: {columns} columns, more than {COLUMNS_MAX}: wrap the line",
                source.path
            ));
        }
    }
    found
}

/// A paragraph, list item or table cell, with its line breaks replaced by spaces.
struct Passage {
    text: String,
    /// The offset in the text at which each line starts, with the line's number.
    lines: Vec<(usize, usize)>,
}

impl Passage {
    /// Returns the number of the line at an offset of the text.
    fn line_at(&self, at: usize) -> usize {
        let lines = self.lines.iter().take_while(|(start, _)| *start <= at);
        lines.last().map_or(0, |(_, line)| *line)
    }
}

/// Splits lines of prose into passages. Each line has its number, its text, its comment marker, and
/// whether it stands alone on its line. Code blocks are left out.
fn passages(lines: impl Iterator<Item = (usize, String, Marker, bool)>) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let mut fenced = false;
    // The line on which the comment or the passage can continue, and its marker.
    let (mut next, mut open) = (None, None);
    for (number, line, marker, alone) in lines {
        // A code block ends with its comment at the latest.
        fenced &= next == Some((number, marker));
        next = Some((number + 1, marker));
        let text = line.trim();
        if text.starts_with("```") {
            fenced = !fenced;
            open = None;
        } else if fenced || text.is_empty() {
            open = None;
        } else if text.starts_with('|') {
            open = None;
            passages.extend(text.split('|').map(|cell| Passage {
                text: cell.trim().to_owned(),
                lines: vec![(0, number)],
            }));
        } else {
            let continues = open == Some((number, marker)) && alone && !starts_item(text);
            match passages.last_mut().filter(|_| continues) {
                Some(passage) => {
                    passage.text.push(' ');
                    passage.lines.push((passage.text.len(), number));
                    passage.text.push_str(text);
                }
                None => passages.push(Passage {
                    text: text.to_owned(),
                    lines: vec![(0, number)],
                }),
            }
            open = (alone && !text.starts_with('#')).then_some((number + 1, marker));
        }
    }
    passages
}

/// Returns whether a line starts a list item or is a heading.
fn starts_item(text: &str) -> bool {
    let numbered = text
        .trim_start_matches(|letter: char| letter.is_ascii_digit())
        .starts_with(". ");
    text.starts_with("- ") || text.starts_with("* ") || text.starts_with('#') || numbered
}

/// Returns the first passage of each doc comment that starts with text.
fn doc_comments(comments: &[Comment]) -> Vec<Passage> {
    let continues =
        |one: &Comment, other: &Comment| one.marker == other.marker && one.line + 1 == other.line;
    let docs = comments
        .chunk_by(continues)
        .filter(|block| block[0].marker != Marker::Plain && !block[0].text.starts_with('#'));
    docs.filter_map(|block| {
        let text = block.iter().take_while(|line| !line.text.trim().is_empty());
        passages(text.map(|line| (line.line, line.text.clone(), line.marker, true)))
            .into_iter()
            .next()
    })
    .collect()
}

#[cfg(test)]
mod tests;
