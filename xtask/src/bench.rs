//! `cargo xtask bench`: builds the benchmarks optimised, and runs them.

use std::process::Stdio;

use anyhow::Result;

use crate::process;

/// The arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// The arguments of the benchmarks: see `cargo xtask bench --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the benchmarks.
pub(crate) fn run(options: &Options) -> Result<()> {
    let arguments: Vec<&str> = options.arguments.iter().map(String::as_str).collect();
    measure(&arguments)
}

/// Counts instructions (T4), which needs no device and gives the same figures on every machine.
/// Installs valgrind if possible; without it nothing is counted, and the output says so.
pub(crate) fn instructions() -> Result<()> {
    install_valgrind();
    measure(&["--only", "T4"])
}

fn measure(arguments: &[&str]) -> Result<()> {
    process::run(
        process::command("cargo")
            .args([
                "run",
                "--release",
                "--quiet",
                "--package",
                "millstream-bench",
                "--",
            ])
            .args(arguments),
    )
}

/// Installs valgrind if it is missing. If that fails, the benchmarks report it.
fn install_valgrind() {
    let succeeds = |program: &str, arguments: &[&str]| {
        process::command(program)
            .args(arguments)
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if succeeds("valgrind", &["--version"]) {
        return;
    }
    println!("installing valgrind");
    let installed = succeeds("apt-get", &["update", "-qq"])
        && succeeds(
            "apt-get",
            &[
                "install",
                "-y",
                "-qq",
                "--no-install-recommends",
                "valgrind",
            ],
        );
    if !installed {
        println!("WARNING: valgrind could not be installed: no instructions are counted");
    }
}
