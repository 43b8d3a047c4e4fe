//! `cargo xtask programs`: random programs for as long as one likes, drawn and judged as in the
//! tests.

use anyhow::Result;

use crate::process;

/// What `cargo xtask programs` is told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Start no program after so many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run so many programs at most.
    #[arg(long)]
    programs: Option<u64>,
    /// The number of the first program; the tests run those from 0 on.
    #[arg(long, default_value_t = 1_000_000)]
    seed: u64,
    /// Make calls of the driver fail in every second program.
    #[arg(long)]
    faults: bool,
}

/// Runs them, optimised. With `MILLSTREAM_DEVICE=cuda:0` they run on a GPU.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut cargo = process::command("cargo");
    cargo
        .args([
            "test",
            "--release",
            "--package",
            "millstream",
            "--test",
            "programs",
        ])
        .args(["--", "--ignored", "--nocapture", "as_long_as_one_likes"])
        .env("MILLSTREAM_PROGRAMS_SECONDS", options.seconds.to_string())
        .env("MILLSTREAM_PROGRAMS_SEED", options.seed.to_string())
        .env("MILLSTREAM_PROGRAMS_FAULTS", options.faults.to_string());
    if let Some(programs) = options.programs {
        cargo.env("MILLSTREAM_PROGRAMS_COUNT", programs.to_string());
    }
    process::run(&mut cargo)
}
