//! Tests of the rules for prose, with a planted violation of each.

use super::*;

fn violations(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> = files
        .iter()
        .map(|(path, text)| Source::new(path, (*text).to_owned()))
        .collect();
    check(&sources, &AllowList::parse("list", "").unwrap())
}

/// Asserts that a file has these violations: the line of each, and a part of its message.
#[track_caller]
fn assert_violations(path: &str, text: &str, expected: &[(usize, &str)]) {
    let found = violations(&[(path, text)]);
    assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
    for (message, (line, part)) in found.iter().zip(expected) {
        assert!(
            message.starts_with(&format!("{path}:{line}: ")) && message.contains(part),
            "{text}: {message}"
        );
    }
}

/// Returns Rust source with this many doc comments, the last `openers` of which open with a free
/// relative clause.
fn documented(count: usize, openers: usize) -> String {
    let plain = "/// A thing.\n/// What it holds.\nfn f() {}\n".repeat(count - openers);
    plain + &"/// What a thing is,\n/// in short.\nfn f() {}\n".repeat(openers)
}

#[test]
fn doc_comments_that_open_with_a_free_relative_are_reported_above_the_limit() {
    assert_eq!(violations(&[("a.rs", &documented(100, 3))]), [""; 0]);
    let found = violations(&[("a.rs", &documented(50, 0)), ("b.rs", &documented(50, 4))]);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(
        found[0].starts_with("b.rs:139: the doc comment opens with a free relative clause")
            && found[0].contains("\"What a thing is, in short.\""),
        "{found:?}"
    );
    assert_eq!(
        found[4],
        "4 of 100 doc comments open with a free relative clause, more than 3 %"
    );
}

#[test]
fn every_free_relative_counts_and_nothing_else() {
    for opener in OPENERS {
        let text = format!(
            "/// {} the device does, it does.\nfn f() {{}}\n",
            capital(opener)
        );
        assert!(!violations(&[("a.rs", &text)]).is_empty(), "{text}");
        let inner = text.replace("///", "//!");
        assert!(!violations(&[("a.rs", &inner)]).is_empty(), "{inner}");
    }
    for text in [
        "/// Whatsoever.\nfn f() {}\n",
        "/// Which stream waits?\nfn f() {}\n",
        "/// # What to do\n/// Nothing.\nfn f() {}\n",
        "/// ```\n/// what();\n/// ```\nfn f() {}\n",
        "// How it works.\nfn f() {}\n",
        "fn f() { \"/// What it is\"; }\n",
    ] {
        assert_eq!(violations(&[("a.rs", text)]), [""; 0], "{text}");
    }
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

#[test]
fn every_ruled_out_phrase_is_found_in_comments_and_markdown() {
    for phrase in PHRASES {
        let sentence = format!("It is {phrase} waiting.");
        for (path, text) in [
            (
                "a.rs",
                format!("//! A.\n/// A thing. {sentence}\nfn f() {{}}\n"),
            ),
            ("a.rs", format!("//! A.\nfn f() {{}} // {sentence}\n")),
            ("a.rs", format!("//! A.\n//! - {}\n", capital(&sentence))),
            ("a.md", format!("# A\n{sentence}\n")),
            ("a.md", format!("| a |\n| {sentence} |\n")),
        ] {
            assert_violations(path, &text, &[(2, phrase)]);
        }
        let name = phrase.replace(' ', "_");
        for code in [format!("\"It is {phrase}.\""), format!("it_is_{name}_who")] {
            assert_violations(
                "a.rs",
                &format!("//! A.\nfn f() {{ {code} }}\n"),
                &[(2, phrase)],
            );
        }
        assert_violations("a.rs", &format!("//! A.\nfn f() {{}} // `{phrase}`\n"), &[]);
        let fence = format!("```text\n{phrase}\n```\n`{phrase}`\n");
        assert_violations("a.md", &fence, &[]);
        assert_violations("a.sh", &format!("# {phrase}\n"), &[]);
    }
}

#[test]
fn a_phrase_is_found_across_lines_and_reported_where_it_starts() {
    let text =
        "//! A.\n//!\n//! It is one of\n//! those that wait,\n//! and comes to\n//! knows.\n";
    assert_violations("a.rs", text, &[(3, "of those that"), (5, "comes to")]);
    assert_violations("a.rs", "//! A none of\n\n//! it.\n", &[]);
    assert_violations("a.md", "None of\n\nit becomes to me.\n", &[]);
}

#[test]
fn opening_phrases_are_found_at_the_start_of_sentences_only() {
    let found = [(1, "what is")];
    assert_violations("a.md", "What is read is copied.\n", &found);
    assert_violations("a.md", "It waits. What is read is copied.\n", &found);
    assert_violations("a.md", "- **What is read** is copied.\n", &found);
    assert_violations("a.md", "It waits. Who waits is woken.\n", &[(1, "who")]);
    assert_violations("a.md", "| a | Who waits |\n", &[(1, "who")]);
    for text in [
        "# What is a stream?\n",
        "A thread who waits, and what is read.\n",
        "What it is.\n",
        "Whole arrays.\n",
    ] {
        assert_violations("a.md", text, &[]);
    }
}

#[test]
fn lines_of_more_than_100_columns_are_found() {
    let wide = "ä".repeat(COLUMNS_MAX + 1);
    let found = [(1, "101 columns")];
    assert_violations("a.rs", &format!("// {}\n", &wide[6..]), &found);
    assert_violations("a.md", &format!("{wide}\n"), &found);
    assert_violations("a.rs", &format!("// {}\n", &wide[8..]), &[]);
    for (path, text) in [
        ("a.md", format!("| {wide} |\n")),
        ("a.md", format!("```text\n{wide}\n```\n")),
        ("a.md", format!("[{wide}](a.md)\n")),
        ("a.md", format!("{wide} https://a.org\n")),
        ("a.rs", format!("//! | {wide} |\n")),
        ("a.rs", format!("// https://a.org/{wide}\n")),
        ("a.py", format!("{wide}\n")),
        ("docs/measurements/a.md", format!("{wide}\n")),
    ] {
        assert_violations(path, &text, &[]);
    }
}

#[test]
fn examples_that_include_a_file_stand_alone() {
    let example = |opening: &str| format!("```{opening}\ninclude_str!(\"a.ptx\")\n```\n");
    let page = example("sh") + &example("rust");
    assert_violations("a/src/a.md", &page, &[(5, "standalone_crate")]);
    let docs = "/// ```\n/// include_str!(\"a.ptx\")\n/// ```\ninclude_str!(\"b.ptx\")\n";
    assert_violations("a/src/a.rs", docs, &[(2, "standalone_crate")]);
    assert_violations("a/src/a.md", &example("rust,standalone_crate"), &[]);
    assert_violations("README.md", &page, &[]);
}

#[test]
fn listed_files_are_excepted_and_unused_entries_reported() {
    let wide = format!("// {}\n", "x".repeat(COLUMNS_MAX));
    let sources = [
        Source::new("a.rs", wide),
        Source::new("b.rs", String::from("// A comment.\n")),
    ];
    let wide = AllowList::parse("wide", "a.rs quotes\nb.rs quotes\n").unwrap();
    assert_eq!(
        check(&sources, &wide),
        ["wide: b.rs needs no exception: remove the line"]
    );
}

#[test]
fn names_of_rust_files_in_markdown_exist() {
    let page = "`a/b.rs`, `b.rs`, `crates/a/b.rs`, `*.rs`, [`a.rs`](b.md)\n`c.rs`, `x/b.rs`\n";
    assert_eq!(
        violations(&[
            ("crates/a/b.rs", "//! B.\n"),
            ("a.md", page),
            ("docs/measurements/a.md", page)
        ]),
        [
            "a.md:2: names `c.rs`, which does not exist",
            "a.md:2: names `x/b.rs`, which does not exist"
        ]
    );
}
