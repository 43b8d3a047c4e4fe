//! `cargo xtask miri`: those tests that Miri can run, in Miri, which sees undefined behaviour that tests do not.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::process;

/// The tests, as arguments of `cargo miri test`. They are what Miri gets through in minutes: the parts of the tracker that
/// have no tests of very large tables and no property tests.
const TESTS: [&str; 7] = [
    "-p",
    "millstream",
    "--lib",
    "--",
    "tracker::clock",
    "tracker::plan",
    "tracker::points",
];

/// Runs them, or says that Miri is not there.
pub(crate) fn run() -> Result<()> {
    let probe = process::command("cargo")
        .args(["+nightly", "miri", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !probe.context("cannot start cargo")?.success() {
        bail!(
            "Miri is not installed: `rustup toolchain install nightly --component miri --component rust-src` installs it"
        );
    }
    process::run(
        process::command("cargo")
            .args(["+nightly", "miri", "test"])
            .args(TESTS),
    )
}
