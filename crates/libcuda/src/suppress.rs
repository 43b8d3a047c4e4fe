//! Patterns of problems that a report leaves out.

/// The patterns of a file: a line each. Empty lines, and lines that start with `#`, are comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suppressions(Vec<Pattern>);

/// A pattern: texts that a problem contains one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Vec<String>);

impl Suppressions {
    /// Parses a file. In a pattern, `*` stands for any text, and so do the ends of the line.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parts = |line: &str| line.split('*').map(str::to_owned).collect();
        Self(lines.map(|line| Pattern(parts(line))).collect())
    }

    /// Returns whether a pattern matches the text of a problem.
    pub(crate) fn matches(&self, problem: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(problem))
    }
}

impl Pattern {
    fn matches(&self, mut rest: &str) -> bool {
        self.0
            .iter()
            .all(|part| match rest.split_once(part.as_str()) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_texts_that_have_its_parts_in_their_order() {
        let known = Suppressions::parse("# known\n\n  Race*kernel `a`*reads \nLeak: stream\n");
        assert!(known.matches("1. Race: read\n  kernel `a` reads\n"));
        assert!(known.matches("Leak: stream 3"));
        assert!(!known.matches("Race: read\n  kernel `b` reads"));
        assert!(!known.matches("kernel `a` reads, Race"));
        assert!(!known.matches("# known"));
        assert!(!Suppressions::default().matches("Race"));
    }
}
