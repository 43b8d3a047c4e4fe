//! Random kernels with races, compared with a brute-force model of the PTX memory model.
//!
//! A kernel is straight-line code: steps of one thread or of all threads, with barriers and fences
//! between them. Two blocks of two warps of two threads run it.

mod model;
mod steps;

use millstream_sim::exec::{Launch, RaceModel, RacedMemory, run_checked_by};
use millstream_sim::ptx;

use crate::memory::{DeviceMemory, Value, params};
use model::{Model, RaceSeverities};
use steps::{KernelGenerator, Step, text};

const KERNELS: u64 = 2000;
const STEPS_MAX: usize = 14;
const BLOCKS: usize = 2;
/// The active threads of a block; the others exit at once.
const THREADS: [u32; 4] = [0, 1, 32, 33];
/// The size of each memory: two words.
const BYTES: usize = 8;

/// Returns the bytes on which the race check reports races. Asserts that each race has the worst
/// severity of its bytes in `expected`.
fn found(steps: &[Step], by: RaceModel, expected: &RaceSeverities) -> [[bool; BYTES]; 2] {
    let text = text(steps);
    let module = ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = module.kernel("k").unwrap();
    let mut memory = DeviceMemory::default();
    let array = memory.put(&[0u8; BYTES]);
    let params = params(kernel, &[array.bytes()]);
    let launch = Launch {
        params: &params,
        ..Launch::new([BLOCKS as u32, 1, 1], [64, 1, 1])
    };
    let (ran, races) = run_checked_by(kernel, &launch, &memory, by);
    ran.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let mut found = [[false; BYTES]; 2];
    for race in races {
        let shared = usize::from(matches!(race.memory, RacedMemory::Shared { .. }));
        let mut worst = None;
        for byte in race.ranges.iter().cloned().flatten() {
            found[shared][byte as usize] = true;
            worst = worst.max(expected.0[shared][byte as usize]);
        }
        assert_eq!(
            Some(race.class.severity()),
            worst,
            "{race:#?}\n{expected:?}\n{text}"
        );
    }
    found
}

/// Compares kernels with the model; counts those without races, with notes, and with errors.
fn compare(lenient: bool, generator: KernelGenerator) -> [u64; 3] {
    let by = RaceModel::new().lenient_acquire(lenient);
    let mut counts = [0; 3];
    for seed in 0..KERNELS {
        let steps = KernelGenerator {
            state: seed,
            ..generator
        }
        .steps();
        let mut model = Model::new(lenient);
        for block in 0..BLOCKS {
            model.run(block, &steps);
        }
        let expected = model.races();
        let bytes = expected
            .0
            .map(|bytes| bytes.map(|severity| severity.is_some()));
        assert_eq!(
            found(&steps, by, &expected),
            bytes,
            "kernel {seed}: {steps:#?}\n{}",
            text(&steps)
        );
        let worst = expected.0.iter().flatten().max().copied().flatten();
        counts[worst.map_or(0, |severity| severity as usize + 1)] += 1;
    }
    counts
}

/// Asserts that many of the kernels are clean, and many have errors.
fn assert_mixed(lenient: bool, generator: KernelGenerator) {
    let [clean, _, errors] = compare(lenient, generator);
    assert!(
        clean > KERNELS / 10 && errors > KERNELS / 10,
        "{clean}, {errors}"
    );
}

#[test]
fn random_kernels_race_where_the_model_says_and_nowhere_else() {
    assert_mixed(false, KernelGenerator::default());
}

#[test]
fn random_kernels_race_where_the_lenient_model_says_and_nowhere_else() {
    assert_mixed(true, KernelGenerator::default());
}

#[test]
fn random_hand_overs_race_where_the_model_says_and_nowhere_else() {
    for lenient in [false, true] {
        let generator = KernelGenerator {
            hands_over: true,
            ..KernelGenerator::default()
        };
        assert_mixed(lenient, generator);
    }
}

#[test]
fn random_kernels_that_mostly_write_one_value_are_graded_as_the_model_says() {
    let generator = KernelGenerator {
        alike: true,
        ..KernelGenerator::default()
    };
    let counts = compare(false, generator);
    assert!(
        counts.iter().all(|count| *count > KERNELS / 10),
        "{counts:?}"
    );
}
