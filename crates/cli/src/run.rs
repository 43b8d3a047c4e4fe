//! `millstream run`: runs a program with the simulated device in the place of the CUDA driver.
//!
//! The loader finds the library `millstream-libcuda` under the names of the driver in a temporary
//! folder. The library prints its report when the program ends, and also writes it to a file there,
//! one line of JSON for each process that used the device.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

use clap::Args;

/// The file name of the library.
const LIBRARY: &str = "libmillstream_libcuda.so";

/// The names under which programs look for the driver.
const DRIVER_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// The arguments of `millstream run`.
#[derive(Args)]
pub(crate) struct Arguments {
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
    /// The schedule: timed, eager, lazy, random or pct.
    #[arg(long)]
    schedule: Option<String>,
    /// The seed of a random schedule.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The race check: on, off, kernels (also within kernels) or notes.
    #[arg(long, value_name = "CHECK")]
    race: Option<String>,
    /// The exit status if the program succeeds but has problems.
    #[arg(long, value_name = "N", default_value_t = 1)]
    exit_code: u8,
    /// Writes the report to this file, one line of JSON for each process that used the device.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The library, if it is not beside this command.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, last = true)]
    program: Vec<OsString>,
}

/// A temporary folder, removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system, which cleans temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Arguments {
    /// Returns the value of `MILLSTREAM_DEVICE` for the options.
    fn simulation(&self) -> String {
        let options = [
            ("devices", self.devices.map(|count| count.to_string())),
            ("memory", self.memory.clone()),
            ("schedule", self.schedule.clone()),
            ("seed", self.seed.map(|seed| seed.to_string())),
            ("race", self.race.clone()),
        ];
        let given: Vec<String> = options
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
            .collect();
        if given.is_empty() {
            "sim".to_owned()
        } else {
            format!("sim:{}", given.join(","))
        }
    }

    /// Returns the path of the library.
    fn find_library(&self) -> Result<PathBuf, String> {
        let candidates = match &self.library {
            Some(given) => vec![given.clone()],
            None => {
                let this = env::current_exe().map_err(|error| error.to_string())?;
                let folder = this.parent().unwrap_or(Path::new("."));
                vec![folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)]
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
                    "cannot find the simulated driver at {}; build it with `cargo build --release \
                     -p millstream-libcuda`, or name it with --library",
                    tried.join(" or ")
                )
            })
    }
}

/// Runs the program. Returns its exit status, or that of `--exit-code` if it succeeded with
/// problems.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let library = arguments.find_library()?;
    let name = format!("millstream-run-{}", std::process::id());
    let folder = Folder(env::temp_dir().join(name));
    fs::create_dir(&folder.0).map_err(|error| cannot("create", &folder.0, &error))?;
    for name in DRIVER_NAMES {
        let link = folder.0.join(name);
        link_to(&library, &link).map_err(|error| cannot("create", &link, &error))?;
    }
    let report = folder.0.join("report.jsonl");
    let (program, program_arguments) = arguments.program.split_first().expect("clap requires one");
    let mut command = Command::new(program);
    command
        .args(program_arguments)
        .env("LD_LIBRARY_PATH", loader_path(&folder.0)?)
        .env("MILLSTREAM_DEVICE", arguments.simulation())
        .env("MILLSTREAM_REPORT", &report);
    for (variable, value) in [
        ("MILLSTREAM_KIND", &arguments.device),
        ("MILLSTREAM_CUDA", &arguments.cuda),
    ] {
        if let Some(value) = value {
            command.env(variable, value);
        }
    }
    let status = command
        .status()
        .map_err(|error| cannot("run", Path::new(program), &error))?;
    // Without the file, no process of the program used the device until its end.
    let lines = fs::read_to_string(&report).unwrap_or_default();
    if lines.is_empty() {
        eprintln!(
            "millstream: no report: the program did not initialise the driver, or did not end by \
             `exit`"
        );
    }
    if let Some(file) = &arguments.json {
        fs::write(file, &lines).map_err(|error| cannot("write", file, &error))?;
    }
    let code = exit_code(status);
    if code == 0 && lines.lines().any(|line| !line.contains("\"problems\":[]")) {
        return Ok(arguments.exit_code.into());
    }
    Ok(code.into())
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// Returns the loader's search path with the folder before all others.
fn loader_path(folder: &Path) -> Result<OsString, String> {
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&before).filter(|path| !path.as_os_str().is_empty());
    env::join_paths([folder.to_owned()].into_iter().chain(folders))
        .map_err(|error| error.to_string())
}

/// Returns the program's exit status; 128 and the signal's number for a program that a signal
/// ended, as shells do.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 | signal as u8;
    }
    status.code().map_or(1, |code| code as u8)
}

#[cfg(unix)]
fn link_to(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn link_to(_target: &Path, _link: &Path) -> std::io::Result<()> {
    Err(std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        "programs run over the simulated driver on Linux",
    ))
}
