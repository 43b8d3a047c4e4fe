//! What a check found, and how to see it again.

use std::{env, fmt, thread};

use millstream_sim::{ReplayToken, Report};

use super::run::VARIABLE;

/// A run that failed. As text: what failed, under which schedule, what the simulated device has to
/// report, and the command that makes just this run again.
///
/// ```
/// let failure = millstream::Check::new().find(|_| Err::<(), _>("no")).unwrap_err();
/// assert!(failure.problem().contains("no"));
/// assert_eq!(failure.replay(), "schedule=timed,rules=observed");
/// assert!(failure.to_string().contains("MILLSTREAM_CHECK='schedule=timed,rules=observed'"));
/// ```
#[derive(Clone, Debug)]
pub struct CheckFailure {
    pub(super) problem: Box<str>,
    pub(super) reports: Vec<Report>,
    pub(super) replay: String,
    pub(super) token: Option<ReplayToken>,
    pub(super) run: u64,
    /// The command that runs the program again, but for the variable; taken where the check ran, on
    /// the test's thread.
    pub(super) command: Box<str>,
}

/// The command that runs the test of the calling thread again, and no other.
pub(super) fn this_test() -> String {
    // The test harness names a test's thread after the test, unless it runs on the main thread.
    let name = thread::current()
        .name()
        .filter(|&name| name != "main")
        .map(String::from);
    command_of(
        name,
        env::var("CARGO_PKG_NAME").ok(),
        env::args().skip(1).collect(),
    )
}

/// The command for a test of this name in a package, run by a program with these arguments.
fn command_of(test: Option<String>, package: Option<String>, arguments: Vec<String>) -> String {
    // A single test runs on the main thread where threads are limited to one; its name is then the
    // filter.
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let filter = || {
        arguments
            .iter()
            .find(|argument| !argument.starts_with('-'))
            .cloned()
    };
    let test = test.or_else(|| filter().filter(|_| exact));
    let (Some(test), Some(package)) = (test, package) else {
        return "and the same command".into();
    };
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':' | '-');
    let test = if test.chars().all(is_plain) {
        test
    } else {
        format!("'{}'", test.replace('\'', r"'\''"))
    };
    let ignored = ["--ignored", "--include-ignored"];
    let is_ignored = arguments
        .iter()
        .any(|argument| ignored.contains(&argument.as_str()));
    let ignored = if is_ignored { " --include-ignored" } else { "" };
    format!("cargo test -p {package} -- --exact {test}{ignored}")
}

impl CheckFailure {
    /// The program made other calls although it was answered the same.
    pub(super) fn not_the_same(replay: String, run: u64) -> Self {
        Self {
            problem: "the program made other calls than before, although it was answered the same: it depends on more than \
                      the device"
                .into(),
            reports: Vec::new(),
            replay,
            token: None,
            run,
            command: this_test().into(),
        }
    }

    /// What failed: a panic's message, an error, reports, a leak.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What the simulated device found wrong in this run.
    #[must_use]
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// The value of `MILLSTREAM_CHECK` that makes a check run this again.
    #[must_use]
    pub fn replay(&self) -> &str {
        &self.replay
    }

    /// The choices of the schedule up to the end of the program, for
    /// [`SimConfig::replay`](crate::sim::SimConfig::replay). None if the program was not the same
    /// every time.
    #[must_use]
    pub fn token(&self) -> Option<&ReplayToken> {
        self.token.as_ref()
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the check failed in run {}, with {}",
            self.run, self.replay
        )?;
        writeln!(f, "  {}", self.problem)?;
        for report in &self.reports {
            writeln!(f, "  the simulated device reports: {report}")?;
        }
        write!(
            f,
            "  to run this again: {VARIABLE}='{}' {}",
            self.replay, self.command
        )
    }
}

impl std::error::Error for CheckFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_runs_one_test_of_one_package() {
        let command = |test: Option<&str>, package: Option<&str>, arguments: &[&str]| {
            let arguments = arguments.iter().copied().map(String::from).collect();
            command_of(test.map(String::from), package.map(String::from), arguments)
        };
        assert_eq!(
            command(Some("tests::sums"), Some("a-package"), &["sums"]),
            "cargo test -p a-package -- --exact tests::sums"
        );
        assert_eq!(
            command(Some("lib.rs - f (line 3)"), Some("a"), &[]),
            "cargo test -p a -- --exact 'lib.rs - f (line 3)'"
        );
        assert_eq!(
            command(Some("slow"), Some("a"), &["--ignored"]),
            "cargo test -p a -- --exact slow --include-ignored"
        );
        assert_eq!(
            command(
                None,
                Some("a"),
                &["--exact", "tests::sums", "--test-threads=1"]
            ),
            "cargo test -p a -- --exact tests::sums"
        );
        for unknown in [
            command(None, Some("a"), &["sums"]),
            command(Some("sums"), None, &[]),
        ] {
            assert_eq!(unknown, "and the same command");
        }
    }
}
