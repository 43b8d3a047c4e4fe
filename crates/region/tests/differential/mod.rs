//! Differential tests: random programs on a device against `ndarray` on the host, with single
//! operations and with many.
//!
//! Results with a unique right answer must be equal to the bit, with all NaNs considered equal:
//! arithmetic, comparisons, casts, integers, views, and sums and products that are exact in any
//! order. `accuracy.rs` checks rounded results against bounds.
//!
//! A failure prints the seed, the configuration and the program. `MILLSTREAM_SEED=n` runs that
//! program alone, in every configuration; `MILLSTREAM_PROGRAMS=n` sets the number of programs of
//! each kind, which differ from day to day (`share.rs` in the crate of the tests' helpers). With
//! `MILLSTREAM_DEVICE=cuda:0` all run on a GPU.

mod accuracy;
mod attention;
mod attention_case;
mod configurations;
mod counting;
mod device;
mod einsum;
mod generator;
mod half_floats;
mod host;
mod host_arranging;
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
pub(crate) mod order;
mod other_operations;
mod other_process;
mod packed;
mod parameters;
mod prelude;
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

use std::{env, error::Error, ops::Range};

use millstream_region::RegionExt;
use millstream_testkit::share;

use crate::evaluate;

use self::configurations::{Configuration, configuration, configurations};
use self::program::{Program, STEP_KINDS, Size, program};
use self::value::{Back, Dev, Given};

pub(crate) type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The numbers of random programs of a day and of the whole suite.
const PROGRAMS: (u64, u64) = (400, 2000);
/// The same of programs of each kind of step.
const SINGLES: (u64, u64) = (10, 40);
/// The same of programs over long arrays.
const LONGS: (u64, u64) = (24, 96);
/// The number of tests over which the random programs are spread, so that several run at once.
const SHARDS: u64 = 8;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|value| value.parse().ok())
}

fn seeds((share, whole): (u64, u64)) -> Range<u64> {
    let share = number("MILLSTREAM_PROGRAMS").unwrap_or(share);
    share::numbers(share, whole)
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
    configuration.close(device)
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

/// Runs the programs of a shard, or the one that the environment selects.
fn run_shard(shard: u64, all: (u64, u64), size: impl Fn(u64) -> Size) -> Outcome {
    if let Some(seed) = number("MILLSTREAM_SEED") {
        return if shard == 0 {
            check(seed, size(seed), true)
        } else {
            Ok(())
        };
    }
    let mut of_shard = seeds(all).filter(|seed| seed % SHARDS == shard);
    of_shard.try_for_each(|seed| check(seed, size(seed), false))
}

fn random(shard: u64) -> Outcome {
    run_shard(shard, PROGRAMS, |seed| Size {
        steps: 3 + (seed % 13) as usize,
        is_long: false,
        only: None,
    })
}

fn long(shard: u64) -> Outcome {
    run_shard(shard, LONGS, |seed| Size {
        steps: 2 + (seed % 4) as usize,
        is_long: true,
        only: None,
    })
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
    seeds(SINGLES).try_for_each(|seed| check(seed, size, false))
}

/// Declares a test for each number of a function.
macro_rules! parts {
    ($($run:ident: $($name:ident = $number:literal,)*;)*) => {$($(
        #[test]
        fn $name() -> Outcome {
            $run($number)
        }
    )*)*};
}

parts! {
    random:
        random_programs_0 = 0, random_programs_1 = 1, random_programs_2 = 2, random_programs_3 = 3,
        random_programs_4 = 4, random_programs_5 = 5, random_programs_6 = 6, random_programs_7 = 7,;
    long:
        long_arrays_0 = 0, long_arrays_1 = 1, long_arrays_2 = 2, long_arrays_3 = 3,
        long_arrays_4 = 4, long_arrays_5 = 5, long_arrays_6 = 6, long_arrays_7 = 7,;
    single:
        single_operations_0 = 0, single_operations_1 = 1, single_operations_2 = 2,
        single_operations_3 = 3, single_operations_4 = 4, single_operations_5 = 5,
        single_operations_6 = 6, single_operations_7 = 7, single_operations_8 = 8,
        single_operations_9 = 9, single_operations_10 = 10, single_operations_11 = 11,
        single_operations_12 = 12, single_operations_13 = 13, single_operations_14 = 14,
        single_operations_15 = 15, single_operations_16 = 16, single_operations_17 = 17,
        single_operations_18 = 18, single_operations_19 = 19, single_operations_20 = 20,
        single_operations_21 = 21, single_operations_22 = 22, single_operations_23 = 23,
        single_operations_24 = 24, single_operations_25 = 25, single_operations_26 = 26,
        single_operations_27 = 27, single_operations_28 = 28,;
}

const _: () = assert!(STEP_KINDS == 29, "a test for each kind");
