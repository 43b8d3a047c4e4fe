//! Random kernels with races, compared with the axioms of the PTX memory model.
//!
//! A kernel is straight-line code: steps of one thread or of all threads, with barriers and fences
//! between them. Two blocks of two warps of two threads run it.

mod model;
mod steps;
mod wide;

use std::ops::Range;

use millstream_sim::Severity;
use millstream_sim::exec::{Launch, RaceModel, RacedMemory, run_checked_by};
use millstream_sim::ptx;
use millstream_testkit::share;

use crate::kernels::memory::{DeviceMemory, params, values};
use model::{Model, ModelReading};
use steps::{KernelGenerator, text};

const KERNELS: u64 = 1000;
const STEPS_MAX: usize = 14;
const BLOCKS: usize = 2;
/// The active threads of a block; the others exit at once.
const THREADS: [u32; 4] = [0, 1, 32, 33];
/// The size of each memory: two words.
const BYTES: usize = 8;

/// The worst severity of the races for each byte of a memory.
type Severities<'a> = &'a [Option<Severity>];

/// Asserts that the race check reports races for the bytes in `required` and for no others than
/// those in `expected`, in global and in shared memory: of each byte, one as severe, and none more
/// severe than its bytes.
fn assert_found(
    text: &str,
    model: RaceModel,
    required: [Severities<'_>; 2],
    expected: [Severities<'_>; 2],
) {
    let module = ptx::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = module.kernel("k").unwrap();
    let mut memory = DeviceMemory::default();
    let array = memory.put(&vec![0u8; expected[0].len()]);
    let params = params(kernel, &values![array]);
    let launch = Launch {
        params: &params,
        ..Launch::new([BLOCKS as u32, 1, 1], [64, 1, 1])
    };
    let (ran, races) = run_checked_by(kernel, &launch, &memory, model);
    ran.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let mut found = expected.map(|bytes| vec![None; bytes.len()]);
    for race in races {
        let shared = usize::from(matches!(race.memory, RacedMemory::Shared { .. }));
        let bytes = race.ranges.iter().cloned().flatten();
        let of_bytes: Vec<_> = bytes.map(|byte| expected[shared][byte as usize]).collect();
        let severity = Some(race.class.severity());
        let worst = of_bytes.iter().copied().max().flatten();
        assert!(severity <= worst, "{race:#?}\n{expected:?}\n{text}");
        for byte in race.ranges.iter().cloned().flatten() {
            let known = &mut found[shared][byte as usize];
            // The severity of the race is that of its worst byte.
            *known = (*known).max(severity.min(expected[shared][byte as usize]));
            assert!(known.is_some(), "{race:#?}\n{expected:?}\n{text}");
        }
    }
    let lacks = |memory: usize| {
        let mut bytes = found[memory].iter().zip(required[memory]);
        bytes.any(|(found, required)| found < required)
    };
    assert!(!(0..2).any(lacks), "{found:?}\n{required:?}\n{text}");
}

/// Compares kernels with the model; counts those without races, with notes, with warnings, and with
/// errors.
fn compare(by: ModelReading, generator: KernelGenerator, seeds: Range<u64>) -> [u64; 4] {
    let mut counts = [0; 4];
    for seed in seeds {
        let steps = KernelGenerator {
            state: seed,
            ..generator
        }
        .steps();
        let mut model = Model::new(by);
        for block in 0..BLOCKS {
            model.run(block, &steps);
        }
        let [required, expected] = model.races();
        let model = RaceModel::new()
            .lenient_acquire(by.lenient)
            .strong_volatile(by.strong_volatile);
        assert_found(
            &text(&steps),
            model,
            required.0.each_ref().map(|of| &of[..]),
            expected.0.each_ref().map(|of| &of[..]),
        );
        let worst = expected.0.iter().flatten().max().copied().flatten();
        counts[worst.map_or(0, |severity| severity as usize + 1)] += 1;
    }
    counts
}

const READINGS: [ModelReading; 3] = [
    ModelReading {
        lenient: false,
        strong_volatile: false,
    },
    ModelReading {
        lenient: true,
        strong_volatile: false,
    },
    ModelReading {
        lenient: false,
        strong_volatile: true,
    },
];

/// Asserts that many of the kernels are clean, and many have errors, in every reading of the model.
fn assert_mixed(generator: KernelGenerator) {
    for by in READINGS {
        let [clean, _, warnings, errors] = compare(by, generator, 0..KERNELS);
        assert!(
            clean > KERNELS / 20 && errors > KERNELS / 20,
            "{clean}, {errors}"
        );
        assert_eq!(warnings == 0, by.strong_volatile);
    }
}

#[test]
fn random_kernels_race_where_the_model_says_and_nowhere_else() {
    assert_mixed(KernelGenerator::default());
}

#[test]
fn random_hand_overs_race_where_the_model_says_and_nowhere_else() {
    assert_mixed(KernelGenerator {
        hands_over: true,
        ..KernelGenerator::default()
    });
}

#[test]
fn random_tickets_race_where_the_model_says_and_nowhere_else() {
    assert_mixed(KernelGenerator {
        tickets: true,
        ..KernelGenerator::default()
    });
}

/// The first seed that the tests above do not use.
const FIRST: u64 = 1 << 32;

#[test]
fn random_kernels_of_the_day_race_where_the_model_says_and_nowhere_else() {
    let numbers = share::numbers(100, 12_000);
    for draw in 0..3 {
        let generator = KernelGenerator {
            hands_over: draw == 1,
            tickets: draw == 2,
            ..KernelGenerator::default()
        };
        for by in READINGS {
            compare(by, generator, FIRST + numbers.start..FIRST + numbers.end);
        }
    }
}

#[test]
fn random_kernels_that_mostly_write_one_value_are_graded_as_the_model_says() {
    let generator = KernelGenerator {
        alike: true,
        ..KernelGenerator::default()
    };
    let [clean, notes, warnings, errors] = compare(ModelReading::default(), generator, 0..KERNELS);
    assert!(
        clean.min(notes).min(errors) > KERNELS / 10 && warnings > 0,
        "{clean}, {notes}, {warnings}, {errors}"
    );
}
