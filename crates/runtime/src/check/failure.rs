//! `CheckFailure`: a failed run of a check, and the command that repeats it.

use std::{env, fmt, thread};

use millstream_sim::{ReplayToken, Report};

use super::run::VARIABLE;

/// A failed run of a check. Its text names the problem, the schedule, the reports of the simulated
/// device, and the command that repeats exactly this run.
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
    /// The command that runs the program again, without the environment variable. It is determined
    /// on the test's thread, where the check ran.
    pub(super) command: Box<str>,
}

/// Returns the command that runs the test of the calling thread, and no other test.
pub(super) fn this_test() -> String {
    // The test harness names a test's thread after the test, unless the test runs on the main
    // thread.
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

/// Returns the command for a test with this name in a package; `arguments` are those of the test
/// program.
fn command_of(test: Option<String>, package: Option<String>, arguments: Vec<String>) -> String {
    // With a limit of one thread a single test runs on the main thread; its name is then the
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
        return "and the command of this run".into();
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
    /// Creates the failure of a program that made different calls although all earlier calls had
    /// the same results.
    pub(super) fn not_the_same(replay: String, run: u64) -> Self {
        Self {
            problem:
                "the program made different calls in two runs although all earlier calls had the \
                      same results: it depends on more than the device"
                    .into(),
            reports: Vec::new(),
            replay,
            token: None,
            run,
            command: this_test().into(),
        }
    }

    /// Returns the problem: a panic's message, an error, reports or a leak.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns the simulated device's reports of this run.
    #[must_use]
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Returns the value of `MILLSTREAM_CHECK` with which a check repeats this run.
    #[must_use]
    pub fn replay(&self) -> &str {
        &self.replay
    }

    /// Returns the schedule's decisions up to the end of the program, for
    /// [`SimConfig::replay`](crate::sim::SimConfig::replay), or `None` if the program was not
    /// deterministic. A run that looked for races had more events than a device has that is opened
    /// otherwise: only `MILLSTREAM_CHECK` repeats it.
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
            assert_eq!(unknown, "and the command of this run");
        }
    }
}
