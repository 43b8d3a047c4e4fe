//! The share of long suites that tests run on one day, which differs from day to day.
//!
//! `MILLSTREAM_DAY=n` runs the share of another day, counted from 1970; what fails names the day.
//! `MILLSTREAM_WHOLE=1` runs the whole suites, as `cargo xtask whole` does.

use std::{
    env,
    ops::Range,
    time::{Duration, SystemTime},
};

/// The variable that chooses the day.
pub const DAY: &str = "MILLSTREAM_DAY";

/// Returns the number of the day: of today, or the one in the environment.
pub fn day() -> u64 {
    if let Ok(text) = env::var(DAY) {
        return text
            .parse()
            .unwrap_or_else(|_| panic!("{DAY}: `{text}` is no number"));
    }
    const SECONDS: u64 = 24 * 60 * 60;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs() / SECONDS
}

/// Returns whether the whole suites run.
pub fn is_whole() -> bool {
    env::var_os("MILLSTREAM_WHOLE").is_some()
}

/// Returns the numbers of the random programs to run: `share` that no other day has, or the first
/// `whole`.
pub fn numbers(share: u64, whole: u64) -> Range<u64> {
    if is_whole() {
        return 0..whole;
    }
    let first = day() * share;
    first..first + share
}

/// Returns whether a case of a suite runs: one of `parts` successive ones does on each day.
pub fn has(number: u64, parts: u64) -> bool {
    is_whole() || number % parts == day() % parts
}

/// Returns the cases of a list that run: one of `parts` successive ones does on each day.
pub fn cases<T>(all: impl IntoIterator<Item = T>, parts: u64) -> impl Iterator<Item = T> {
    let numbered = (0..).zip(all);
    numbered.filter_map(move |(number, case)| has(number, parts).then_some(case))
}
