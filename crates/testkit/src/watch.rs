//! A watchdog over the runs of tests.

use std::{
    io::{self, Write},
    process,
    sync::mpsc,
    thread,
    time::Duration,
};

/// The time after which a run counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(120);

/// A watchdog that ends the process when a run hangs, and prints the configuration of a failed run.
pub struct Watch {
    name: String,
    _finished: mpsc::Sender<()>,
}

impl Watch {
    pub fn over(name: String) -> Self {
        let (finished, watched) = mpsc::channel::<()>();
        // The test harness names a test's thread after the test; the name tells which of the
        // waiting tests hangs.
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let shown = format!("{test} under {name}");
        thread::spawn(move || {
            if watched.recv_timeout(HUNG_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Writes to standard error directly, because the test harness would hold captured
                // output until the test ends.
                let _ = writeln!(io::stderr(), "hung: {shown}");
                process::abort();
            }
        });
        Self {
            name,
            _finished: finished,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed under {}", self.name);
        }
    }
}
