//! Tests in another process, for settings that a process reads once.

use std::{env, process::Command};

use crate::Outcome;

/// A part of the names of tests that another process skips: those that would start a third.
pub(crate) const SKIPPED: &str = "in_another_process";

/// Runs the tests whose names contain `filter`, at least one, with these environment variables.
pub(crate) fn run(filter: &str, variables: &[(&str, &str)]) -> Outcome {
    let found = Command::new(env::current_exe()?)
        .args([filter, "--skip", SKIPPED])
        .envs(variables.iter().copied())
        .output()?;
    let text = String::from_utf8_lossy(&found.stdout);
    if found.status.success() && !text.contains(" 0 passed") {
        Ok(())
    } else {
        let errors = String::from_utf8_lossy(&found.stderr);
        Err(format!("{filter} with {variables:?}:\n{text}\n{errors}").into())
    }
}
