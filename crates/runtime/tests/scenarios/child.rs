//! This test program again, in a process of its own: with another environment, or to see it end.

use std::{env, process::Command};

use crate::harness::Watch;

/// How a process ended, and what it printed.
pub(crate) struct Ended {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs one of this program's own tests, an ignored one too, in a process with these changes to the
/// environment.
pub(crate) fn in_process(test: &str, environment: &[(&str, &str)]) -> Ended {
    let _watch = Watch::over(format!("a process that runs {test}"));
    let program = env::current_exe().expect("the test's own program");
    let mut command = Command::new(program);
    // One thread: the test's own, even where the system has no other to give.
    command.args([
        "--exact",
        test,
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.envs(environment.iter().copied());
    let output = command.output().expect("the process starts");
    Ended {
        code: output.status.code(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ended {
    /// What it printed, if it ended well.
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.output, self.errors);
        self.output
    }
}
