//! The state of the process: the simulated device, the live objects, and the reports.
//!
//! A report is written when its problem is found, within the driver call, since a process that ends
//! by `abort`, `_exit` or a signal calls no function of the library. The normal end adds counts.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Once, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use millstream_driver::{Driver as _, ResultCode, printable};
use millstream_sim::{
    Gpu, LiveKind, Profile, Report, ReportKind, Severity,
    race::{Label, Site},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    codes::Answer,
    demangle,
    objects::Objects,
    options::Options,
    problems::{Problems, standard_error},
    progress,
    sites::{self, Description, Sites},
    standard_output, timeline,
};

/// The state of the process, from the first `cuInit` on.
pub(crate) struct Process {
    pub(crate) gpu: Gpu,
    /// The number of devices that the program sees, the first ones of the simulator's.
    devices: i32,
    /// The live objects. The lock is never held during a call of the simulator.
    pub(crate) objects: Mutex<Objects>,
    problems: Mutex<Problems>,
    /// The operations in the last line about the work done.
    work_reported: AtomicU64,
    /// Set if redundant waits are listed at the end.
    pub(crate) lists_waits: bool,
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
        gpu.on_report(report);
        gpu.hold_printf(standard_output::write);
        append_to_report(options, json!({ "opened": true, "problems": [] }));
        if let Some(interval) = options.progress {
            let gpu = gpu.clone();
            start_thread(move || progress::watch(&gpu, interval));
        }
        if options.profile {
            start_thread(report_profiles);
        }
        Process {
            devices: gpu
                .device_count()
                .map_or(0, |count| options.visible_devices(count)),
            gpu,
            objects: Mutex::default(),
            problems: Mutex::default(),
            work_reported: AtomicU64::default(),
            lists_waits: options.config == options.config.clone().redundant(true),
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

/// Starts a thread of this library's own. By its name the simulated device knows that no kernel can
/// wait for it.
fn start_thread(run: impl FnOnce() + Send + 'static) {
    // A program that may start no more threads runs without it.
    drop(thread::Builder::new().name("sim-watch".into()).spawn(run));
}

/// Returns the state of the process. Fails with `NOT_INITIALIZED` before `cuInit` and in a forked
/// child.
pub(crate) fn process() -> Answer<&'static Process> {
    let process = PROCESS.get().ok_or(ResultCode::NOT_INITIALIZED)?;
    process.check()?;
    Ok(process)
}

/// Says once that the program uses NVIDIA's runtime library, which cannot work, and how to build it
/// with Millstream's. `file` is the library or the executable that has it.
pub(crate) fn note_runtime_library(file: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        if let Ok(options) = options() {
            append_to_report(options, json!({ "runtime": true, "problems": [] }));
        }
        let name = file.rsplit('/').next().unwrap_or_default();
        let advice = if name.starts_with("libcudart.so") {
            "found by a path in the program (RPATH, or dlopen), before Millstream's: link with \
             `-Wl,--enable-new-dtags` or remove the path"
        } else {
            "linked statically, as nvcc does unless told otherwise: build the program with \
             `millstream-nvcc`, in CMake as CMAKE_CUDA_COMPILER, or with `nvcc -cudart shared \
             -gencode arch=compute_75,code=compute_75`"
        };
        say(&format!(
            "{file} has NVIDIA's runtime library (libcudart), which needs undocumented tables of \
             the driver that the simulated device does not have. It is {advice}"
        ));
    });
}

/// Writes a line to standard error. A closed standard error is ignored.
pub(crate) fn say(text: &str) {
    progress::erase();
    let _ = writeln!(std::io::stderr(), "millstream: {}", printable(text));
}

/// Writes notes on modules to standard error, each the first time.
pub(crate) fn say_notes(notes: &[String]) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    for note in notes {
        if SAID.lock().insert(note.clone()) {
            say(&demangle::text(note));
        }
    }
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

    /// Reports a problem, of an error's severity.
    pub(crate) fn problem(&self, kind: &str, text: &str) {
        self.problems((kind, Severity::Error), text, 1);
    }

    /// Reports a problem that happened `count` times, if none is known that differs only in its
    /// numbers.
    fn problems(&self, (kind, severity): (&str, Severity), text: &str, count: u64) {
        let Ok(options) = options() else {
            return;
        };
        let shown = |text: &str| {
            let Description { text, places } = sites::describe(self.sites.as_ref(), text);
            (!options.suppressions.matches(&text)).then(|| {
                let severity = severity.to_string();
                json!({ "kind": kind, "severity": severity, "text": text, "places": places })
            })
        };
        // The lock is kept, so that reports appear in the order of their numbers.
        let mut problems = self.problems.lock();
        if let Some(found) = problems.add(text, count, shown) {
            progress::erase();
            // A closed standard error is ignored.
            let _ = std::io::stderr().write_all(found.report().as_bytes());
            append_to_report(options, found.to_json());
        }
    }

    /// Adds the memory, the streams and the events that the program left alive. Modules are left
    /// out, because programs keep them on purpose.
    fn add_leaks(&self) {
        let live = self.gpu.live_objects().into_iter();
        for object in live.filter(|object| object.kind != LiveKind::Module) {
            self.problem("Leak", &format!("Leak: {object}"));
        }
    }

    /// Prints and returns the waits that order nothing, if they are looked for.
    fn redundant(&self) -> Vec<String> {
        let waits = self.gpu.redundant_syncs().into_iter();
        let texts = waits.map(|wait| {
            let text = format!("redundant: {wait}");
            let text = sites::describe(self.sites.as_ref(), &text).text;
            say(&text);
            text
        });
        texts.collect()
    }

    /// Adds the findings that the simulator only counted.
    fn add_unlisted(&self) {
        let unlisted = self.gpu.unlisted_findings();
        for (first, count) in unlisted.repeated {
            self.simulated_problem((first.kind, first.severity), &first.to_string(), count);
        }
        self.problems.lock().drop_several(unlisted.elsewhere);
    }

    /// Reports a problem that the simulator has found.
    fn simulated_problem(&self, of: (ReportKind, Severity), text: &str, count: u64) {
        let (kind, severity) = (format!("{:?}", of.0), of.1);
        let text = format!("{kind}: {}", demangle::text(text));
        self.problems((&kind, severity), &text, count);
    }

    /// Appends a line with the work done, at a call that waits and whenever the work has doubled
    /// since the last line: the program may end without the library's knowledge.
    pub(crate) fn report_work(&self) {
        let Ok(Options {
            report: Some(_), ..
        }) = options()
        else {
            return;
        };
        let operations = self.gpu.with_work_done(|work| work.operations);
        let last = self.work_reported.load(Ordering::Relaxed);
        if operations > last.saturating_mul(2)
            && let Ok(options) = options()
        {
            self.work_reported.store(operations, Ordering::Relaxed);
            append_to_report(options, json!({ "work": self.work(), "problems": [] }));
        }
    }

    /// Returns the work done, with the launches of each kernel.
    fn work(&self) -> Value {
        let (operations, launches) =
            (self.gpu).with_work_done(|work| (work.operations, work.launches.clone()));
        let launches = launches.iter();
        let launches = launches.map(|(name, count)| (demangle::name(name).into(), (*count).into()));
        let mut work =
            json!({ "operations": operations, "launches": Value::Object(launches.collect()) });
        if options().is_ok_and(|options| options.profile) {
            work["profile"] = profile(&self.gpu.profile());
        }
        work
    }
}

/// Appends lines with the profile so far, each after an eighth of the time before.
fn report_profiles() {
    let mut elapsed_ns = 0;
    loop {
        thread::sleep(Duration::from_nanos(elapsed_ns / 8).max(Duration::from_millis(200)));
        if let (Ok(process), Ok(options)) = (process(), options()) {
            append_to_report(options, json!({ "work": process.work(), "problems": [] }));
            elapsed_ns = process.gpu.profile().elapsed_ns;
        }
    }
}

/// Returns a profile as JSON.
fn profile(profile: &Profile) -> Value {
    let rows = profile.rows.iter().map(|(name, spent)| {
        json!({
            "kernel": demangle::name(name),
            "count": spent.count,
            "thread_instructions": spent.thread_instructions,
            "ns": spent.ns,
        })
    });
    json!({ "elapsed_ns": profile.elapsed_ns, "rows": rows.collect::<Vec<_>>() })
}

/// Reports a problem that the simulator has found. Its own report on findings that it only counts
/// is left out, because their number is added at the end.
fn report(report: Report) {
    if let Ok(process) = process()
        && report.kind != ReportKind::FindingsOmitted
    {
        // A panic must not reach the simulator, and a report is worth nothing then.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut text = report.text;
            // Findings, which have lines, and faults name operations. The rest is about this call.
            let is_fault = matches!(report.kind, ReportKind::KernelFault | ReportKind::CopyFault);
            if let Some(site) = Site::current().filter(|_| !is_fault && !text.contains('\n')) {
                text += &format!("\n  in {}, {site}", report.call);
            }
            process.simulated_problem((report.kind, report.severity), &text, 1);
        }));
    }
}

/// Prints the numbers of problems to standard error, with the reports that it lacks, and appends
/// the problems to the file that `MILLSTREAM_REPORT` names.
extern "C" fn report_at_exit() {
    // A panic must not reach the C library, and a report is worth nothing then.
    let _ = catch_unwind(|| {
        let (Ok(process), Ok(options)) = (process(), options()) else {
            return;
        };
        progress::erase();
        // CUDA would drop what was printed since the last synchronisation.
        process.gpu.flush_printf();
        process.add_unlisted();
        if options.leaks {
            process.add_leaks();
        }
        let problems = process.problems.lock();
        // A report that cannot be written is lost: the process is about to end.
        let _ = std::io::stderr().write_all(problems.summary(standard_error()).as_bytes());
        let mut work = process.work();
        work["redundant"] = process.redundant().into();
        append_to_report(options, problems.to_json(&work));
        if let Some(path) = &options.timeline {
            append(path, &timeline::events(process.id, &process.gpu.timeline()));
        }
    });
}

/// Appends a line about this process to the file that `MILLSTREAM_REPORT` names.
fn append_to_report(options: &Options, mut line: Value) {
    if let Some(path) = &options.report {
        line["process"] = std::process::id().into();
        append(path, &format!("{line}\n"));
    }
}

/// Appends a text to a file. One that cannot be written is lost, as above.
fn append(path: &Path, text: &str) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}
