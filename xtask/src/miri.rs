//! `cargo xtask miri`: runs tests in Miri, which detects undefined behaviour.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::process;

/// The unit tests, as arguments of `cargo miri test`. Miri finishes these in minutes: they are the
/// parts of the tracker without tests of very large tables and without property tests.
const UNIT_TESTS: [&str; 7] = [
    "-p",
    "millstream",
    "--lib",
    "--",
    "tracker::vector_clock",
    "tracker::plan",
    "tracker::sync_points",
];

/// The documentation examples of waiting for the device and of sharing memory with it, on the
/// simulated device. Examples that copy mebibytes are left out.
const EXAMPLES: [&str; 13] = [
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
    "memory::view",
    "scope::",
];

/// Miri's flags for the examples. The library's threads outlive the examples, and Miri's weak
/// memory emulation does not support accesses of different sizes to the same address, which
/// simulated memory makes.
const EXAMPLES_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance \
                              -Zmiri-disable-weak-memory-emulation -Zmiri-ignore-leaks";

/// Runs the tests, or returns an error if Miri is not installed.
pub(crate) fn run() -> Result<()> {
    let probe = process::command("cargo")
        .args(["+nightly", "miri", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !probe.context("cannot start cargo")?.success() {
        bail!(
            "Miri is not installed; install it with \
             `rustup toolchain install nightly --component miri --component rust-src`"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_names_a_module_of_the_runtime() {
        let filters = UNIT_TESTS.iter().chain(&EXAMPLES);
        for filter in filters.filter(|filter| filter.contains("::")) {
            let is_module = |name: &&str| name.starts_with(|first: char| first.is_lowercase());
            let modules: Vec<&str> = filter.split("::").take_while(is_module).collect();
            let path = process::root()
                .join("crates/runtime/src")
                .join(modules.join("/"));
            let exists = path.is_dir() || path.with_extension("rs").is_file();
            assert!(
                exists,
                "`{filter}` selects no test: there is no such module"
            );
        }
    }
}
