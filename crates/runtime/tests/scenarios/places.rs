//! Where the scenarios run: the simulated device under every schedule and every reading of the disputed rules, or a GPU.

#[path = "readings.rs"]
mod readings;

use std::env;

use millstream::{
    Device, Tuning,
    sim::{Gpu, Reading, Rules, Schedule, SimConfig},
};

use readings::rules;

/// How many seeds of the random schedule each scenario runs under: four for each choice of the readings of four rules.
const SEEDS: u64 = 64;
/// How many seeds more with the strict reading of rule 29: one for each of those choices.
const SEEDS_WITHOUT_GATES: u64 = 16;

/// One device to run a scenario on, and what to call it when something fails there.
pub(crate) struct Place {
    pub(crate) name: String,
    /// The simulated GPU; none stands for the GPU that the environment names.
    pub(crate) gpu: Option<Gpu>,
    /// Whether a gate keeps its own stream busy and no other.
    ///
    /// By the strict reading of rule 29, memory made while one stream is held would hold all streams. Gates keep nothing
    /// busy then; values, order and reports are the same.
    pub(crate) gates_hold: bool,
    /// How much memory of dropped arrays the device keeps; `None` for what it keeps by itself.
    pub(crate) cache_bytes: Option<u64>,
    /// Whether copies of pageable memory are cut so small that those of the scenarios have many pieces.
    pub(crate) cut_small: bool,
}

/// Cuts copies of pageable memory so small that those of a few KiB have many pieces, whose ends lie anywhere, in parts
/// that four threads take.
pub(crate) fn cut_small(device: &Device) {
    let tuning = Tuning {
        piece_bytes: 4093,
        part_bytes: 500,
        alone_bytes: 700,
        threads: 4,
        small_bytes: 300,
        section_bytes: 1024,
        captured_bytes: 1000,
        upload_past_caches: true,
        download_past_caches: true,
    };
    assert!(device.set_tuning(tuning), "nothing was copied yet");
}

/// Whether the environment asks for a GPU.
pub(crate) fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}

/// Every place: all schedules and rules, each with a new simulated GPU; or the one GPU that the environment names.
pub(crate) fn places() -> Vec<Place> {
    if on_gpu() {
        let name = String::from("the GPU");
        return vec![Place {
            name,
            gpu: None,
            gates_hold: true,
            cache_bytes: None,
            cut_small: false,
        }];
    }
    let mut places = Vec::new();
    for schedule in [Schedule::Timed, Schedule::Eager, Schedule::Lazy] {
        for choice in [0b0_0000, 0b0_1111, 0b1_0000, 0b1_1111] {
            places.push(simulated(schedule, rules(choice)));
        }
    }
    for seed in 0..SEEDS {
        places.push(simulated(Schedule::Random(seed), rules(seed % 16)));
    }
    for seed in SEEDS..SEEDS + SEEDS_WITHOUT_GATES {
        places.push(simulated(Schedule::Random(seed), rules(16 + seed % 16)));
    }
    // A few are enough: what is cut has nothing to do with the readings of the rules.
    for place in places.iter_mut().skip(1).step_by(8) {
        place.cut_small = true;
        place.name.push_str(", copies cut small");
    }
    places
}

fn simulated(schedule: Schedule, rules: Rules) -> Place {
    let cache_bytes = match schedule {
        Schedule::Random(seed) => [None, Some(64 << 10), Some(0)][seed as usize % 3],
        _ => None,
    };
    Place {
        name: format!("{schedule:?}, {rules:?}, cache of {cache_bytes:?}"),
        gpu: Some(Gpu::new(
            SimConfig::new().devices(2).schedule(schedule).rules(rules),
        )),
        gates_hold: rules.implicit_synchronisation == Reading::Observed,
        cache_bytes,
        cut_small: false,
    }
}

#[test]
fn both_readings_of_every_rule_are_met_under_every_kind_of_schedule() {
    if on_gpu() {
        return;
    }
    assert_eq!((rules(0), rules(0b1_1111)), (Rules::observed(), Rules::strict()));
    let is_random = |place: &&Place| place.name.starts_with("Random");
    let random: Vec<_> = places()
        .iter()
        .filter(is_random)
        .map(|place| place.name.clone())
        .collect();
    for choice in 0..32 {
        let rules = format!("{:?}", rules(choice));
        assert!(random.iter().any(|name| name.contains(&rules)), "{rules}");
    }
    let fixed = places().iter().filter(|place| !is_random(place)).count();
    assert_eq!((fixed, random.len()), (12, 80));
}
