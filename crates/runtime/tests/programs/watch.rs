//! A watchdog that ends the process when a run hangs, and prints the run's name.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The time after which a run counts as hung. Runs take milliseconds.
const HUNG_AFTER: Duration = Duration::from_secs(120);

type Runs = BTreeMap<u64, (String, Instant)>;

static RUNS: Mutex<(u64, Runs)> = Mutex::new((0, BTreeMap::new()));
static WATCHING: Once = Once::new();

/// A registration with the watchdog, removed on drop.
pub(crate) struct Watched(u64);

fn runs() -> MutexGuard<'static, (u64, Runs)> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn over(name: String) -> Watched {
    WATCHING.call_once(|| {
        thread::spawn(watch);
    });
    let (next, runs) = &mut *runs();
    *next += 1;
    runs.insert(*next, (name, Instant::now()));
    Watched(*next)
}

fn watch() {
    loop {
        thread::sleep(Duration::from_secs(1));
        if let Some((name, _)) = runs()
            .1
            .values()
            .find(|(_, since)| since.elapsed() > HUNG_AFTER)
        {
            // Writes to standard error directly, because the test harness would hold captured
            // output until the test ends.
            let _ = writeln!(io::stderr(), "hung: {name}");
            process::abort();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        runs().1.remove(&self.0);
    }
}
