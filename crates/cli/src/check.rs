//! `millstream check`: runs a program under many schedules, until one of them shows a problem.

use std::{io::Write as _, process::ExitCode};

use clap::Args;

use crate::program::{NO_REPORT, Program, ProgramArguments, Schedule, exit_code, has_problems};

/// The arguments of `millstream check`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: ProgramArguments,
    /// The number of runs.
    #[arg(long, value_name = "N", default_value_t = 20)]
    runs: u64,
    /// The seed of the first random schedule.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Returns the schedules: one of each kind without a seed, then random ones and those of
/// probabilistic concurrency testing in turn.
fn schedules(first_seed: u64) -> impl Iterator<Item = Schedule> {
    let plain = ["timed", "lazy", "eager"]
        .map(|name| (name, None))
        .into_iter();
    let seeded = (first_seed..).flat_map(|seed| [("pct", Some(seed)), ("random", Some(seed))]);
    plain.chain(seeded).map(|(name, seed)| Schedule {
        name: Some(name.to_owned()),
        seed,
    })
}

/// Runs the program under each schedule. Returns success if it always succeeded without problems.
/// Otherwise prints the output of the first run that did not, and the command that repeats it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut program = Program::prepare(&arguments.program)?;
    let count = usize::try_from(arguments.runs).unwrap_or(usize::MAX);
    for (index, schedule) in schedules(arguments.seed).take(count).enumerate() {
        let output = program.run_silently(&schedule)?;
        let reports = program.take_reports();
        let code = exit_code(output.status);
        if let Some(signal) = program.signal() {
            return Ok(ExitCode::from(128 | signal as u8));
        }
        if code == 0 && reports.is_empty() {
            return Err(NO_REPORT.to_owned());
        }
        if code == 0 && !has_problems(&reports) {
            continue;
        }
        // A closed standard stream is ignored.
        let _ = std::io::stdout().write_all(&output.stdout);
        let _ = std::io::stderr().write_all(&output.stderr);
        eprintln!(
            "millstream: run {} of {count} {}; to repeat it:\n  {}",
            index + 1,
            match code {
                0 => "has problems".to_owned(),
                code => format!("ended with status {code}"),
            },
            arguments.program.command_line(&schedule)
        );
        return Ok(match code {
            0 => arguments.program.exit_code.into(),
            code => code.into(),
        });
    }
    eprintln!("millstream: {count} runs succeeded without problems");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_schedules_are_the_same() {
        let all: Vec<_> = schedules(5).take(50).collect();
        for (index, schedule) in all.iter().enumerate() {
            assert!(!all[..index].contains(schedule), "{schedule:?}");
        }
    }
}
