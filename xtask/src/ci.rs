//! `cargo xtask ci`: all checks that a change must pass before it is merged, in a fixed order.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{breakages, clients, pages::blocks, process, runs, targets, tidy};

/// The test of a build without the simulated device. Most of its time is that of compiling, so that
/// nothing is optimised.
const WITHOUT_SIMULATOR: &str = "cargo test --config profile.dev.opt-level=0 --config \
     profile.dev.package.millstream-ptx.opt-level=0 --package millstream-testkit \
     --no-default-features --features without-simulator --test without_simulator";

/// Runs every step, stopping at the first failure.
pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    process::build_once();
    let readme_path = process::root().join("README.md");
    cargo_step("cargo fmt --all --check")?;
    cargo_step("cargo clippy --workspace --all-targets -- -D warnings")?;
    step("cargo xtask tidy", tidy::run)?;
    step("cargo xtask breakages --check", breakages::check_all)?;
    step("the features of each library", targets::features)?;
    step("cargo xtask targets", targets::run)?;
    step("cargo xtask msrv", targets::msrv)?;
    step("the test command of README.md", || {
        let readme = std::fs::read_to_string(&readme_path).context("cannot read README.md")?;
        let command = test_command(&readme).context(
            "README.md has no fenced line that starts with `cargo test`, the command to run the \
             tests: add one",
        )?;
        println!("{command}");
        process::run(process::command("sh").args(["-c", &command]))
    })?;
    step("cargo xtask breakages --some 2", breakages::run_some)?;
    step("the tests of what a package registry has", installed)?;
    step("programs of nvcc, as far as it can be installed", || {
        let folder = |name: &str| process::target_folder().join(name).display().to_string();
        let (tools, nvcc) = (folder("debug"), folder("nvcc"));
        runs::suites([".", "own", "--tools", &tools, "--install", &nvcc])
    })?;
    cargo_step(WITHOUT_SIMULATOR)?;
    step(
        "RUSTDOCFLAGS=\"-D warnings\" cargo doc --workspace --no-deps --all-features",
        || {
            let mut doc = process::cargo("doc --workspace --no-deps --all-features");
            process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
        },
    )?;
    step("cargo deny --workspace check bans licenses sources", || {
        process::install_command("deny")?;
        process::run(&mut process::cargo(
            "deny --workspace check bans licenses sources",
        ))
    })?;
    println!(
        "\nall steps passed in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs the tests that need NVRTC, and those that need packages of Python, as far as both can be
/// installed.
fn installed() -> Result<()> {
    let nvrtc = clients::install::nvrtc();
    let folder = process::target_folder().join("numba");
    let numba = clients::install::python(&folder, "crates/cli/tests/numba/requirements.txt");
    if let Err(error) = &numba {
        println!("packages cannot be installed, so their tests are left out: {error:#}");
    }
    let tests = [
        nvrtc
            .is_some()
            .then_some("compiled:: edited:: --skip times:: --skip k05_"),
        numba.is_ok().then_some("numba:: ending::"),
    ];
    let tests: Vec<_> = tests
        .into_iter()
        .flatten()
        .flat_map(|tests| tests.split(' '))
        .collect();
    if tests.is_empty() {
        return Ok(());
    }
    // The programs that the README's command has built. `--test all` would compile nearly all of
    // them once more: without the tests of the macros, `syn` and what needs it are other units.
    let json = "test --workspace --no-run --message-format=json-render-diagnostics";
    for line in process::output(&mut process::cargo(json))?.lines() {
        let message: Value = serde_json::from_str(line).context("cargo prints JSON")?;
        let program = message["executable"].as_str();
        let (Some(program), Some("all")) = (program, message["target"]["name"].as_str()) else {
            continue;
        };
        let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
        let mut all = process::command(program);
        all.args(["--ignored", "--skip", "inner_"]).args(&tests);
        all.current_dir(manifest.parent().context("a manifest is in a folder")?);
        all.envs(nvrtc.as_ref().map(|folder| ("MILLSTREAM_NVRTC", folder)));
        all.envs(
            numba
                .as_ref()
                .ok()
                .map(|python| ("MILLSTREAM_NUMBA", python)),
        );
        process::run(&mut all)?;
    }
    Ok(())
}

/// Runs one step: prints a heading, does the work, and prints its outcome and duration.
fn step(heading: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n==== {heading}");
    let start = Instant::now();
    let result = work();
    let outcome = if result.is_ok() { "ok" } else { "FAILED" };
    println!("---- {outcome}, {:.1} s", start.elapsed().as_secs_f64());
    result.with_context(|| format!("step failed: {heading}"))
}

/// Runs a step that is a single command without quoted words. The command is also the heading.
fn cargo_step(line: &str) -> Result<()> {
    step(line, || {
        let words = line.strip_prefix("cargo ").expect("a command of cargo");
        process::run(&mut process::cargo(words))
    })
}

/// Returns the first line inside a code fence of `readme` that starts with `cargo test`.
pub(crate) fn test_command(readme: &str) -> Option<String> {
    let blocks = blocks(readme);
    let mut lines = blocks.iter().flat_map(|block| block.text.lines());
    let command = lines.find(|line| line.trim().starts_with("cargo test"))?;
    Some(command.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::test_command;

    #[test]
    fn the_test_command_is_taken_from_a_code_fence() {
        let readme = "Run `cargo test`:\ncargo test outside\n```sh\ngit clone x\n\
                      cargo test --workspace\n```\n";
        let command = Some("cargo test --workspace".to_owned());
        assert_eq!(test_command(readme), command);
        assert_eq!(
            test_command("cargo test\n```\ncargo build\n```\ncargo test\n"),
            None
        );
        assert_eq!(test_command(""), None);
    }
}
