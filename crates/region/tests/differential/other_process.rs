//! Tests in another process, for settings that a process reads once.

use std::{env, process::Command};

use crate::differential::Outcome;

/// Runs the differential tests whose names contain one of the filters, at least one for each, with
/// these environment variables. Those are skipped that would start a third process.
pub(crate) fn run(filters: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let others = [
        "fusion::",
        "in_another_process",
        "maths::",
        "mesh::",
        "product::",
        "scenarios::",
    ];
    let found = Command::new(env::current_exe()?)
        .args(filters)
        .args(others.iter().flat_map(|other| ["--skip", other]))
        .envs(variables.iter().copied())
        .output()?;
    let text = String::from_utf8_lossy(&found.stdout);
    let passed = |filter: &&&str| {
        let is_one = |line: &str| line.contains(**filter) && line.ends_with("ok");
        text.lines().any(is_one)
    };
    if found.status.success() && filters.iter().all(|filter| passed(&filter)) {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&found.stderr);
    Err(format!("{filters:?} with {variables:?}:\n{text}\n{errors}").into())
}
