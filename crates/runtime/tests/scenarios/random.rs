//! Random programs behind gates, compared with an oracle that is independent of the runtime.
//! `tests/programs` runs them without gates and with more of everything else.

use std::any::Any;

use crate::scenarios::{
    prelude::*,
    program::{
        Allowed, Environment, Interpreter, Sort, check, generate,
        outcome::{LogEntry, Outcome},
        step::Program,
    },
};

/// Draws a program with this many steps on one device and one thread, with enough memory and
/// without leaks.
pub(crate) fn program(seed: u64, steps: usize, gates: bool) -> Program {
    let sort = Sort {
        steps,
        devices: 1,
        threads: false,
        gates,
        forgets: false,
        scarce: false,
        large: false,
    };
    generate(seed, sort)
}

/// Executes a program and asserts that every observed value agrees with the oracle's plain vectors.
///
/// # Errors
///
/// Returns the first error that is no usage error. Later steps are executed nevertheless.
pub(crate) fn run(devices: &[Device], gates: Option<&Harness>, program: &Program) -> Result<()> {
    let close = |stream: &Stream| -> Box<dyn Any + Send> {
        let harness = gates.expect("gates are closed on a harness");
        Box::new(harness.gate(stream))
    };
    let environment = Environment {
        reopen: None,
        gates: if gates.is_some() { Some(&close) } else { None },
        records: gates.is_some(),
    };
    let log = Interpreter::new(devices, environment, program)?
        .run(&program.steps)
        .finish();
    let allowed = Allowed {
        faults: gates.is_none(),
        no_memory: false,
    };
    check(program, &log, allowed).unwrap_or_else(|problem| panic!("{problem}\n{program}"));
    let failure = |entry: LogEntry| match entry.outcome {
        Outcome::Failed(Error::Usage(_)) => None,
        Outcome::Failed(error) => Some(error),
        _ => None,
    };
    log.into_iter().find_map(failure).map_or(Ok(()), Err)
}

#[test]
fn g08_random_programs_behind_gates_and_in_graphs_agree_with_plain_vectors() {
    // Each part has a limit of time of its own.
    let parts = if on_gpu() { 20 } else { 1 };
    let programs = if on_gpu() { 100 } else { 40 };
    for part in 0..parts {
        everywhere(|harness| {
            let devices = [harness.device.clone()];
            for seed in part * programs..(part + 1) * programs {
                run(&devices, Some(harness), &program(seed, 50, true))
                    .unwrap_or_else(|error| panic!("program {seed}: {error}"));
            }
        });
    }
}
