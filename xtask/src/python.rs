//! `cargo xtask python`: builds the package for Python in `crates/python/example`, and runs its
//! tests twice: on a simulated device, and over the drop-in driver.
//!
//! `crates/python` is a workspace of its own, because PyO3 needs Python to build.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{clients::install, process};

/// The manifest of the workspace.
const MANIFEST: &str = "crates/python/Cargo.toml";
/// The packages that the tests need, with their versions.
const REQUIREMENTS: &str = "crates/python/example/requirements.txt";
/// The folder of the tests.
const TESTS: &str = "crates/python/example/tests";

/// Builds the package and runs its tests.
pub(crate) fn run() -> Result<()> {
    let folder = process::target_folder().join("python");
    let python = install::python(&folder, REQUIREMENTS)?;
    cargo(
        &python,
        &["clippy", "--all-targets", "--", "-D", "warnings"],
    )?;
    cargo(&python, &["build"])?;
    let package = folder.join("package");
    std::fs::create_dir_all(&package).context("cannot create the package's folder")?;
    let built = process::target_folder().join("debug/libmillstream_example.so");
    std::fs::copy(&built, package.join("millstream_example.abi3.so"))
        .with_context(|| format!("cannot copy {}", built.display()))?;
    process::run(process::command("cargo").args(["build", "--package", "millstream-libcuda"]))?;
    let library = process::target_folder().join("debug/libmillstream_libcuda.so");
    let driver = install::driver(&folder, Some(&library))?;
    test(&python, &package, ("MILLSTREAM_DEVICE", Path::new("sim")))?;
    test(&python, &package, ("LD_LIBRARY_PATH", &driver))
}

/// Runs cargo on the workspace. All output goes to the folder of the main workspace.
fn cargo(python: &Path, arguments: &[&str]) -> Result<()> {
    let (command, rest) = arguments.split_first().context("no command")?;
    process::run(
        process::command("cargo")
            .args([command, "--manifest-path", MANIFEST, "--workspace"])
            .args(rest)
            .env("CARGO_TARGET_DIR", process::target_folder())
            .env("PYO3_PYTHON", python),
    )
}

/// Runs the tests with this environment variable.
fn test(python: &Path, package: &Path, (name, value): (&str, &Path)) -> Result<()> {
    process::run(
        process::command(&python.to_string_lossy())
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS])
            .env("PYTHONPATH", package)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("MILLSTREAM_DEVICE")
            .env(name, value),
    )
}
