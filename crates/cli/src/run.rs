//! `millstream run`: runs a program on the simulated device, and reports its problems.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::Args;

use crate::{
    ending::{Ending, exit_code},
    program::{Program, ProgramArguments, Schedule, cannot},
    reports::NO_REPORT,
    say,
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
    /// Writes the report to this file, one line of JSON for each process that opened the driver.
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
    let schedule = Schedule {
        name: arguments.schedule.clone(),
        seed: arguments.seed,
        rules: arguments.program.rules.clone(),
    };
    let mut program = Program::prepare(&arguments.program, &schedule)?;
    // Every process of the program appends to the timeline.
    let files = [(&arguments.timeline, "[\n"), (&arguments.json, "")];
    for (file, start) in files {
        if let Some(file) = file {
            fs::write(file, start).map_err(|error| cannot("write", file, &error))?;
        }
    }
    let mut ending = Ending::prepare(&arguments.program, &schedule)?;
    let status = program.run(&schedule, arguments.timeline.as_deref())?;
    let code = exit_code(status);
    let reports = program.take_reports()?;
    if let Some(file) = &arguments.json {
        fs::write(file, reports.lines()).map_err(|error| cannot("write", file, &error))?;
    }
    if let Some(note) = reports.unfinished_note() {
        say(&note);
    }
    if reports.is_empty() && code == 0 && arguments.program.require_device {
        return Err(NO_REPORT.to_owned());
    }
    if reports.is_empty() {
        say(NO_REPORT);
    }
    if code != 0 {
        program.advise(&reports);
    }
    let code = match code {
        0 if reports.has_problems() => arguments.program.exit_code,
        code => code,
    };
    ending.add(&reports);
    ending.finish(&schedule, &reports, None, code)
}
