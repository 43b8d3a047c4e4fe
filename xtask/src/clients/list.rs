//! The lists of tests that do not pass.
//!
//! A list has paragraphs. The first line of a paragraph names the party and the reason, and the
//! lines after it, which are indented, the tests:
//!
//! ```text
//! # A comment.
//! theirs: the kernel writes beyond its array
//!     cudapy/test_a.py::TestA::test_b
//! ```

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::outcome::{Outcome, Outcomes};

/// The start of the reasons of tests that measure times, and therefore pass on some runs.
const TIMES: &str = "measures times: ";

/// The party that a reason concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// The project's test is wrong, or the project leaves the test out itself.
    Theirs,
    /// The test needs something that cannot be installed from a registry.
    Environment,
    /// The drop-in driver lacks something.
    Ours,
}

/// The listed tests, each with its party and reason.
#[derive(Debug, Default, PartialEq)]
pub(super) struct List(BTreeMap<String, (Party, String)>);

impl List {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut list = BTreeMap::new();
        let mut reason = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(test) = line.strip_prefix("    ") {
                let reason = reason.clone();
                let reason = reason.with_context(|| format!("line {number}: no reason before"))?;
                let before = list.insert(test.to_owned(), reason);
                ensure!(before.is_none(), "line {number}: {test} is listed twice");
                continue;
            }
            let (party, text) = line
                .split_once(": ")
                .with_context(|| format!("line {number}: neither a reason nor a test"))?;
            let party = match party {
                "theirs" => Party::Theirs,
                "environment" => Party::Environment,
                "ours" => Party::Ours,
                _ => bail!("line {number}: `{party}` is none of theirs, environment, ours"),
            };
            reason = Some((party, text.to_owned()));
        }
        Ok(Self(list))
    }

    /// Returns the tests whose outcome is not the listed one, in words. Listed tests whose names do
    /// not contain `filter` are left out.
    pub(super) fn compare(&self, outcomes: &Outcomes, filter: &str) -> Vec<String> {
        let mut differences = Vec::new();
        for (test, outcome) in &outcomes.0 {
            let reason = self.0.get(test).map(|(_, reason)| reason);
            let listed = reason.is_some();
            let may_pass = reason.is_some_and(|reason| reason.starts_with(TIMES));
            match outcome {
                Outcome::Passed if listed && !may_pass => {
                    differences.push(format!("{test} passes, but is listed"));
                }
                Outcome::Failed(message) if !listed => {
                    differences.push(format!("{test} failed, unlisted: {message}"));
                }
                Outcome::Skipped(message) if !listed => {
                    differences.push(format!("{test} was skipped, unlisted: {message}"));
                }
                _ => {}
            }
        }
        for test in self.0.keys().filter(|test| test.contains(filter)) {
            if !outcomes.0.contains_key(test) {
                differences.push(format!("{test} did not run, but is listed"));
            }
        }
        differences
    }

    /// Returns the number of listed tests for each party in words.
    pub(super) fn summary(&self) -> String {
        let count = |party| self.0.values().filter(|(found, _)| *found == party).count();
        format!(
            "listed: {} theirs, {} environment, {} ours",
            count(Party::Theirs),
            count(Party::Environment),
            count(Party::Ours),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# c\ntheirs: wrong\n    a::b\n    a::c\n\nours: no heap\n    d\n\
        theirs: measures times: slow\n    h\n";

    #[test]
    fn a_list_is_parsed_and_mistakes_are_named_with_their_line() {
        let list = List::parse(LIST).unwrap();
        assert_eq!(list.0["a::c"], (Party::Theirs, "wrong".into()));
        assert_eq!(list.summary(), "listed: 3 theirs, 0 environment, 1 ours");
        for (text, problem) in [
            ("    a", "line 1: no reason before"),
            ("ours: x\n    a\n    a", "line 3: a is listed twice"),
            ("others: x", "line 1: `others` is none of"),
            ("x", "line 1: neither a reason nor a test"),
        ] {
            let error = List::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn unlisted_failures_and_listed_successes_differ() {
        let mut outcomes = Outcomes::default();
        outcomes.add("a::b", Outcome::Failed("x".into()));
        outcomes.add("a::c", Outcome::Passed);
        outcomes.add("e", Outcome::Failed("y".into()));
        outcomes.add("f", Outcome::Skipped("z".into()));
        outcomes.add("g", Outcome::Passed);
        outcomes.add("h", Outcome::Passed);
        let list = List::parse(LIST).unwrap();
        let expected = [
            "a::c passes, but is listed",
            "e failed, unlisted: y",
            "f was skipped, unlisted: z",
        ];
        assert_eq!(list.compare(&outcomes, "a::"), expected);
        let all = list.compare(&outcomes, "");
        assert_eq!(all[3], "d did not run, but is listed");
    }
}
