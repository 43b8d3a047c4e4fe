//! The limits of size: those of the documents that every newcomer reads, and that of all Rust.

use anyhow::{Context, Result};

use super::sources::Source;

/// The file with the maximum number of lines of Rust in the repository.
pub(super) const CEILING: &str = "xtask/ceiling.txt";

const BYTES_MAX: [(&str, usize); 2] = [("ARCHITECTURE.md", 35_000), ("CONTRIBUTING.md", 9_000)];

const README_LINES_MAX: usize = 200;

/// The number of lines of Rust, generated ones included.
#[derive(Default)]
pub(super) struct RustLines {
    sources: usize,
    /// Lines in folders of tests, and unit tests at the end of a file.
    tests: usize,
}

impl RustLines {
    pub(super) fn of(sources: &[Source]) -> Self {
        let mut lines = Self::default();
        for source in sources.iter().filter(|source| source.is_rust()) {
            let all = source.text.lines().count();
            let is_test = source.path.contains("tests/") || source.path.ends_with("tests.rs");
            let unit_tests = source.text.find("\n#[cfg(test)]\nmod ");
            let inner = unit_tests.map_or(0, |start| source.text[start + 1..].lines().count());
            let tests = if is_test { all } else { inner };
            lines.tests += tests;
            lines.sources += all - tests;
        }
        lines
    }

    /// Returns a violation if there are more lines than the text of [`CEILING`] allows.
    pub(super) fn above(&self, ceiling: &str) -> Result<Option<String>> {
        let number = ceiling.lines().find(|line| !line.starts_with('#'));
        let number = number.and_then(|line| line.trim().replace(',', "").parse().ok());
        let ceiling: usize = number.with_context(|| format!("{CEILING} has no number"))?;
        let above = (self.sources + self.tests).saturating_sub(ceiling);
        Ok((above > 0).then(|| {
            format!("{CEILING}: {self}, {above} more than the ceiling: delete as many elsewhere")
        }))
    }
}

impl std::fmt::Display for RustLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sources, tests } = self;
        let all = sources + tests;
        write!(
            f,
            "{all} lines of Rust ({sources} of sources, {tests} of tests)"
        )
    }
}

/// Returns every violation of the limits of documents, as `path:line: message`.
pub(super) fn violations(sources: &[Source]) -> Vec<String> {
    let long = sources.iter().filter_map(|source| {
        let (size, max, unit) = match BYTES_MAX.iter().find(|(path, _)| *path == source.path) {
            Some(&(_, max)) => (source.text.len(), max, "bytes"),
            None if source.path == "README.md" => {
                (source.text.lines().count(), README_LINES_MAX, "lines")
            }
            None => return None,
        };
        (size > max).then(|| format!("{}:1: {size} {unit}, more than {max}", source.path))
    });
    long.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_above_their_limits_are_violations() {
        let document = |path: &str, text: String| Source::new(path, text);
        let sources = [
            document("ARCHITECTURE.md", "x".repeat(35_001)),
            document("CONTRIBUTING.md", "x".repeat(9_000)),
            document("README.md", "x\n".repeat(201)),
            document("crates/a/README.md", "x\n".repeat(201)),
        ];
        assert_eq!(
            violations(&sources),
            [
                "ARCHITECTURE.md:1: 35001 bytes, more than 35000",
                "README.md:1: 201 lines, more than 200"
            ]
        );
    }

    #[test]
    fn lines_above_the_ceiling_are_counted_apart_for_sources_and_tests() {
        let source = |path: &str, text: &str| Source::new(path, text.into());
        let lines = RustLines::of(&[
            source("crates/a/src/b.rs", "1\n2\n#[cfg(test)]\nmod tests {\n5\n"),
            source("crates/a/tests/b.rs", "1\n"),
            source("crates/a/src/b/tests.rs", "1\n"),
            source("README.md", "1\n"),
        ]);
        assert_eq!(lines.above("# The ceiling.\n7\n").unwrap(), None);
        assert_eq!(
            lines.above("6").unwrap().unwrap(),
            "xtask/ceiling.txt: 7 lines of Rust (2 of sources, 5 of tests), 1 more than the \
             ceiling: delete as many elsewhere"
        );
        assert!(lines.above("# none\n").is_err());
    }
}
