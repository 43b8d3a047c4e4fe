//! `cargo xtask miri`: those tests that Miri can run, in Miri, which sees undefined behaviour that
//! tests do not.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::process;

/// The unit tests, as arguments of `cargo miri test`. They are what Miri gets through in minutes:
/// the parts of the tracker that have no tests of very large tables and no property tests.
const UNIT_TESTS: [&str; 7] = [
    "-p",
    "millstream",
    "--lib",
    "--",
    "tracker::vector_clock",
    "tracker::plan",
    "tracker::sync_points",
];

/// The documentation's examples of what waits for the device and of what shares memory with it, on
/// the simulated device; those that copy mebibytes are left out.
const EXAMPLES: [&str; 14] = [
    "-p",
    "millstream",
    "--doc",
    "--",
    "future::pending",
    "copy::Stream::copy",
    "copy::owned::OwnedSource",
    "copy::overlapping",
    "memory::guard",
    "memory::managed",
    "memory::pinned",
    "memory::view_2d",
    "memory::view",
    "scope::",
];

/// What the examples need: threads of the library's own outlive them, and Miri's store buffers do
/// not bear accesses of several sizes to one place, as simulated memory sees them.
const EXAMPLES_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance \
                              -Zmiri-disable-weak-memory-emulation -Zmiri-ignore-leaks";

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
    let miri = |tests: &[&str], flags: &str| {
        process::run(
            process::command("cargo")
                .args(["+nightly", "miri", "test"])
                .args(tests)
                .env("MIRIFLAGS", flags),
        )
    };
    miri(&UNIT_TESTS, "")?;
    miri(&EXAMPLES, EXAMPLES_FLAGS)
}
