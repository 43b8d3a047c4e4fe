//! Differential tests: random programs on a device against `ndarray` on the host, with single
//! operations and with many.
//!
//! Results with a unique right answer must be equal to the bit, with all NaNs considered equal:
//! arithmetic, comparisons, casts, integers, views, and sums and products that are exact in any
//! order. `accuracy.rs` checks rounded results against bounds.
//!
//! A failure prints the seed, the configuration and the program. `MILLSTREAM_SEED=n` runs that
//! program alone, in every configuration; `MILLSTREAM_PROGRAMS=n` sets the number of programs of
//! each kind. With `MILLSTREAM_DEVICE=cuda:0` all run on a GPU.

mod accuracy;
mod attention;
mod attention_case;
mod configurations;
mod device;
mod generator;
mod half_floats;
mod host;
mod host_element;
mod host_half;
mod host_indexing;
mod idioms;
mod invalid_indices;
mod kernel_cache;
mod long_scans;
mod many_reductions;
mod means;
mod numbers_of_rows;
mod other_operations;
mod other_process;
mod parameters;
mod program;
mod regressions;
mod scatter_add;
mod signed_zeros;
mod stencils;
mod step;
mod usage_errors;
mod value;
mod variances;
mod wide_indices;

use std::{env, process::ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use millstream_region::RegionExt;

use configurations::{Configuration, configuration, configurations};
use program::{Program, STEP_KINDS, Size, program};
use value::{Back, Dev, Given};

/// The result of a test.
pub(crate) type Outcome = Result<(), Failed>;

/// The number of random programs.
const PROGRAMS: u64 = 2000;
/// The number of programs of each kind of step.
const SINGLES: u64 = 40;
/// The number of programs over long arrays.
const LONGS: u64 = 96;
/// The number of tests over which the random programs are spread, so that several run at once.
const SHARDS: u64 = 8;

/// Parses a number from the environment.
fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Returns the number of programs of a kind.
fn count(usual: u64) -> u64 {
    number("MILLSTREAM_PROGRAMS").unwrap_or(usual)
}

/// Runs a program on the device twice: with newly generated kernels, and with cached ones.
fn run_twice(program: &Program, configuration: &Configuration) -> Result<(), String> {
    run(program, configuration)?;
    run(program, configuration).map_err(|failure| format!("{failure}, the second time"))
}

/// Runs a program on the device, and compares its results with the expected ones.
fn run(program: &Program, configuration: &Configuration) -> Result<(), String> {
    let device = configuration.open()?;
    let result = device.region(|g| {
        let mut slots: Vec<Dev> = Vec::new();
        for step in &program.steps {
            slots.push(device::apply(step, g, &slots));
        }
        Given(
            program
                .given
                .iter()
                .map(|&slot| slots[slot].clone())
                .collect(),
        )
    });
    let Back(found) = result
        .and_then(millstream_region::Pending::wait)
        .map_err(|error| error.to_string())?;
    for (&slot, found) in program.given.iter().zip(&found) {
        if let Some(difference) = program.expected[slot].difference(found) {
            return Err(format!("array {slot} {difference}"));
        }
    }
    drop(device);
    configuration.is_clean()
}

/// Runs the program of a seed, in its configuration or in every one.
fn check(seed: u64, size: Size, everywhere: bool) -> Outcome {
    let program = program(seed, size);
    let configurations = if everywhere {
        configurations()
    } else {
        vec![configuration(seed)]
    };
    for configuration in configurations {
        run_twice(&program, &configuration).map_err(|failure| {
            let steps: Vec<_> = program.steps.iter().enumerate().collect();
            let listing: String = steps
                .iter()
                .map(|(slot, step)| {
                    let shape = program.expected[*slot].shape();
                    format!("  {slot}: {step:?} -> {shape:?}\n")
                })
                .collect();
            let given = &program.given;
            format!(
                "{failure}\non {}, with {size:?}\n{listing}  returns {given:?}\n\
                 to replay: MILLSTREAM_SEED={seed}",
                configuration.name
            )
        })?;
    }
    Ok(())
}

fn random(shard: u64) -> Outcome {
    let size = |seed: u64| Size {
        steps: 3 + (seed % 13) as usize,
        is_long: false,
        only: None,
    };
    if let Some(seed) = number("MILLSTREAM_SEED") {
        return if shard == 0 {
            check(seed, size(seed), true)
        } else {
            Ok(())
        };
    }
    let of_shard = (0..count(PROGRAMS)).filter(|seed| seed % SHARDS == shard);
    of_shard
        .into_iter()
        .try_for_each(|seed| check(seed, size(seed), false))
}

fn single(kind: u32) -> Outcome {
    let size = Size {
        steps: 1,
        is_long: false,
        only: Some(kind),
    };
    if let Some(seed) = number("MILLSTREAM_SEED") {
        return check(seed, size, true);
    }
    (0..count(SINGLES)).try_for_each(|seed| check(seed, size, false))
}

fn long(shard: u64) -> Outcome {
    let size = |seed: u64| Size {
        steps: 2 + (seed % 4) as usize,
        is_long: true,
        only: None,
    };
    if let Some(seed) = number("MILLSTREAM_SEED") {
        return if shard == 0 {
            check(seed, size(seed), true)
        } else {
            Ok(())
        };
    }
    let of_shard = (0..count(LONGS)).filter(|seed| seed % SHARDS == shard);
    of_shard
        .into_iter()
        .try_for_each(|seed| check(seed, size(seed), false))
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for shard in 0..SHARDS {
        trials.push(Trial::test(format!("random_programs_{shard}"), move || {
            random(shard)
        }));
        trials.push(Trial::test(format!("long_arrays_{shard}"), move || {
            long(shard)
        }));
    }
    for kind in 0..STEP_KINDS {
        trials.push(Trial::test(
            format!("single_operations_{kind}"),
            move || single(kind),
        ));
    }
    for &(name, test) in accuracy::TESTS
        .iter()
        .chain(kernel_cache::TESTS)
        .chain(invalid_indices::TESTS)
        .chain(regressions::TESTS)
        .chain(other_operations::TESTS)
        .chain(idioms::TESTS)
        .chain(means::TESTS)
        .chain(variances::TESTS)
        .chain(usage_errors::TESTS)
        .chain(parameters::TESTS)
        .chain(signed_zeros::TESTS)
        .chain(half_floats::TESTS)
        .chain(long_scans::TESTS)
        .chain(many_reductions::TESTS)
        .chain(numbers_of_rows::TESTS)
        .chain(scatter_add::TESTS)
        .chain(attention::TESTS)
        .chain(stencils::TESTS)
        .chain(wide_indices::TESTS)
    {
        trials.push(Trial::test(name, test));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
