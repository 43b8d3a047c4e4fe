//! `cargo xtask bench`: builds the benchmarks optimised, and runs them.

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
            .args(&options.arguments),
    )
}
