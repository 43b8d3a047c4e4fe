//! The state of the process: the simulated device, the live objects, and the report at the end.

use std::{fs::OpenOptions, io::Write as _, sync::OnceLock};

use millstream_driver::{DriverError, ResultCode};
use millstream_sim::Gpu;
use parking_lot::Mutex;

use crate::{codes::Answer, demangle, objects::Objects, options::Options, problems::Problems};

/// The state of the process, from the first `cuInit` on.
pub(crate) struct Process {
    pub(crate) gpu: Gpu,
    /// The live objects. The lock is never held during a call of the simulator.
    pub(crate) objects: Mutex<Objects>,
    problems: Mutex<Problems>,
    /// The id of the process that called `cuInit`. The driver does not work in a forked child.
    id: u32,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Returns the options of the process. An invalid one is printed to standard error, once.
pub(crate) fn options() -> Answer<&'static Options> {
    static OPTIONS: OnceLock<Option<Options>> = OnceLock::new();
    let options = OPTIONS.get_or_init(|| {
        Options::read(|name| std::env::var(name).ok())
            .inspect_err(|problem| say(problem))
            .ok()
    });
    options.as_ref().ok_or(ResultCode::INVALID_VALUE)
}

/// Creates the simulated device at the first call.
pub(crate) fn initialise() -> Answer {
    let options = options()?;
    let process = PROCESS.get_or_init(|| {
        crate::at_exit::register(report_at_exit);
        Process {
            gpu: Gpu::new(options.config.clone()),
            objects: Mutex::default(),
            problems: Mutex::default(),
            id: std::process::id(),
        }
    });
    process.check()
}

/// Returns the state of the process. Fails with `NOT_INITIALIZED` before `cuInit` and in a forked
/// child.
pub(crate) fn process() -> Answer<&'static Process> {
    let process = PROCESS.get().ok_or(ResultCode::NOT_INITIALIZED)?;
    process.check()?;
    Ok(process)
}

/// Writes a line to standard error. A closed standard error is ignored.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "millstream: {text}");
}

impl Process {
    fn check(&self) -> Answer {
        if self.id == std::process::id() {
            Ok(())
        } else {
            Err(ResultCode::NOT_INITIALIZED)
        }
    }

    /// Adds a problem to the report at the end.
    pub(crate) fn problem(&self, text: String) {
        self.problems.lock().add(text);
    }

    /// Returns the code of an error, and keeps what the simulator reports about it.
    pub(crate) fn failed(&self, error: &DriverError) -> ResultCode {
        self.collect();
        error.code()
    }

    /// Moves the simulator's reports to the list of problems, which is bounded.
    fn collect(&self) {
        let reports = self.gpu.take_reports();
        let mut problems = self.problems.lock();
        for report in reports {
            let text = demangle::text(&report.text);
            problems.add(format!("{:?}: {text}", report.kind));
        }
    }
}

/// Prints the problems of the program to standard error, and appends them to the file that
/// `MILLSTREAM_REPORT` names.
extern "C" fn report_at_exit() {
    // A panic must not reach the C library, and a report is worth nothing then.
    let _ = std::panic::catch_unwind(|| {
        let Ok(process) = process() else {
            return;
        };
        process.collect();
        let problems = process.problems.lock();
        // A report that cannot be written is lost: the process is about to end.
        let _ = std::io::stderr().write_all(problems.report().as_bytes());
        if let Some(path) = std::env::var_os("MILLSTREAM_REPORT") {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(problems.to_json().as_bytes()));
        }
    });
}
