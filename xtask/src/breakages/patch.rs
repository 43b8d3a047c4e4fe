//! A patch with a deliberate fault: its header, and the judgement on the outcome of its tests.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};

/// The default time limit of a test command, without compilation. A patch may set another.
const LIMIT: Duration = Duration::from_secs(300);

/// The kinds of rules beside those of CUDA, which `docs/testing-the-tests.md` explains.
pub(super) const KINDS: [&str; 13] = [
    "sound",
    "precise",
    "cheap",
    "host memory",
    "drop",
    "errors",
    "loss",
    "user code",
    "edge",
    "bits",
    "report",
    "abi",
    "rule",
];

#[derive(Debug, PartialEq)]
pub(super) struct Breakage {
    pub(super) name: String,
    /// The rule that the tests defend.
    pub(super) rule: String,
    /// A description of the fault.
    pub(super) breaks: String,
    /// The arguments of `cargo test`.
    pub(super) test: Vec<String>,
    /// Set if the runtime is built with shuttle's locks.
    pub(super) with_shuttle: bool,
    /// Set if the simulated device is patched, and therefore compiled.
    pub(super) in_simulator: bool,
    /// The tests that must fail, by the ends of their paths. Empty if the command must hang.
    pub(super) fails: Vec<String>,
    pub(super) limit: Duration,
}

impl Breakage {
    pub(super) fn parse(name: &str, text: &str) -> Result<Self> {
        let header = text.split("\ndiff ").next().unwrap_or_default();
        let field = |key: &str| {
            let line = header.lines().find_map(|line| line.strip_prefix(key));
            line.map(|value| value.trim().to_owned())
        };
        let wanted = |key: &str| {
            field(key).with_context(|| format!("{name}: the header has no line `{key} …`"))
        };
        let words = |text: String, separator: char| {
            let words = text.split(separator).map(str::trim).map(str::to_owned);
            words.filter(|word| !word.is_empty()).collect::<Vec<_>>()
        };
        let fails = wanted("Fails:")?;
        let limit = match field("Limit:") {
            Some(seconds) => Duration::from_secs(
                seconds
                    .parse()
                    .with_context(|| format!("{name}: `Limit:`"))?,
            ),
            None => LIMIT,
        };
        let mut test = words(wanted("Test:")?, ' ');
        let with_shuttle = test.first().is_some_and(|word| word == "shuttle");
        if with_shuttle {
            test.remove(0);
        }
        let rule = wanted("Rule:")?;
        let kind = rule.split(':').next().unwrap_or_default();
        let kind = kind.trim_end_matches(|letter: char| letter.is_ascii_digit());
        ensure!(
            KINDS.contains(&kind.trim_end()),
            "{name}: the rule begins with none of {}: {rule}",
            KINDS.join(", ")
        );
        let breakage = Self {
            name: name.to_owned(),
            rule,
            breaks: wanted("Breaks:")?,
            test,
            with_shuttle,
            in_simulator: text.contains("\n+++ b/crates/sim/src/"),
            fails: if fails == "hang" {
                Vec::new()
            } else {
                words(fails, ',')
            },
            limit,
        };
        ensure!(
            text.contains("\n--- a/"),
            "{name}: the header is followed by no patch"
        );
        Ok(breakage)
    }

    /// Compares the outcome with the one in the header. The error is the difference.
    pub(super) fn judge(&self, outcome: &Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Hung if self.fails.is_empty() => Ok(()),
            Outcome::Hung => Err(String::from("the tests did not end within the limit")),
            Outcome::Passed => Err(String::from("no test failed")),
            Outcome::NotBuilt => Err(String::from("the patched code does not compile")),
            Outcome::Failed(_) if self.fails.is_empty() => Err(String::from("the tests ended")),
            Outcome::Failed(failed) => {
                let has_failed = |wanted: &&String| {
                    !failed
                        .iter()
                        .any(|test| test == *wanted || test.ends_with(&format!("::{wanted}")))
                };
                let passed: Vec<&str> = self
                    .fails
                    .iter()
                    .filter(has_failed)
                    .map(String::as_str)
                    .collect();
                if passed.is_empty() {
                    return Ok(());
                }
                Err(format!(
                    "did not fail: {}; failed: {failed:?}",
                    passed.join(", ")
                ))
            }
        }
    }
}

/// The outcome of a test command.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    NotBuilt,
    Passed,
    Failed(BTreeSet<String>),
    Hung,
}

/// Parses the names of the failed tests from the output of test programs.
pub(crate) fn failed_tests(output: &str) -> BTreeSet<String> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        // libtest-mimic, the test harness of some programs, aligns names and outcomes in columns.
        .map(str::trim)
        .map(|name| {
            name.strip_suffix(" - should panic")
                .unwrap_or(name)
                .to_owned()
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const PATCH: &str = "\
        Rule: rule 17: a stream waits\n\
        Breaks: a reader is forgotten\n\
        Test: -p millstream --lib tracker\n\
        Fails: ordered, others\n\
        Limit: 5\n\n\
        diff --git a/x b/x\n--- a/x\n+++ b/x\n";

    #[test]
    fn a_header_is_parsed_and_an_incomplete_one_is_rejected() {
        let breakage = Breakage::parse("reader", PATCH).unwrap();
        assert_eq!(breakage.breaks, "a reader is forgotten");
        assert_eq!(breakage.test, ["-p", "millstream", "--lib", "tracker"]);
        assert!(!breakage.with_shuttle);
        assert_eq!(breakage.fails, ["ordered", "others"]);
        assert_eq!(breakage.limit, Duration::from_secs(5));
        for line in ["Rule:", "Breaks:", "Test:", "Fails:"] {
            let error = Breakage::parse("x", &PATCH.replace(line, "Says:")).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
        }
        assert!(Breakage::parse("x", &PATCH[..PATCH.find("diff").unwrap()]).is_err());
        let error = Breakage::parse("x", &PATCH.replace("rule 17", "custom")).unwrap_err();
        assert!(error.to_string().contains("sound, precise"), "{error}");
    }

    #[test]
    fn shuttle_before_the_arguments_is_not_an_argument() {
        let patch = PATCH.replace("Test: -p", "Test: shuttle -p");
        let breakage = Breakage::parse("reader", &patch).unwrap();
        assert!(breakage.with_shuttle);
        assert_eq!(breakage.test, ["-p", "millstream", "--lib", "tracker"]);
    }

    #[test]
    fn a_fault_is_detected_only_by_the_named_tests() {
        let breakage = Breakage::parse("reader", PATCH).unwrap();
        let failed =
            |names: &[&str]| Outcome::Failed(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(
            breakage.judge(&failed(&["a::ordered", "others", "more"])),
            Ok(())
        );
        for outcome in [
            failed(&["a::ordered"]),
            failed(&["disordered", "others"]),
            Outcome::Passed,
            Outcome::Hung,
            Outcome::NotBuilt,
        ] {
            assert!(breakage.judge(&outcome).is_err(), "{outcome:?}");
        }
        let hangs = Breakage::parse("x", &PATCH.replace("ordered, others", "hang")).unwrap();
        assert_eq!(hangs.judge(&Outcome::Hung), Ok(()));
        assert!(hangs.judge(&failed(&["a::ordered"])).is_err());
    }

    #[test]
    fn failed_tests_are_parsed_from_the_output() {
        let output = "test a::b ... ok\ntest a::c ... FAILED\ntest     d    ... FAILED\n\
                      test e - should panic ... FAILED\ntest src/x.rs - y (line 3) ... FAILED\n\
                      test result: FAILED. 1 passed\n";
        let failed = ["a::c", "d", "e", "src/x.rs - y (line 3)"].map(String::from);
        assert_eq!(failed_tests(output), BTreeSet::from(failed));
    }
}
