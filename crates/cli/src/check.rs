//! `millstream check`: runs a program under many schedules, until one of them shows a problem.

use std::{
    io::Write as _,
    process::{ExitCode, Output},
};

use clap::Args;
use millstream_sim::Rules;

use crate::{
    program::{NO_REPORT, Program, ProgramArguments, Schedule, exit_code, variable},
    reports::Reports,
    settings,
};

/// The arguments of `millstream check`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: ProgramArguments,
    /// The number of runs.
    #[arg(long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The seed of the first random schedule.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Returns the schedules: one of each kind without a seed, then random ones and those of
/// probabilistic concurrency testing in turn. Each is there with each of the readings.
fn schedules(first_seed: u64, readings: &[Option<String>]) -> impl Iterator<Item = Schedule> {
    let plain = ["timed", "lazy", "eager"]
        .map(|name| (name, None))
        .into_iter();
    let seeds = (0..).map(move |index| Some(first_seed.wrapping_add(index)));
    let seeded = seeds.flat_map(|seed| [("pct", seed), ("random", seed)]);
    plain.chain(seeded).flat_map(|(name, seed)| {
        readings.iter().map(move |rules| Schedule {
            name: Some(name.to_owned()),
            seed,
            rules: rules.clone(),
        })
    })
}

/// Returns the readings of the rules: that of the option or of the environment, or else both.
fn readings(option: Option<&String>, settings: Option<&str>) -> Vec<Option<String>> {
    match (option, settings) {
        (Some(rules), _) => vec![Some(rules.clone())],
        (None, Some(settings)) if has(settings, "rules") => vec![None],
        _ => vec![None, Some("strict".to_owned())],
    }
}

/// Returns whether the value of `MILLSTREAM_DEVICE` has a setting of this name.
fn has(settings: &str, name: &str) -> bool {
    let mut names = settings.split([':', ',']).map(|it| it.split('=').next());
    names.any(|it| it == Some(name))
}

/// The outcome of a run.
struct Outcome {
    output: Output,
    code: u8,
    reports: Reports,
    has_problems: bool,
}

/// Runs the program once.
fn run_once(program: &mut Program<'_>, schedule: &Schedule) -> Result<Outcome, String> {
    let output = program.run_silently(schedule)?;
    let reports = program.take_reports()?;
    let code = exit_code(output.status);
    if code == 0 && reports.is_empty() && program.signal().is_none() {
        return Err(NO_REPORT.to_owned());
    }
    let has_problems = code != 0 || reports.has_problems();
    Ok(Outcome {
        output,
        code,
        reports,
        has_problems,
    })
}

/// Runs the program under each schedule. Returns success if it always succeeded without problems.
/// Otherwise prints the output of the first run that did not, and the command that repeats it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let settings = variable(settings::VARIABLE);
    let fixed = ["schedule", "seed", "depth", "replay"];
    if let Some(settings) = &settings
        && let Some(name) = fixed.into_iter().find(|name| has(settings, name))
    {
        return Err(format!(
            "`check` chooses the schedules: remove `{name}` from {}={settings}, or use `run`",
            settings::VARIABLE
        ));
    }
    let readings = readings(arguments.program.rules.as_ref(), settings.as_deref());
    let count = usize::try_from(arguments.runs).unwrap_or(usize::MAX);
    let given = Schedule {
        rules: arguments.program.rules.clone(),
        ..Schedule::default()
    };
    let mut program = Program::prepare(&arguments.program, &given)?;
    for (index, mut schedule) in schedules(arguments.seed, &readings).take(count).enumerate() {
        let mut outcome = run_once(&mut program, &schedule)?;
        let is_strict = readings.len() > 1 && schedule.rules.is_some();
        if is_strict && outcome.has_problems && program.signal().is_none() {
            // One rule says more than all of them.
            for rule in Rules::names() {
                let schedule_of_rule = Schedule {
                    rules: Some(rule.to_owned()),
                    ..schedule.clone()
                };
                let of_rule = run_once(&mut program, &schedule_of_rule)?;
                if of_rule.has_problems {
                    (schedule, outcome) = (schedule_of_rule, of_rule);
                    break;
                }
            }
        }
        if let Some(signal) = program.signal() {
            return Ok(ExitCode::from(128 | signal as u8));
        }
        if !outcome.has_problems {
            continue;
        }
        // A closed standard stream is ignored.
        let _ = std::io::stdout().write_all(&outcome.output.stdout);
        let _ = std::io::stderr().write_all(&outcome.output.stderr);
        let strict = match &schedule.rules {
            Some(rules) if is_strict => {
                format!(" under the documentation's reading of `{rules}`, not that of GPUs,")
            }
            _ => String::new(),
        };
        eprintln!(
            "millstream: run {} of {count}{strict} {}; to repeat it:\n  {}",
            index + 1,
            match outcome.code {
                0 => "has problems".to_owned(),
                code => format!("ended with status {code}"),
            },
            arguments.program.command_line(&schedule)
        );
        if outcome.code != 0 {
            program.advise(&outcome.reports);
        }
        return Ok(match outcome.code {
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
        let both = readings(None, Some("sim:memory=1G"));
        assert_eq!(readings(None, Some("sim:memory=1G,rules=strict")), [None]);
        let all: Vec<_> = schedules(u64::MAX, &both).take(50).collect();
        for (index, schedule) in all.iter().enumerate() {
            assert!(!all[..index].contains(schedule), "{schedule:?}");
        }
    }
}
