//! Random programs behind gates, against an oracle that knows nothing of the runtime. Without
//! gates, and with more of everything else, they are `tests/programs`.

use std::any::Any;

use millstream::{Device, Error, Result, Stream};

use crate::{
    configurations::on_gpu,
    harness::{Harness, everywhere},
    program::{
        Allowed, Environment, Interpreter, Sort, check, generate,
        outcome::{LogEntry, Outcome},
        step::Program,
    },
};

/// A program of so many steps that keeps to one device and one thread, has memory enough, and
/// forgets nothing.
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

/// Carries out a program; every value that it sees is the one that plain vectors have.
///
/// # Errors
///
/// The first of a step that was no mistake. The others are carried out all the same.
pub(crate) fn run(devices: &[Device], gates: Option<&Harness>, program: &Program) -> Result<()> {
    let close = |stream: &Stream| -> Box<dyn Any + Send> {
        let harness = gates.expect("gates are closed on a harness");
        Box::new(harness.gate(stream))
    };
    let environment = Environment {
        reopen: None,
        gates: if gates.is_some() { Some(&close) } else { None },
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
fn random_programs_behind_gates_do_what_plain_vectors_do() {
    let programs = if on_gpu() { 2000 } else { 40 };
    everywhere(|harness| {
        let devices = [harness.device.clone()];
        for seed in 0..programs {
            run(&devices, Some(harness), &program(seed, 50, true))
                .unwrap_or_else(|error| panic!("program {seed}: {error}"));
        }
    });
}
