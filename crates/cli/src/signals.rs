//! Signals that ask this command to end. They are passed on to the program, after whose end the
//! temporary folder is removed.

use std::{
    fs,
    io::{self, IsTerminal},
    process::{Child, ExitStatus},
};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM},
    iterator::Signals as Received,
};

/// The signals, caught from its creation on.
pub(crate) struct Signals {
    received: Received,
    /// The last signal that asked for the end.
    last: Option<i32>,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let caught = [SIGINT, SIGTERM, SIGHUP]
            .into_iter()
            .filter(|signal| ignored >> (signal - 1) & 1 == 0);
        Ok(Self {
            received: Received::new(caught.chain([SIGCHLD]))?,
            last: None,
        })
    }

    /// Returns the last signal that asked for the end, if there was one.
    pub(crate) fn last(&mut self) -> Option<i32> {
        let pending = self.received.pending().filter(|signal| *signal != SIGCHLD);
        self.last = pending.last().or(self.last);
        self.last
    }

    /// Waits for the end of the program, which gets the signals that arrive meanwhile.
    pub(crate) fn wait(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            for number in self.received.wait().filter(|signal| *signal != SIGCHLD) {
                self.last = Some(number);
                pass_on(number, child);
            }
        }
    }
}

/// Sends a signal to a program that has not been waited for.
fn pass_on(number: i32, child: &Child) {
    // A terminal sends it to the program as well, which may count how often.
    let at_terminal =
        io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    if number == SIGINT && at_terminal {
        return;
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some((pid, signal)) = pid.zip(Signal::from_named_raw(number)) {
        // An error means that the program has ended.
        let _ = kill_process(pid, signal);
    }
}

/// Returns the set of the signals that this process ignores, as `nohup` asks for; its program
/// ignores them only if no handler is set here.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
