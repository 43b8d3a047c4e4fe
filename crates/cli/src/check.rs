//! `millstream check`: runs a program under many schedules, until one of them shows a problem.

use std::{
    io::Write as _,
    process::{ExitCode, Output},
};

use clap::Args;
use millstream_sim::Rules;

use crate::{
    ending::{Ending, exit_code},
    program::{Program, ProgramArguments, Schedule},
    reports::{NO_REPORT, Reports},
    say,
    settings::{self, variable},
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

/// Runs the program once. Returns its output, its exit status and its reports.
fn run_once(
    program: &mut Program<'_>,
    schedule: &Schedule,
) -> Result<(Output, u8, Reports), String> {
    let output = program.run_silently(schedule)?;
    let (code, reports) = (exit_code(output.status), program.take_reports()?);
    if code == 0 && reports.is_empty() && program.signal().is_none() {
        return Err(NO_REPORT.to_owned());
    }
    Ok((output, code, reports))
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
    let mut ending = Ending::prepare(&arguments.program, &given)?;
    let mut last = (given, Reports::default());
    for (index, mut schedule) in schedules(arguments.seed, &readings).take(count).enumerate() {
        let mut outcome = run_once(&mut program, &schedule)?;
        let has_failed =
            |(_, code, reports): &(_, u8, Reports)| *code != 0 || reports.has_problems();
        let is_strict = readings.len() > 1 && schedule.rules.is_some();
        ending.add(&outcome.2);
        if let Some(signal) = program.signal() {
            return ending.finish(&schedule, &outcome.2, None, 128 | signal as u8);
        }
        if !has_failed(&outcome) {
            last = (schedule, outcome.2);
            continue;
        }
        // One rule says more than all of them.
        for rule in Rules::names().into_iter().filter(|_| is_strict) {
            let rules = Some(rule.to_owned());
            let of_rule = Schedule {
                rules,
                ..schedule.clone()
            };
            let outcome_of_rule = run_once(&mut program, &of_rule)?;
            if has_failed(&outcome_of_rule) {
                (schedule, outcome) = (of_rule, outcome_of_rule);
                break;
            }
        }
        let (output, code, reports) = outcome;
        // A closed standard stream is ignored.
        let _ = std::io::stdout().write_all(&output.stdout);
        let _ = std::io::stderr().write_all(&output.stderr);
        let rules = schedule.rules.as_deref().filter(|_| is_strict);
        let strict = rules.map(|rules| format!(" (`{rules}` as documented, not as on GPUs)"));
        let repeat = arguments.program.command_line(&schedule);
        let failure = format!(
            "run {} of {count}{} {}",
            index + 1,
            strict.unwrap_or_default(),
            match code {
                0 => "has problems".to_owned(),
                code => format!("ended with status {code}"),
            },
        );
        say(&format!("{failure}; to repeat it:\n  {repeat}"));
        let code = match code {
            0 => arguments.program.exit_code,
            code => {
                program.advise(&reports);
                code
            }
        };
        return ending.finish(&schedule, &reports, Some(failure), code);
    }
    ending.finish(&last.0, &last.1, None, 0)
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
