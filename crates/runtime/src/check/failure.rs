//! What a check found, and how to see it again.

use std::{env, fmt, thread};

use millstream_sim::{ReplayToken, Report};

use super::plan::VARIABLE;

/// A run that failed. As text: what failed, under which schedule, what the simulated device has to report, and the command
/// that makes just this run again.
///
/// ```
/// let failure = millstream::Check::new().find(|_| Err::<(), _>("no")).unwrap_err();
/// assert!(failure.problem().contains("no"));
/// assert_eq!(failure.replay(), "schedule=timed,rules=observed");
/// assert!(failure.to_string().contains("MILLSTREAM_CHECK='schedule=timed,rules=observed'"));
/// ```
#[derive(Clone, Debug)]
pub struct CheckFailure {
    pub(super) problem: String,
    pub(super) reports: Vec<Report>,
    pub(super) replay: String,
    pub(super) token: Option<ReplayToken>,
    pub(super) run: u64,
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

    /// The choices of the schedule up to the end of the program, for [`SimConfig::replay`](crate::sim::SimConfig::replay).
    /// None if the program was not the same every time.
    #[must_use]
    pub fn token(&self) -> Option<&ReplayToken> {
        self.token.as_ref()
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the check failed in run {}, with {}", self.run, self.replay)?;
        writeln!(f, "  {}", self.problem)?;
        for report in &self.reports {
            writeln!(f, "  the simulated device reports: {report}")?;
        }
        let command = match (thread::current().name(), env::var("CARGO_PKG_NAME")) {
            // The test harness calls a test's thread by the test's name.
            (Some(test), Ok(package)) if test != "main" => format!("cargo test -p {package} {test}"),
            _ => "and the same command".into(),
        };
        write!(f, "  to run this again: {VARIABLE}='{}' {command}", self.replay)
    }
}

impl std::error::Error for CheckFailure {}
