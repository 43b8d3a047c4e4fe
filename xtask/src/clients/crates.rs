//! The tests of published crates, run by cargo.

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::install;
use super::outcome::{Outcome, Outcomes};
use crate::{nvidia, process};

/// A crate, its version, and arguments of `cargo test`: which tests, and the features.
pub(super) struct Crate(&'static str, &'static str, &'static str);

/// Without the parts that load libraries of machine code.
pub(super) const CUDARC: Crate = Crate(
    "cudarc",
    "0.19.10",
    "--lib --no-default-features --features std,driver,nvrtc,f16,cuda-13000,dynamic-loading",
);
/// Linked with the driver's library, which the others load.
pub(super) const RUSTACUDA: Crate = Crate("rustacuda", "0.1.3", "--lib --tests");
pub(super) const UNMTX_GPU: Crate = Crate(
    "unmtx-gpu",
    "0.2.1",
    "--lib --no-default-features --features cuda-13000",
);
pub(super) const CUDA_ASYNC: Crate = Crate("cuda-async", "0.5.0", "--lib --tests");

/// Runs the tests, one after the other, because some of them measure times.
pub(super) fn run(setup: &Setup, Crate(name, version, arguments): Crate) -> Result<Outcomes> {
    let sources = install::crate_sources(&setup.folder, name, version)?;
    let python = install::python(&setup.folder, super::REQUIREMENTS)?;
    let nvrtc = python.parent().and_then(std::path::Path::parent);
    let nvrtc = nvrtc.context("the interpreter has a folder")?;
    let nvrtc = nvrtc.join("lib/python3.11/site-packages/nvidia/cu13/lib");
    let libraries = std::env::join_paths([setup.driver.clone(), nvrtc])?;
    let mut cargo = process::cargo("test --no-fail-fast");
    nvidia::set_toolkit(&mut cargo)?;
    cargo
        .current_dir(&sources)
        .args(arguments.split(' '))
        .args(["--", "--test-threads=1", &setup.filter])
        .env("CARGO_TARGET_DIR", setup.folder.join("crates-target"))
        .env("RUSTFLAGS", format!("-L{}", setup.driver.display()))
        .env("LD_LIBRARY_PATH", libraries);
    // A failed test is an outcome, and the status says no more than the lines do.
    let output = cargo.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let outcomes = outcomes(&text);
    ensure!(
        !outcomes.0.is_empty(),
        "the tests of {name} did not run:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(outcomes)
}

/// Reads the output of Rust's test harness.
fn outcomes(text: &str) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for line in text.lines() {
        let Some((test, outcome)) = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... "))
        else {
            continue;
        };
        // What a test prints stands before its outcome.
        let outcome = match outcome.rsplit(' ').next() {
            Some("ok") => Outcome::Passed,
            _ if outcome.starts_with("ignored") => Outcome::Skipped("ignored".into()),
            _ => Outcome::Failed(message(text, test)),
        };
        outcomes.add(test, outcome);
    }
    outcomes
}

fn message(text: &str, test: &str) -> String {
    let heading = format!("---- {test} stdout ----");
    let after = text.split_once(&heading).map_or("", |(_, after)| after);
    let lines = after.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("thread '"));
    lines.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_from_the_output_of_the_test_harness() {
        let text = "running 3 tests\ntest a::b ... ok\ntest c ... ignored, slow\n\
                    test d ... FAILED\n\n---- d stdout ----\n\nthread 'd' panicked at x.rs:1:\n\
                    no device\nnote: run\n";
        let outcomes = outcomes(text);
        assert_eq!(outcomes.0["a::b"], Outcome::Passed);
        assert_eq!(outcomes.0["c"], Outcome::Skipped("ignored".into()));
        assert_eq!(outcomes.0["d"], Outcome::Failed("no device".into()));
    }
}
