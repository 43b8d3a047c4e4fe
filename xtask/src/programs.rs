//! `cargo xtask programs`: runs random programs for a given time, generated and checked as in the
//! tests.

use anyhow::Result;

use crate::process;

/// The arguments of `cargo xtask programs`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Start no program after this many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run at most this many programs.
    #[arg(long)]
    programs: Option<u64>,
    /// The number of the first program; the tests run those from 0 on.
    #[arg(long, default_value_t = 1_000_000)]
    seed: u64,
    /// Inject driver errors into every second program.
    #[arg(long)]
    faults: bool,
}

/// Runs the programs, optimised. With `MILLSTREAM_DEVICE=cuda:0` they run on a GPU.
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
        .args([
            "--",
            "--ignored",
            "--nocapture",
            "open_ended_random_programs",
        ])
        .env("MILLSTREAM_PROGRAMS_SECONDS", options.seconds.to_string())
        .env("MILLSTREAM_PROGRAMS_SEED", options.seed.to_string())
        .env("MILLSTREAM_PROGRAMS_FAULTS", options.faults.to_string());
    if let Some(programs) = options.programs {
        cargo.env("MILLSTREAM_PROGRAMS_COUNT", programs.to_string());
    }
    process::run(&mut cargo)
}
