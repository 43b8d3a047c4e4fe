//! Runs a program with the simulated device in the place of the CUDA driver.
//!
//! The loader finds the library `millstream-libcuda` under the names of the driver in a temporary
//! folder. The library writes its reports to a file there, in lines of JSON.

use std::{
    env,
    ffi::OsString,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Output, Stdio},
};

use clap::{Args, FromArgMatches as _};
use millstream_driver::{
    DriverError, ResultCode,
    cuda::{Cuda, LoadError},
};
use tempfile::TempDir;

use crate::{
    annotations::When,
    reports::Reports,
    runtime_library, say,
    settings::{self, merged, quoted, variable, with_profile},
    signals::Signals,
};

/// The file name of the library.
const LIBRARY: &str = "libmillstream_libcuda.so";

/// The library, which a release build carries so that one file is all that is installed.
#[cfg(all(target_os = "linux", not(debug_assertions)))]
static CARRIED: Option<&[u8]> = millstream_macros::shared_library!(millstream_libcuda);
#[cfg(not(all(target_os = "linux", not(debug_assertions))))]
static CARRIED: Option<&[u8]> = None;

/// The names under which programs look for the driver.
const DRIVER_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// A script that takes the place of `ptxas` for Triton.
const PTXAS: &str = include_str!("ptxas.sh");

/// The variables by which Triton finds its `ptxas`, for older and newer kinds of devices.
const PTXAS_VARIABLES: [&str; 2] = ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"];

/// The environment variable of the seconds after which a running kernel is named, and its default.
const PROGRESS_VARIABLE: &str = "MILLSTREAM_PROGRESS";
const PROGRESS_SECONDS: &str = "5";

/// The environment variable of the file of reports.
pub(crate) const REPORT_VARIABLE: &str = "MILLSTREAM_REPORT";

/// The beginning of the names of temporary folders.
pub(crate) const FOLDER_PREFIX: &str = "millstream-run-";

/// The program, its device, and what is reported.
#[derive(Args)]
pub(crate) struct ProgramArguments {
    /// The kind of device: h200, h100, a100, l4, rtx4090, t4 or v100.
    #[arg(long, value_name = "KIND")]
    device: Option<String>,
    /// The CUDA version of the driver, such as 12.8.
    #[arg(long, value_name = "VERSION")]
    cuda: Option<String>,
    /// The number of devices.
    #[arg(long, value_name = "N")]
    devices: Option<u32>,
    /// The memory of each device, such as 8G.
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// The warp instructions without the end of a block after which a kernel counts as hung:
    /// 1073741824 unless given.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The reading of the rules on which CUDA's documentation and GPUs differ: observed, strict, or
    /// the names of rules for a strict reading of these, joined with `+`.
    #[arg(long, value_name = "READING")]
    pub(crate) rules: Option<String>,
    /// The race check: on, off, kernels (also within kernels) or notes.
    #[arg(long, value_name = "CHECK")]
    race: Option<String>,
    /// The check of initialisation: global (reads of global memory), on (also uses of shared and
    /// local memory that was never written) or off.
    #[arg(long, value_name = "CHECK")]
    init: Option<String>,
    /// Lets kernels go on after a fault, such as an invalid access, so that one run reports all.
    #[arg(long)]
    keep_going: bool,
    /// Prints at the end the waits of the program that order nothing, with their time.
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, default_missing_value = "on")]
    redundant: Option<String>,
    /// Prints where the time of the simulation itself goes, by kernel, at the end of the program.
    #[arg(long)]
    pub(crate) profile_sim: bool,
    /// Reports memory, streams and events that the program never freed or destroyed.
    #[arg(long)]
    leaks: bool,
    /// Leaves out problems that match a line of this file; `*` stands for any text.
    #[arg(long, value_name = "FILE")]
    suppress: Option<PathBuf>,
    /// Does not record where the program enqueues work; calls cost less.
    #[arg(long)]
    no_call_sites: bool,
    /// Writes the problems to this file in SARIF 2.1.0, which GitHub and editors show. It is
    /// complete whatever ends the program.
    #[arg(long, value_name = "FILE")]
    pub(crate) sarif: Option<PathBuf>,
    /// Prints the problems as GitHub's annotations: ten of them, on standard error.
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", num_args = 0..=1,
        default_missing_value = "always", require_equals = true)]
    pub(crate) annotate: When,
    /// Leaves out the last line, which says how much was checked.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Fails if no process of the program opens the driver.
    #[arg(long)]
    pub(crate) require_device: bool,
    /// The exit status if the program succeeds but has problems.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) exit_code: u8,
    /// Another library in the place of the driver.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, last = true)]
    pub(crate) program: Vec<OsString>,
}

/// The choice of a schedule, and of a reading of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) name: Option<String>,
    pub(crate) seed: Option<u64>,
    pub(crate) rules: Option<String>,
}

/// A prepared run of a program.
pub(crate) struct Program<'a> {
    arguments: &'a ProgramArguments,
    /// Removed when dropped. No other user can read it.
    folder: TempDir,
    signals: Signals,
}

impl ProgramArguments {
    fn settings(&self, schedule: &Schedule) -> [(&'static str, Option<String>); 10] {
        [
            ("devices", self.devices.map(|count| count.to_string())),
            ("memory", self.memory.clone()),
            ("steps", self.steps.map(|steps| steps.to_string())),
            ("race", self.race.clone()),
            ("init", self.init.clone()),
            ("keep_going", self.keep_going.then(|| "on".to_owned())),
            ("redundant", self.redundant.clone()),
            ("schedule", schedule.name.clone()),
            ("seed", schedule.seed.map(|seed| seed.to_string())),
            ("rules", schedule.rules.clone()),
        ]
    }

    /// Returns the value of `MILLSTREAM_DEVICE` for the program.
    pub(crate) fn device(&self, schedule: &Schedule) -> Result<String, String> {
        let present = variable(settings::VARIABLE);
        merged(present.as_deref(), &self.settings(schedule))
    }

    /// Returns the library: the one that is given, the one that this command carries, as a new
    /// file in `folder`, or else the one that cargo has built with it.
    fn find_library(&self, folder: &Path) -> Result<PathBuf, String> {
        let candidates = match (&self.library, CARRIED) {
            (Some(given), _) => vec![given.clone()],
            (None, Some(carried)) => {
                let library = folder.join(LIBRARY);
                fs::write(&library, carried).map_err(|error| cannot("write", &library, &error))?;
                return Ok(library);
            }
            (None, None) => {
                let this = env::current_exe().map_err(|error| error.to_string())?;
                let built = this.parent().unwrap_or(Path::new("."));
                vec![built.join(LIBRARY), built.join("deps").join(LIBRARY)]
            }
        };
        candidates
            .iter()
            .find_map(|path| path.canonicalize().ok())
            .ok_or_else(|| {
                let tried: Vec<_> = candidates
                    .iter()
                    .map(|it| it.display().to_string())
                    .collect();
                format!(
                    "cannot find the simulated driver at {}; build it with `cargo build \
                     -p millstream-cli`, or name it with --library",
                    tried.join(" or ")
                )
            })
    }

    /// Returns the command that runs the program under a schedule, as a shell takes it.
    pub(crate) fn command_line(&self, schedule: &Schedule) -> String {
        let mut words = vec!["millstream".to_owned(), "run".to_owned()];
        let mut option = |name: &str, value: Option<String>| match value {
            Some(_) if name == "keep_going" => words.push("--keep-going".to_owned()),
            Some(value) => words.extend([format!("--{name}"), quoted(&value)]),
            None => {}
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        option("device", self.device.clone());
        option("cuda", self.cuda.clone());
        option("suppress", path(&self.suppress));
        option("library", path(&self.library));
        for (name, value) in self.settings(schedule) {
            option(name, value);
        }
        for (name, given) in [("leaks", self.leaks), ("no-call-sites", self.no_call_sites)] {
            if given {
                words.push(format!("--{name}"));
            }
        }
        words.push("--".to_owned());
        words.extend(
            self.program
                .iter()
                .map(|word| quoted(&word.to_string_lossy())),
        );
        words.join(" ")
    }
}

impl<'a> Program<'a> {
    /// Creates the folder in which the loader finds the library, and checks all options with the
    /// schedule, so that the program is not started with one that the library does not take.
    pub(crate) fn prepare(
        arguments: &'a ProgramArguments,
        schedule: &Schedule,
    ) -> Result<Self, String> {
        let signals = Signals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
        let folder = temporary_folder()?;
        let path = folder.path();
        let library = arguments.find_library(path)?;
        for name in DRIVER_NAMES {
            let link = path.join(name);
            link_to(&library, &link).map_err(|error| cannot("create", &link, &error))?;
        }
        runtime_library::write(&library, path)?;
        let ptxas = path.join("ptxas");
        write_script(&ptxas, PTXAS).map_err(|error| cannot("create", &ptxas, &error))?;
        let program = Self {
            arguments,
            folder,
            signals,
        };
        program.probe(schedule)?;
        Ok(program)
    }

    /// Lets this command open the driver in a process of its own, with the program's environment.
    /// The library says which option it does not take.
    fn probe(&self, schedule: &Schedule) -> Result<(), String> {
        let this = env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(&this);
        self.set_environment(&mut command, schedule, None)?;
        let output = command
            .arg(PROBE)
            .env_remove(REPORT_VARIABLE)
            .env_remove("MILLSTREAM_TIMELINE")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| cannot("run", &this, &error))?;
        if output.status.success() {
            return Ok(());
        }
        let problem = String::from_utf8_lossy(&output.stderr);
        Err(problem.trim_end().replacen("millstream: ", "", 1))
    }

    fn command(&self, schedule: &Schedule, timeline: Option<&Path>) -> Result<Command, String> {
        let words = &self.arguments.program;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.set_environment(&mut command, schedule, timeline)?;
        runtime_library::preload(&words[0], self.folder.path(), &mut command);
        Ok(command)
    }

    /// Sets the variables by which the loader finds the library, and those of the options.
    ///
    /// # Errors
    ///
    /// If an option contradicts its variable.
    fn set_environment(
        &self,
        command: &mut Command,
        schedule: &Schedule,
        timeline: Option<&Path>,
    ) -> Result<(), String> {
        let arguments = self.arguments;
        let settings = with_profile(arguments.device(schedule)?, arguments.profile_sim)?;
        command
            .env("LD_LIBRARY_PATH", loader_path(self.folder.path())?)
            .env(settings::VARIABLE, settings)
            .env(REPORT_VARIABLE, self.report());
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .map(PathBuf::into_os_string)
                .map_err(|error| cannot("find", path, &error))
        };
        let suppress = arguments.suppress.as_deref().map(absolute).transpose()?;
        let timeline = timeline.map(absolute).transpose()?;
        let options = [&arguments.device, &arguments.cuda];
        let [device, cuda] = options.map(|option| option.clone().map(OsString::from));
        let leaks = arguments.leaks.then(|| "on".into());
        let sites = arguments.no_call_sites.then(|| "off".into());
        for (option, name, value) in [
            ("device", "MILLSTREAM_KIND", device),
            ("cuda", "MILLSTREAM_CUDA", cuda),
            ("suppress", "MILLSTREAM_SUPPRESS", suppress),
            ("timeline", "MILLSTREAM_TIMELINE", timeline),
            ("leaks", "MILLSTREAM_LEAKS", leaks),
            ("no-call-sites", "MILLSTREAM_SITES", sites),
        ] {
            match (value, variable(name)) {
                (Some(value), Some(present)) if value != *present => {
                    return Err(format!("--{option} contradicts {name}={present}"));
                }
                (Some(value), _) => drop(command.env(name, value)),
                (None, Some(_)) => {}
                // The library takes an empty value for a wrong one.
                (None, None) => drop(command.env_remove(name)),
            }
        }
        for variable in PTXAS_VARIABLES {
            if env::var_os(variable).is_none() {
                command.env(variable, self.folder.path().join("ptxas"));
            }
        }
        Ok(())
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report.jsonl")
    }

    /// Returns the signal that asked for the end, if there was one.
    pub(crate) fn signal(&mut self) -> Option<i32> {
        self.signals.last()
    }

    fn spawn(&mut self, command: &mut Command) -> Result<Child, String> {
        if let Some(signal) = self.signal() {
            return Err(format!("ended by signal {signal} before the program began"));
        }
        command.spawn().map_err(|error| self.cannot_run(&error))
    }

    /// Runs the program with the caller's standard streams.
    pub(crate) fn run(
        &mut self,
        schedule: &Schedule,
        timeline: Option<&Path>,
    ) -> Result<ExitStatus, String> {
        let mut command = self.command(schedule, timeline)?;
        if env::var_os(PROGRESS_VARIABLE).is_none() {
            command.env(PROGRESS_VARIABLE, PROGRESS_SECONDS);
        }
        let mut child = self.spawn(&mut command)?;
        let status = self.signals.wait(&mut child);
        status.map_err(|error| self.cannot_run(&error))
    }

    pub(crate) fn run_silently(&mut self, schedule: &Schedule) -> Result<Output, String> {
        let mut command = self.command(schedule, None)?;
        let paths = ["stdout", "stderr"].map(|name| self.folder.path().join(name));
        let create = |path: &PathBuf| {
            let file = fs::File::create(path);
            file.map_err(|error| cannot("create", path, &error))
        };
        command
            .stdin(Stdio::null())
            .stdout(create(&paths[0])?)
            .stderr(create(&paths[1])?);
        let mut child = self.spawn(&mut command)?;
        let status = self.signals.wait(&mut child);
        let status = status.map_err(|error| self.cannot_run(&error))?;
        let [stdout, stderr] = paths.map(|path| fs::read(path).unwrap_or_default());
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// Prints the line about a failed program that is linked with NVIDIA's runtime library.
    pub(crate) fn advise(&self, reports: &Reports) {
        if let Some(advice) = reports.runtime_advice(&self.arguments.program[0]) {
            say(advice);
        }
    }

    fn cannot_run(&self, error: &std::io::Error) -> String {
        cannot("run", Path::new(&self.arguments.program[0]), error)
    }

    /// Removes and returns the reports of the processes that opened the driver. They are appended
    /// to the file that `MILLSTREAM_REPORT` names.
    pub(crate) fn take_reports(&self) -> Result<Reports, String> {
        // Without the file, no process of the program opened the driver.
        let lines = fs::read(self.report()).unwrap_or_default();
        let _ = fs::remove_file(self.report());
        let reports = Reports::parse(&String::from_utf8_lossy(&lines));
        if let Some(path) = env::var_os(REPORT_VARIABLE).filter(|path| !path.is_empty()) {
            let file = fs::OpenOptions::new().append(true).create(true).open(&path);
            file.and_then(|mut file| file.write_all(reports.lines().as_bytes()))
                .map_err(|error| cannot("write", Path::new(&path), &error))?;
        }
        Ok(reports)
    }
}

/// Creates a folder that only this user can read, whose path is absolute.
fn temporary_folder() -> Result<TempDir, String> {
    // An empty variable is the current folder.
    let parent = Path::new(".").join(env::temp_dir());
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    std::path::absolute(&parent)
        .and_then(|parent| builder.prefix(FOLDER_PREFIX).tempdir_in(parent))
        .map_err(|error| cannot("create a folder in", &parent, &error))
}

/// Opens the simulated driver as `run` does. Returns its place, and the runtime libraries' names.
pub(crate) fn try_driver() -> Result<[String; 2], String> {
    let command = ProgramArguments::augment_args(clap::Command::new("run"));
    let matches = command.try_get_matches_from(["run", "--", "true"]);
    let arguments = matches.and_then(|matches| ProgramArguments::from_arg_matches(&matches));
    let arguments = arguments.map_err(|error| error.to_string())?;
    let program = Program::prepare(&arguments, &Schedule::default())?;
    let folder = program.folder.path();
    let mut runtime = runtime_library::MAJORS.map(runtime_library::name).to_vec();
    runtime.retain(|name| folder.join(name).is_file());
    let place = fs::read_link(folder.join(DRIVER_NAMES[0])).unwrap_or_default();
    let carried = CARRIED.map(|_| "carried by this command".to_owned());
    let driver = carried.unwrap_or_else(|| place.display().to_string());
    Ok([driver, runtime.join(", ")])
}

/// The subcommand of [`Program::probe`].
pub(crate) const PROBE: &str = "probe-driver";

/// Opens the driver. Fails if it cannot be loaded or refuses its options, which it has then named
/// on standard error.
pub(crate) fn open_driver() -> ExitCode {
    let refused = |error: &DriverError| error.code() == ResultCode::INVALID_VALUE;
    match Cuda::load() {
        Err(LoadError::Initialization { error }) if refused(&error) => ExitCode::FAILURE,
        Err(LoadError::LibraryMissing { tried }) => {
            let problem = tried.first().map_or("", |attempt| &attempt.message);
            say(&format!(
                "the simulated driver cannot be loaded: {problem}; if programs may not run from \
                 the temporary folder (`noexec`), name another one in TMPDIR"
            ));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

pub(crate) fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// Returns the loader's search path with the folder before all others.
fn loader_path(folder: &Path) -> Result<OsString, String> {
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&before).filter(|path| !path.as_os_str().is_empty());
    env::join_paths([folder.to_owned()].into_iter().chain(folders))
        .map_err(|error| error.to_string())
}

/// Writes a file that the system runs as a program.
fn write_script(path: &Path, text: &str) -> std::io::Result<()> {
    fs::write(path, text)?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}

#[cfg(unix)]
fn link_to(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn link_to(_target: &Path, _link: &Path) -> std::io::Result<()> {
    let text = "programs run over the simulated driver on Linux";
    Err(std::io::Error::other(text))
}
