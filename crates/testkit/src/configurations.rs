//! The configurations of the scenarios: the simulated device under every schedule and every reading
//! of the disputed rules, or a GPU.

use std::{env, ops::Range};

use millstream::sim::{Gpu, Reading, Rules, Schedule, SimConfig};

pub use crate::sizes::Sizes;
use crate::{readings::rules, share};

/// The number of random seeds per scenario: four for each combination of the readings of four
/// rules, of which a day has one.
const SEEDS: u64 = 64;
/// The number of further seeds with the strict reading of rule 29 (allocations, fills and copies
/// are barriers): one for each of those combinations.
const SEEDS_WITHOUT_GATES: u64 = 16;

/// A device to run a scenario on, and a name for failure messages.
pub struct Configuration {
    pub name: String,
    /// The simulated GPU; `None` stands for the GPU that the environment selects.
    pub gpu: Option<Gpu>,
    /// Set if a gate holds its own stream and no other.
    ///
    /// By the strict reading of rule 29, an allocation made while one stream is held would block
    /// all streams. Gates hold nothing then; values, order and reports are still checked.
    pub gates_hold: bool,
    /// The cache limit for dropped arrays, in bytes; `None` for the device's default.
    pub cache_bytes: Option<u64>,
    /// The chunk sizes of its copies and, where they are tiny, its cache limit.
    pub sizes: Sizes,
}

/// Returns the number of devices of a simulated GPU: 2, or the number in `MILLSTREAM_TEST_DEVICES`,
/// which `cargo xtask devices` sets.
pub fn devices() -> u32 {
    let number = env::var("MILLSTREAM_TEST_DEVICES").ok();
    number.map_or(2, |number| number.parse().expect("a number of devices"))
}

/// Returns the schedules, the random ones with these seeds.
pub fn schedules(seeds: Range<u64>) -> impl Iterator<Item = Schedule> {
    let others = [Schedule::Timed, Schedule::Eager, Schedule::Lazy];
    others.into_iter().chain(seeds.map(Schedule::Random))
}

/// Returns whether the environment selects a GPU.
pub fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}

/// Returns every configuration: all schedules and rules, each with a new simulated GPU, or the one
/// GPU that the environment selects.
pub fn configurations() -> Vec<Configuration> {
    if on_gpu() {
        let name = String::from("the GPU");
        return vec![Configuration {
            name,
            gpu: None,
            gates_hold: true,
            cache_bytes: None,
            sizes: Sizes::Own,
        }];
    }
    all_simulated(&|config| config)
}

/// Returns all schedules and rules, each with a new simulated GPU, whose settings `change` may
/// change.
pub fn all_simulated(change: &dyn Fn(SimConfig) -> SimConfig) -> Vec<Configuration> {
    let simulated = |schedule, rules| simulated(schedule, rules, change);
    let mut configurations = Vec::new();
    for schedule in [Schedule::Timed, Schedule::Eager, Schedule::Lazy] {
        for choice in [0b0_0000, 0b0_1111, 0b1_0000, 0b1_1111] {
            configurations.push(simulated(schedule, rules(choice)));
        }
    }
    // A day's seeds combine the readings in every way.
    for seed in (0..SEEDS).filter(|seed| share::has(seed / 16, SEEDS / 16)) {
        configurations.push(simulated(Schedule::Random(seed), rules(seed % 16)));
    }
    for seed in SEEDS..SEEDS + SEEDS_WITHOUT_GATES {
        configurations.push(simulated(Schedule::Random(seed), rules(16 + seed % 16)));
    }
    for (number, configuration) in configurations.iter_mut().enumerate() {
        // Five is coprime to the numbers of readings and of cache limits, so each size meets each
        // reading of each rule.
        let drawn = match number % 5 {
            1 => Sizes::Odd,
            3 => Sizes::tiny(number),
            _ => Sizes::Own,
        };
        configuration.sizes = Sizes::asked(number).unwrap_or(drawn);
        let (name, sizes) = (&configuration.name, configuration.sizes);
        configuration.name = format!("{name}, {sizes}, {}={}", share::DAY, share::day());
    }
    configurations
}

fn simulated(
    schedule: Schedule,
    rules: Rules,
    change: &dyn Fn(SimConfig) -> SimConfig,
) -> Configuration {
    let cache_bytes = match schedule {
        Schedule::Random(seed) => [None, Some(64 << 10), Some(0)][seed as usize % 3],
        _ => None,
    };
    let config = SimConfig::new()
        .devices(devices())
        .schedule(schedule)
        .rules(rules);
    Configuration {
        name: format!("{schedule:?}, {rules:?}, cache of {cache_bytes:?}"),
        gpu: Some(Gpu::new(change(config))),
        gates_hold: rules.implicit_synchronisation == Reading::Observed,
        cache_bytes,
        sizes: Sizes::Own,
    }
}
