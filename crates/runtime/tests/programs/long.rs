//! The open-ended run of random programs that `cargo xtask programs` starts.

use std::{
    env,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::programs::{case::Kind, suite::run_all};

/// Reads a setting from the environment; `otherwise` is the default.
fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    match env::var(name) {
        Err(_) => otherwise,
        Ok(text) => match text.parse() {
            Ok(value) => value,
            Err(_) => panic!("{name}: `{text}` is no such value"),
        },
    }
}

/// Runs programs from a given number on until the count or the time is reached; every second one
/// has failing driver calls if those are enabled.
#[test]
#[ignore = "as long as one likes; `cargo xtask programs` runs it"]
fn open_ended_random_programs() {
    let count = setting("MILLSTREAM_PROGRAMS_COUNT", u64::MAX);
    let limit = Duration::from_secs(setting("MILLSTREAM_PROGRAMS_SECONDS", 60));
    let first: u64 = setting("MILLSTREAM_PROGRAMS_SEED", 1_000_000);
    let with_faults: bool = setting("MILLSTREAM_PROGRAMS_FAULTS", false);
    let (drawn, finished) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    let next = || {
        let number = drawn.fetch_add(1, Ordering::Relaxed);
        let is_over = number >= count || started.elapsed() > limit;
        let kind = match number % 3 {
            0 => Kind::Graphs,
            1 if with_faults => Kind::Faults,
            _ => Kind::Plain,
        };
        (!is_over).then_some((first.wrapping_add(number), kind))
    };
    run_all(next, || {
        let finished = finished.fetch_add(1, Ordering::Relaxed) + 1;
        if finished.is_multiple_of(100) {
            println!("{finished} programs in {:.0?}", started.elapsed());
        }
    });
    println!(
        "{} programs from {first} on in {:.0?}",
        finished.into_inner(),
        started.elapsed()
    );
}
