//! What the configurations of the scenarios cover.

use millstream::sim::Rules;
use millstream_testkit::{
    configurations::{Configuration, all_simulated},
    readings::rules,
    share,
    sizes::Sizes,
};

#[test]
fn configurations_cover_both_readings_of_every_rule_under_every_kind_of_schedule() {
    assert_eq!(
        (rules(0), rules(0b1_1111)),
        (Rules::observed(), Rules::strict())
    );
    let is_random = |configuration: &&Configuration| configuration.name.starts_with("Random");
    let random: Vec<_> = all_simulated(&|config| config)
        .iter()
        .filter(is_random)
        .map(|configuration| configuration.name.clone())
        .collect();
    for choice in 0..32 {
        let rules = format!("{:?}", rules(choice));
        assert!(random.iter().any(|name| name.contains(&rules)), "{rules}");
    }
    let tiny: Vec<_> = all_simulated(&|config| config)
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
    let fixed = all_simulated(&|config| config)
        .iter()
        .filter(|configuration| !is_random(configuration))
        .count();
    let seeds = if share::is_whole() { 80 } else { 32 };
    assert_eq!((fixed, random.len()), (12, seeds));
}
