//! Random programs behind gates, against an oracle that knows nothing of the runtime. Without
//! gates, and with more of everything else, they are `tests/programs`.

use std::any::Any;

use millstream::{Device, Error, Result, Stream};

use crate::{
    places::on_gpu,
    program::{
        Allowed, Machine, Sort, World, check, generate,
        outcome::{Entry, Outcome},
        step::Program,
    },
    rig::{Rig, everywhere},
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
pub(crate) fn run(devices: &[Device], gates: Option<&Rig>, program: &Program) -> Result<()> {
    let close = |stream: &Stream| -> Box<dyn Any + Send> {
        let rig = gates.expect("gates are closed on a rig");
        Box::new(rig.gate(stream))
    };
    let world = World {
        reopen: None,
        gates: if gates.is_some() { Some(&close) } else { None },
    };
    let log = Machine::new(devices, world, program)?
        .run(&program.steps)
        .finish();
    let allowed = Allowed {
        faults: gates.is_none(),
        no_memory: false,
    };
    check(program, &log, allowed).unwrap_or_else(|problem| panic!("{problem}\n{program}"));
    let failure = |entry: Entry| match entry.outcome {
        Outcome::Failed(Error::Usage(_)) => None,
        Outcome::Failed(error) => Some(error),
        _ => None,
    };
    log.into_iter().find_map(failure).map_or(Ok(()), Err)
}

#[test]
fn random_programs_behind_gates_do_what_plain_vectors_do() {
    let programs = if on_gpu() { 2000 } else { 40 };
    everywhere(|rig| {
        let devices = [rig.device.clone()];
        for seed in 0..programs {
            run(&devices, Some(rig), &program(seed, 50, true))
                .unwrap_or_else(|error| panic!("program {seed}: {error}"));
        }
    });
}
