//! Child processes that run a test of this program: with another environment, or to observe the
//! process's end.

use std::{env, process::Command};

use crate::scenarios::prelude::*;

/// The exit status and output of a child process.
pub(crate) struct Ended {
    /// The exit code; `None` if a signal ended the process.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs one of the scenarios, even an ignored one, in a child process with additional environment
/// variables.
pub(crate) fn in_process(test: &str, environment: &[(&str, &str)]) -> Ended {
    run_alone(&format!("scenarios::{test}"), environment)
}

/// Runs any test of this program like [`in_process`].
pub(crate) fn run_alone(test: &str, environment: &[(&str, &str)]) -> Ended {
    let _watch = Watch::over(format!("a process that runs {test}"));
    let program = env::current_exe().expect("the test's own program");
    let mut command = Command::new(program);
    // Uses one test thread, which works even where the system refuses to create another.
    command.args([
        "--exact",
        test,
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.envs(environment.iter().copied());
    let output = command.output().expect("the process starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("running 1 test"), "{test}: {text}");
    Ended {
        code: output.status.code(),
        output: text,
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ended {
    /// Returns the output; panics if the process did not exit with code 0.
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.output, self.errors);
        self.output
    }
}
