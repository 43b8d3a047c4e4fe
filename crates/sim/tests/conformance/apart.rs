//! Probes that may leave a GPU's context unusable for the rest of the process. On a GPU each probe
//! runs in a child process, which executes this program again; on the simulated device, where each
//! test has its own GPU, it runs like any test.

use std::{
    env,
    io::Read,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use crate::conformance::{
    async_copies, configurations, host_functions, managed, peers, prelude::*, two_devices,
};

/// The environment variable that names the probe that a child process runs.
const VARIABLE: &str = "MILLSTREAM_CONFORMANCE_PROBE";

/// The time limit of a probe on a GPU.
const PROBE_MAX: Duration = Duration::from_secs(12);

type Probe = (&'static str, fn(&DeviceHarness) -> Observation);

const PROBES: &[Probe] = &[
    ("partly registered", async_copies::partly_registered),
    ("driver called", host_functions::driver_called),
    ("after an error", host_functions::after_an_error),
    ("managed freed in order", managed::freed_in_stream_order),
    ("foreign stream", two_devices::foreign_stream),
    ("foreign record", two_devices::foreign_record),
    ("pool with access", peers::pool_with_access),
    ("pool without access", peers::pool_without_access),
    ("peer access", peers::peer_access),
];

/// Runs the named probe: in this process on a simulated device, in a child process on a GPU.
pub(crate) fn run(dev: &DeviceHarness, name: &str) -> Observation {
    let (_, probe) = PROBES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or("no probe of this name")?;
    if dev.is_simulated() {
        return probe(dev);
    }
    let mut child = Command::new(env::current_exe()?)
        .env(VARIABLE, name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begin.elapsed() > PROBE_MAX {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut output = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut output)?;
    }
    match status {
        Some(status) if status.success() => Ok(output.trim().to_owned()),
        Some(status) => Err(Failed::from(format!("{name}: {status}: {}", output.trim()))),
        None => Ok(format!("hung, {}", output.trim())),
    }
}

/// Runs the probe that the environment names, if any, prints its observation, and returns the exit
/// code.
pub(crate) fn asked_for() -> Option<ExitCode> {
    let name = env::var(VARIABLE).ok()?;
    let run = || -> Observation {
        let (_, probe) = PROBES
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or("no probe of this name")?;
        let dev = configurations::open_gpu()?;
        let seen = probe(&dev);
        // The context may be lost, and freeing its objects would only report the error again.
        std::mem::forget(dev);
        seen
    };
    Some(match run() {
        Ok(seen) => {
            println!("{seen}");
            ExitCode::SUCCESS
        }
        Err(failed) => {
            println!("{}", failed.message().unwrap_or("it failed"));
            ExitCode::FAILURE
        }
    })
}
