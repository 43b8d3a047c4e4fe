//! Where the scenarios run: the simulated device under every schedule and every reading of the
//! disputed rules, or a GPU.

#[path = "readings.rs"]
mod readings;
#[path = "sizes.rs"]
mod sizes;

use std::env;

use millstream::sim::{Gpu, Reading, Rules, Schedule, SimConfig};

use readings::rules;
pub(crate) use sizes::Sizes;

/// How many seeds of the random schedule each scenario runs under: four for each choice of the
/// readings of four rules.
const SEEDS: u64 = 64;
/// How many seeds more with the strict reading of rule 29: one for each of those choices.
const SEEDS_WITHOUT_GATES: u64 = 16;

/// One device to run a scenario on, and what to call it when something fails there.
pub(crate) struct Configuration {
    pub(crate) name: String,
    /// The simulated GPU; none stands for the GPU that the environment names.
    pub(crate) gpu: Option<Gpu>,
    /// Whether a gate keeps its own stream busy and no other.
    ///
    /// By the strict reading of rule 29, memory made while one stream is held would hold all
    /// streams. Gates keep nothing busy then; values, order and reports are the same.
    pub(crate) gates_hold: bool,
    /// How much memory of dropped arrays the device keeps; `None` for what it keeps by itself.
    pub(crate) cache_bytes: Option<u64>,
    /// In what sizes it copies, and where they are tiny, how much it keeps.
    pub(crate) sizes: Sizes,
}

/// Whether the environment asks for a GPU.
pub(crate) fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}

/// Every place: all schedules and rules, each with a new simulated GPU; or the one GPU that the
/// environment names.
pub(crate) fn configurations() -> Vec<Configuration> {
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
    all_simulated()
}

/// All schedules and rules, each with a new simulated GPU.
fn all_simulated() -> Vec<Configuration> {
    let mut configurations = Vec::new();
    for schedule in [Schedule::Timed, Schedule::Eager, Schedule::Lazy] {
        for choice in [0b0_0000, 0b0_1111, 0b1_0000, 0b1_1111] {
            configurations.push(simulated(schedule, rules(choice)));
        }
    }
    for seed in 0..SEEDS {
        configurations.push(simulated(Schedule::Random(seed), rules(seed % 16)));
    }
    for seed in SEEDS..SEEDS + SEEDS_WITHOUT_GATES {
        configurations.push(simulated(Schedule::Random(seed), rules(16 + seed % 16)));
    }
    for (number, configuration) in configurations.iter_mut().enumerate() {
        // Five has no factor in common with the numbers of readings and of caches, so each reading
        // of each rule is met.
        let drawn = match number % 5 {
            1 => Sizes::Odd,
            3 => Sizes::tiny(number),
            _ => Sizes::Own,
        };
        configuration.sizes = Sizes::asked(number).unwrap_or(drawn);
        configuration.name = format!("{}, {}", configuration.name, configuration.sizes);
    }
    configurations
}

fn simulated(schedule: Schedule, rules: Rules) -> Configuration {
    let cache_bytes = match schedule {
        Schedule::Random(seed) => [None, Some(64 << 10), Some(0)][seed as usize % 3],
        _ => None,
    };
    Configuration {
        name: format!("{schedule:?}, {rules:?}, cache of {cache_bytes:?}"),
        gpu: Some(Gpu::new(
            SimConfig::new().devices(2).schedule(schedule).rules(rules),
        )),
        gates_hold: rules.implicit_synchronisation == Reading::Observed,
        cache_bytes,
        sizes: Sizes::Own,
    }
}

#[test]
fn both_readings_of_every_rule_are_met_under_every_kind_of_schedule() {
    assert_eq!(
        (rules(0), rules(0b1_1111)),
        (Rules::observed(), Rules::strict())
    );
    let is_random = |configuration: &&Configuration| configuration.name.starts_with("Random");
    let random: Vec<_> = all_simulated()
        .iter()
        .filter(is_random)
        .map(|configuration| configuration.name.clone())
        .collect();
    for choice in 0..32 {
        let rules = format!("{:?}", rules(choice));
        assert!(random.iter().any(|name| name.contains(&rules)), "{rules}");
    }
    let tiny: Vec<_> = all_simulated()
        .into_iter()
        .filter(|configuration| matches!(configuration.sizes, Sizes::Tiny { .. }))
        .collect();
    for threads in [1, 4] {
        let sizes = Sizes::Tiny { threads };
        let of = |bounded: bool| {
            move |configuration: &&Configuration| {
                configuration.sizes == sizes && configuration.gates_hold != bounded
            }
        };
        assert!(
            tiny.iter().any(|configuration| of(true)(&configuration))
                && tiny.iter().any(|configuration| of(false)(&configuration))
        );
    }
    let fixed = all_simulated()
        .iter()
        .filter(|configuration| !is_random(configuration))
        .count();
    assert_eq!((fixed, random.len()), (12, 80));
}
