//! Probes after which a GPU may be of no more use to its process: on a GPU they run in a process of
//! their own, this program once more; on the simulated device, where each test has a GPU of its
//! own, they run like any test.

use std::{
    env,
    io::Read,
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use libtest_mimic::Failed;

use crate::{
    async_copies, configurations,
    device_harness::{DeviceHarness, Observation},
    host_functions, managed, two_devices,
};

/// The environment variable that names the probe which a process is to run.
const VARIABLE: &str = "MILLSTREAM_CONFORMANCE_PROBE";

/// How long a probe may take on a GPU.
const PROBE_MAX: Duration = Duration::from_secs(12);

type Probe = (&'static str, fn(&DeviceHarness) -> Observation);

const PROBES: &[Probe] = &[
    ("partly registered", async_copies::partly_registered),
    ("driver called", host_functions::driver_called),
    ("after an error", host_functions::after_an_error),
    ("managed freed in order", managed::freed_in_stream_order),
    ("foreign stream", two_devices::foreign_stream),
    ("foreign record", two_devices::foreign_record),
];

/// Runs the probe of this name: here, or in a process of its own if `dev` is a GPU's.
pub(crate) fn run(dev: &DeviceHarness, name: &str) -> Observation {
    let (_, probe) = PROBES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or("a probe of this name")?;
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

/// If this process is to run a probe: runs it, prints what it saw, and says how to end.
pub(crate) fn asked_for() -> Option<ExitCode> {
    let name = env::var(VARIABLE).ok()?;
    let run = || -> Observation {
        let (_, probe) = PROBES
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or("a probe of this name")?;
        let dev = configurations::open_gpu()?;
        let seen = probe(&dev);
        // Its context may be lost, and giving things back would only tell so again.
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
