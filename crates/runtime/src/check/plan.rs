//! What a check runs: a list of schedules, or what the environment names.

use std::env;

use millstream_sim::{Schedule, SimConfig};

/// The environment variable that names the one run to be made.
pub(super) const VARIABLE: &str = "MILLSTREAM_CHECK";

/// What the environment names, if it names anything.
pub(super) fn named_by_environment() -> Option<String> {
    let value = env::var_os(VARIABLE)?;
    let value = value.to_string_lossy();
    (!value.is_empty()).then(|| value.into_owned())
}

/// `base` with what the environment names.
pub(super) fn configured(base: &SimConfig, options: &str) -> SimConfig {
    match base.clone().with_options(options) {
        Ok(config) => config,
        Err(error) => panic!("{VARIABLE}: {error}"),
    }
}

/// The fixed ones, and so many seeds of the others.
pub(super) fn schedules(fixed: &[Schedule], random: u64, pct: (u64, u32)) -> impl Iterator<Item = Schedule> {
    let (seeds, depth) = pct;
    fixed
        .iter()
        .copied()
        .chain((0..random).map(Schedule::Random))
        .chain((0..seeds).map(move |seed| Schedule::Pct { seed, depth }))
}
