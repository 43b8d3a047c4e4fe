//! The state of the process: the simulated device, the live objects, and the report at the end.

use std::{fs::OpenOptions, io::Write as _, path::Path, sync::OnceLock, thread, time::Duration};

use millstream_driver::{Driver as _, DriverError, ResultCode, printable};
use millstream_sim::{Gpu, LiveKind, ReportKind, race::Label};
use parking_lot::Mutex;

use crate::{
    codes::Answer, demangle, objects::Objects, options::Options, problems::Problems, sites::Sites,
    timeline,
};

/// The state of the process, from the first `cuInit` on.
pub(crate) struct Process {
    pub(crate) gpu: Gpu,
    /// The number of devices that the program sees, the first ones of the simulator's.
    devices: i32,
    /// The live objects. The lock is never held during a call of the simulator.
    pub(crate) objects: Mutex<Objects>,
    problems: Mutex<Problems>,
    /// The places of the program's calls; `None` if reports show none.
    sites: Option<Sites>,
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
        let gpu = Gpu::new(options.config.clone());
        if let Some(interval) = options.progress {
            let gpu = gpu.clone();
            thread::spawn(move || name_running_kernels(&gpu, interval));
        }
        Process {
            devices: gpu
                .device_count()
                .map_or(0, |count| options.visible_devices(count)),
            gpu,
            objects: Mutex::default(),
            problems: Mutex::default(),
            sites: options.sites.then(Sites::default),
            id: std::process::id(),
        }
    });
    process.check()?;
    if process.devices == 0 {
        return Err(ResultCode::NO_DEVICE);
    }
    Ok(())
}

/// Returns the state of the process. Fails with `NOT_INITIALIZED` before `cuInit` and in a forked
/// child.
pub(crate) fn process() -> Answer<&'static Process> {
    let process = PROCESS.get().ok_or(ResultCode::NOT_INITIALIZED)?;
    process.check()?;
    Ok(process)
}

/// Names on standard error each kernel that has been running for `interval`, once in each interval.
fn name_running_kernels(gpu: &Gpu, interval: Duration) {
    loop {
        thread::sleep(interval);
        if let Some((kernel, time)) = gpu.running_kernel().filter(|(_, time)| *time >= interval) {
            let (kernel, seconds) = (demangle::name(&kernel), time.as_secs());
            say(&format!(
                "kernel `{kernel}` has been running for {seconds} s; `--steps` limits it"
            ));
        }
    }
}

/// Writes a line to standard error. A closed standard error is ignored.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "millstream: {}", printable(text));
}

impl Process {
    fn check(&self) -> Answer {
        if self.id == std::process::id() {
            Ok(())
        } else {
            Err(ResultCode::NOT_INITIALIZED)
        }
    }

    /// Returns the number of devices that the program sees.
    pub(crate) fn device_count(&self) -> i32 {
        self.devices
    }

    /// Labels the calling thread's calls of the simulator with the place of the program's call.
    pub(crate) fn label(&self) -> Option<Label> {
        self.sites.as_ref().map(Sites::label)
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

    /// Adds the memory, the streams and the events that the program left alive. Modules are left
    /// out, because programs keep them on purpose.
    fn add_leaks(&self) {
        let live = self.gpu.live_objects().into_iter();
        let mut problems = self.problems.lock();
        for object in live.filter(|object| object.kind != LiveKind::Module) {
            problems.add(format!("Leak: {object}"));
        }
    }

    /// Moves the simulator's reports to the list of problems, which is bounded. Findings that the
    /// simulator only counted are added at the end, so that its report of that is left out.
    fn collect(&self) {
        let reports = self.gpu.take_reports().into_iter();
        let mut problems = self.problems.lock();
        for report in reports.filter(|report| report.kind != ReportKind::FindingsOmitted) {
            problems.add(problem_text(report.kind, &report.text));
        }
    }

    /// Adds the findings that the simulator only counted.
    fn add_unlisted(&self) {
        let unlisted = self.gpu.unlisted_findings();
        let mut problems = self.problems.lock();
        for (first, count) in unlisted.repeated {
            problems.add_several(problem_text(first.kind, &first.to_string()), count);
        }
        problems.drop_several(unlisted.elsewhere);
    }
}

/// Returns the text of a problem that the simulator reports.
fn problem_text(kind: ReportKind, text: &str) -> String {
    format!("{kind:?}: {}", demangle::text(text))
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
        process.add_unlisted();
        let Ok(options) = options() else {
            return;
        };
        if options.leaks {
            process.add_leaks();
        }
        let mut problems = process.problems.lock();
        if let Some(sites) = &process.sites {
            problems.rewrite(|text| sites.describe(text));
        }
        problems.suppress(|text| options.suppressions.matches(text));
        // A report that cannot be written is lost: the process is about to end.
        let _ = std::io::stderr().write_all(problems.report().as_bytes());
        if let Some(path) = std::env::var_os("MILLSTREAM_REPORT") {
            append(path.as_ref(), &problems.to_json());
        }
        if let Some(path) = &options.timeline {
            append(path, &timeline::events(process.id, &process.gpu.timeline()));
        }
    });
}

/// Appends a text to a file. One that cannot be written is lost, as above.
fn append(path: &Path, text: &str) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}
