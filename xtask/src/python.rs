//! `cargo xtask python`: builds the package for Python in `crates/python/example` and the module of
//! `crates/python/hand-overs`, and runs their tests twice: on a simulated device, and over the
//! drop-in driver, where a problem that the driver reports is a failure too.
//!
//! `crates/python` is a workspace of its own, because PyO3 needs Python to build.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{clients::install, process};

const MANIFEST: &str = "crates/python/Cargo.toml";
/// The packages that the tests need, with their versions.
const REQUIREMENTS: &str = "crates/python/example/requirements.txt";
const TESTS: &str = "crates/python/example/tests";
/// The package's part that is written in Python.
const PACKAGE: &str = "crates/python/example/python/millstream_example";
/// The library that counts the waits of a process.
const INTERPOSED: &str = "crates/cli/tests/hand_overs/interposed.c";

/// Builds the package and runs its tests.
pub(crate) fn run() -> Result<()> {
    let folder = process::target_folder().join("python");
    let python = install::python(&folder, REQUIREMENTS)?;
    cargo(&python, "clippy", "--all-targets -- -D warnings")?;
    cargo(&python, "build", "")?;
    let package = folder.join("package");
    assemble(&package)?;
    process::run(&mut process::cargo("build --package millstream-libcuda"))?;
    let library = process::target_folder().join("debug/libmillstream_libcuda.so");
    let driver = install::driver(&folder, Some(&library))?;
    let simulated = [("MILLSTREAM_DEVICE", Path::new("sim"))];
    test(&python, &package, &simulated)?;
    let interposed = folder.join("interposed.so");
    let mut gcc = process::command("gcc");
    gcc.args(["-std=c11", "-O1", "-shared", "-fPIC", INTERPOSED, "-o"]);
    process::run(gcc.arg(&interposed))?;
    let report = folder.join("problems.jsonl");
    fs::write(&report, "").context("cannot empty the report")?;
    let variables = [
        ("LD_LIBRARY_PATH", &*driver),
        ("LD_PRELOAD", &*interposed),
        ("MILLSTREAM_REPORT", &*report),
    ];
    test(&python, &package, &variables)?;
    check_report(&report)
}

/// Checks that the drop-in driver has found no problem, such as a race, in any process of the
/// tests: their values may be right nevertheless.
fn check_report(report: &Path) -> Result<()> {
    let report = fs::read_to_string(report).context("cannot read the report")?;
    ensure!(!report.is_empty(), "the tests did not use the driver");
    for line in report.lines() {
        let process: Value = serde_json::from_str(line).context("the report has another form")?;
        let problems = process["problems"].as_array();
        ensure!(
            problems.is_some_and(Vec::is_empty),
            "the tests pass, but the driver reports problems: {line}"
        );
    }
    Ok(())
}

/// Puts the package's parts into a folder, as maturin does, and the module of the hand-overs beside
/// the package.
fn assemble(folder: &Path) -> Result<()> {
    let package = folder.join("millstream_example");
    fs::create_dir_all(&package).context("cannot create the package's folder")?;
    let built = |name: &str| process::target_folder().join(format!("debug/lib{name}.so"));
    let mut parts = vec![
        (built("millstream_example"), package.join("_native.abi3.so")),
        (
            built("millstream_hand_overs"),
            folder.join("millstream_hand_overs.abi3.so"),
        ),
    ];
    let sources = process::root().join(PACKAGE);
    for entry in sources.read_dir().context("cannot list the package")? {
        let entry = entry?;
        if entry.path().is_file() {
            parts.push((entry.path(), package.join(entry.file_name())));
        }
    }
    for (from, to) in parts {
        fs::copy(&from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// Runs cargo on the workspace. All output goes to the folder of the main workspace.
fn cargo(python: &Path, command: &str, rest: &str) -> Result<()> {
    let mut cargo = process::cargo(&format!(
        "{command} --manifest-path {MANIFEST} --workspace {rest}"
    ));
    cargo.env("CARGO_TARGET_DIR", process::target_folder());
    // Without a dependency on this interpreter's library, as maturin builds it.
    cargo
        .env("PYO3_PYTHON", python)
        .env("PYO3_BUILD_EXTENSION_MODULE", "1");
    process::run(&mut cargo)
}

/// Runs the tests with these environment variables. Those of a framework that is not installed, or
/// that need a GPU, are listed as skipped.
fn test(python: &Path, package: &Path, variables: &[(&str, &Path)]) -> Result<()> {
    process::run(
        process::command(&python.to_string_lossy())
            .args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", TESTS])
            .env("PYTHONPATH", package)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("MILLSTREAM_DEVICE")
            .envs(variables.iter().copied()),
    )
}
