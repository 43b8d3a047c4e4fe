//! Programs under every schedule, compared with what is expected of them.

use std::{env, fs, path::Path};

use millstream_sim::{Rules, Schedule, SimConfig};

use crate::sim_harness::SimHarness;

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

/// Runs a program once under every schedule and reading of the disputed rules; gives what was
/// found, each the same way.
fn findings(config: &SimConfig, program: impl Fn(&SimHarness)) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for rules in [Rules::observed(), Rules::strict()] {
        for schedule in SCHEDULES {
            let sim = SimHarness::new(config.clone().schedule(schedule).rules(rules));
            program(&sim);
            // All has to have run. A context that was lost says so, and has nothing left to run.
            let _ = sim.context_synchronize();
            let texts: Vec<_> = sim.gpu.findings().iter().map(ToString::to_string).collect();
            let text = texts.iter().map(|text| format!("{text}\n")).collect();
            found.push((format!("{schedule:?}, {rules:?}"), text));
        }
    }
    found
}

/// Asserts that what is found in a program is what the file `name` says.
pub(crate) fn expect(name: &str, program: impl Fn(&SimHarness)) {
    expect_with(SimConfig::new(), name, program);
}

/// The same for a configuration.
pub(crate) fn expect_with(config: SimConfig, name: &str, program: impl Fn(&SimHarness)) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/races/expected/{name}.txt"));
    let found = findings(&config, program);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &found[0].1).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    for (place, text) in found {
        assert!(!text.is_empty(), "{name}: nothing is found under {place}");
        assert_eq!(text, expected, "{name}, under {place}");
    }
}

/// Asserts that nothing is found in a program, by the checker or otherwise.
pub(crate) fn clean(program: impl Fn(&SimHarness)) {
    clean_with(SimConfig::new(), program);
}

/// The same for a configuration.
pub(crate) fn clean_with(config: SimConfig, program: impl Fn(&SimHarness)) {
    for (place, text) in findings(&config, |sim| {
        program(sim);
        sim.context_synchronize().unwrap();
        sim.assert_clean();
    }) {
        assert_eq!(text, "", "under {place}");
    }
}
