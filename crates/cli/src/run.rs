//! `millstream run`: runs a program on the simulated device, and reports its problems.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::Args;

use crate::program::{
    NO_REPORT, Program, ProgramArguments, Schedule, cannot, exit_code, has_problems,
};

/// The arguments of `millstream run`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: ProgramArguments,
    /// The schedule: timed, eager, lazy, random or pct.
    #[arg(long)]
    schedule: Option<String>,
    /// The seed of a random schedule.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Writes the report to this file, one line of JSON for each process that used the device.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the device's operations with their virtual times to this file, for Perfetto and
    /// `chrome://tracing`.
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
}

/// Runs the program. Returns its exit status, or that of `--exit-code` if it succeeded with
/// problems.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut program = Program::prepare(&arguments.program)?;
    let schedule = Schedule {
        name: arguments.schedule.clone(),
        seed: arguments.seed,
    };
    if let Some(timeline) = &arguments.timeline {
        // Every process of the program appends to the file.
        fs::write(timeline, "[\n").map_err(|error| cannot("write", timeline, &error))?;
    }
    let status = program.run(&schedule, arguments.timeline.as_deref())?;
    let reports = program.take_reports();
    if reports.is_empty() {
        eprintln!("millstream: {NO_REPORT}");
    }
    if let Some(file) = &arguments.json {
        fs::write(file, &reports).map_err(|error| cannot("write", file, &error))?;
    }
    let code = exit_code(status);
    if code == 0 && has_problems(&reports) {
        return Ok(arguments.program.exit_code.into());
    }
    Ok(code.into())
}
