//! Programs under every schedule, compared with their expected reports.

use std::{env, fs, path::Path};

use millstream_sim::{Rules, Schedule, SimConfig};

use crate::races::sim_harness::SimHarness;

const SCHEDULES: [Schedule; 8] = [
    Schedule::Timed,
    Schedule::Eager,
    Schedule::Lazy,
    Schedule::Random(1),
    Schedule::Random(2),
    Schedule::Random(3),
    Schedule::Random(4),
    Schedule::Random(5),
];

/// Runs a program once under every schedule and reading of the disputed rules, and returns the
/// report of each run with the run's name.
fn findings(config: &SimConfig, program: impl Fn(&SimHarness)) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for rules in [Rules::observed(), Rules::strict()] {
        for schedule in SCHEDULES {
            let sim = SimHarness::new(config.clone().schedule(schedule).rules(rules));
            program(&sim);
            // All operations must have run. In a lost context the call fails, and none is left.
            let _ = sim.context_synchronize();
            let texts: Vec<_> = sim.gpu.findings().iter().map(ToString::to_string).collect();
            let text = texts.iter().map(|text| format!("{text}\n")).collect();
            found.push((format!("{schedule:?}, {rules:?}"), text));
        }
    }
    found
}

/// Asserts that a program's findings equal those of the file `name`.
pub(crate) fn expect(name: &str, program: impl Fn(&SimHarness)) {
    expect_with(SimConfig::new(), name, program);
}

/// Asserts that a program's findings under a configuration equal those of the file `name`.
pub(crate) fn expect_with(config: SimConfig, name: &str, program: impl Fn(&SimHarness)) {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join(format!("tests/races/expected/{name}.txt"));
    let found = findings(&config, program);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &found[0].1).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    for (place, text) in found {
        assert!(!text.is_empty(), "{name}: no findings under {place}");
        assert_eq!(text, expected, "{name}, under {place}");
    }
}

/// Asserts that a program has no findings and no reports.
pub(crate) fn clean(program: impl Fn(&SimHarness)) {
    clean_with(SimConfig::new(), program);
}

/// Asserts that a program has no findings and no reports under a configuration.
pub(crate) fn clean_with(config: SimConfig, program: impl Fn(&SimHarness)) {
    for (place, text) in findings(&config, |sim| {
        program(sim);
        sim.context_synchronize().unwrap();
        sim.assert_clean();
    }) {
        assert_eq!(text, "", "under {place}");
    }
}
