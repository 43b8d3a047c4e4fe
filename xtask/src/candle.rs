//! `cargo xtask candle`: tests and runs the example with layers of candle in `examples/candle` on
//! the host and a simulated device, and checks the types of its part for a GPU.
//!
//! The example is a workspace of its own, because candle has many dependencies. On a GPU candle
//! needs `nvcc`; where there is none, a script that makes empty files stands in for it.

use std::{env, process::Command};

use anyhow::{Context, Result};

use crate::process;

/// The manifest of the example.
const MANIFEST: &str = "examples/candle/Cargo.toml";
/// The folder with the script that stands in for `nvcc`.
const STAND_IN: &str = "examples/candle/stand-in";

/// Tests and runs the example.
pub(crate) fn run() -> Result<()> {
    process::run(cargo("clippy").args(["--all-targets", "--", "-D", "warnings"]))?;
    process::run(&mut cargo("test"))?;
    process::run(&mut cargo("run"))?;
    let mut check = cargo("check");
    check.args(["--features", "cuda"]);
    if Command::new("nvcc").arg("--version").output().is_err() {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = [process::root().join(STAND_IN)].into_iter();
        let folders = env::join_paths(folders.chain(env::split_paths(&path)));
        check.env("PATH", folders.context("the search path has a bad folder")?);
        check.env("CUDA_COMPUTE_CAP", "90");
    }
    process::run(&mut check)
}

/// Returns a command of cargo for the example. Its output goes to the folder of the main workspace.
fn cargo(command: &str) -> Command {
    let mut cargo = process::command("cargo");
    cargo
        .args([command, "--manifest-path", MANIFEST])
        .env("CARGO_TARGET_DIR", process::target_folder());
    cargo
}
