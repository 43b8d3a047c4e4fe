//! The subcommand `millstream doctor`: which driver, libraries and compilers of CUDA are found
//! where, whether their versions fit, and what to do if they do not.

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
};

use millstream::{Device, Select};
use millstream_driver::{
    Driver as _,
    cuda::{Cuda, LoadError},
    libraries::{LibrarySpec, NvidiaLibrary},
};
use serde_json::{Value, json};

use crate::{devices, nvcc_search, program, sarif::text, settings::variable};

/// The major and the minor number.
type Version = (i32, i32);

/// The libraries with what needs them, their packages for CUDA 12 and 13 behind `nvidia-`, and
/// whether they have CUDA's version numbers.
#[rustfmt::skip]
const LIBRARIES: [(NvidiaLibrary, &str, [&str; 2], bool); 5] = [
    (NvidiaLibrary::NVRTC, "compiles CUDA C++", ["cuda-nvrtc-cu12", "cuda-nvrtc"], true),
    (NvidiaLibrary::RUNTIME, "runtime API on a GPU", ["cuda-runtime-cu12", "cuda-runtime"], true),
    (NvidiaLibrary::NVVM, "for numba", ["cuda-nvcc-cu12", "nvvm"], false),
    (NvidiaLibrary::CUBLAS, "for products on a GPU", ["cublas-cu12", "cublas"], true),
    (NvidiaLibrary::NCCL, "for several GPUs", ["nccl-cu12", "nccl-cu13"], false),
];

/// The packages of Python with numba for CUDA.
const NUMBA: LibrarySpec = LibrarySpec {
    name: "",
    path_variable: "",
    files: &[("__init__.py", "")],
    wheel_folders: &["numba_cuda/numba/cuda", "numba/cuda"],
};

/// The variables that name a toolkit, and the folder of one that no variable names.
const HOMES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
const TOOLKIT: &str = "/usr/local/cuda";

/// The states of a line: there, absent, which is no mistake, or something to be done.
const FOUND: &str = "found";
const ABSENT: &str = "absent";
const WRONG: &str = "wrong";

/// Prints the checks. The exit status is 1 if something must be done.
pub(crate) fn run(as_json: bool) -> ExitCode {
    let checks = checks();
    let wrong = checks.iter().filter(|check| check["state"] == WRONG);
    let (wrong, release) = (wrong.count(), env!("CARGO_PKG_VERSION"));
    let system = format!("{} {}", env::consts::OS, env::consts::ARCH);
    crate::print(&if as_json {
        let fits = wrong == 0;
        let report =
            json!({ "millstream": release, "system": system, "fits": fits, "checks": checks });
        format!("{report:#}\n")
    } else {
        let names = checks.iter().map(|check| text(&check["name"]).len());
        let width = names.max().unwrap_or(0);
        let lines: String = checks.iter().map(|check| lines(check, width)).collect();
        let end = format!("to be done: {wrong}, marked with ✗");
        let end = if wrong == 0 {
            "nothing must be done"
        } else {
            &end
        };
        format!("millstream {release} on {system}\n\n{lines}\n{end}\n")
    });
    ExitCode::from(u8::from(wrong > 0))
}

/// Returns the lines of a check, whose name is at most as wide as `width`.
fn lines(check: &Value, width: usize) -> String {
    let mark = match text(&check["state"]) {
        FOUND => '✓',
        ABSENT => '–',
        _ => '✗',
    };
    let [name, version, what] = ["name", "version", "text"].map(|key| text(&check[key]));
    let indent = format!("\n{:1$}", "", width + 11);
    let remedy = check["remedy"]
        .as_str()
        .map(|remedy| format!("{indent}→ {remedy}"));
    let (what, remedy) = (what.replace('\n', &indent), remedy.unwrap_or_default());
    format!("{mark} {name:<width$}  {version:<5}  {what}{remedy}\n")
}

fn check(name: &str, state: &str, text: impl Into<String>) -> Value {
    json!({ "name": name, "state": state, "version": null, "text": text.into(), "remedy": null })
}

/// Changes a check to one of something to be done, by this command.
fn mark_wrong(check: &mut Value, why: &str, remedy: String) {
    check["text"] = format!("{}: {why}", text(&check["text"])).into();
    check["state"] = WRONG.into();
    check["remedy"] = remedy.into();
}

fn checks() -> Vec<Value> {
    let (mut checks, driver) = driver();
    match program::try_driver() {
        Ok([driver, runtime]) => checks.extend([
            check("simulated driver", FOUND, driver),
            check("simulated runtime", FOUND, runtime),
        ]),
        Err(problem) => checks.push(check("simulated driver", WRONG, problem)),
    }
    checks.push(match Device::open(Select::Auto) {
        Ok(device) => {
            // The reason why there is no GPU is that of the driver, above.
            let reason = device.selection_reason().split(':').next();
            let text = format!("{} ({})", device.name(), reason.unwrap_or_default());
            check("default device", FOUND, text)
        }
        Err(error) => check("default device", WRONG, error.to_string()),
    });
    let mut nvrtc = None;
    for library in LIBRARIES {
        let (mut check, version) = installed(&library, driver, nvrtc);
        check["version"] = version.map(version_text).into();
        nvrtc = nvrtc.or(version);
        checks.push(check);
    }
    checks.push(nvcc());
    checks.extend(variables());
    checks
}

fn version_text((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

/// Returns the lines about NVIDIA's driver, and the CUDA version that it supports.
fn driver() -> (Vec<Value>, Option<Version>) {
    let loaded = Cuda::load();
    let simulated = mapped("libmillstream_libcuda").map(|file| file + ", which is simulated");
    let place = mapped("libcuda.so").or(simulated).unwrap_or_default();
    let module = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let place = format!("{place}\n{}", module.lines().next().unwrap_or_default());
    let driver = match loaded {
        Ok(cuda) => {
            let version = cuda
                .driver_version()
                .ok()
                .map(|it| (it / 1000, it % 1000 / 10));
            let mut checks = vec![check("driver", FOUND, place.trim_end())];
            checks[0]["version"] = version.map(version_text).into();
            let lines = devices::driver_lines("cuda:", &*cuda);
            let lines = lines.lines().filter_map(|line| line.split_once(' '));
            let lines = lines.filter(|(name, _)| name.starts_with("cuda:"));
            checks.extend(lines.map(|(name, text)| check(name, FOUND, text)));
            return (checks, version);
        }
        Err(LoadError::LibraryMissing { .. }) if module.is_empty() => check(
            "driver",
            ABSENT,
            "not installed: programs run on the simulated device",
        ),
        Err(error) => check("driver", WRONG, format!("{error}\n{place}").trim_end()),
    };
    (vec![driver], None)
}

/// Returns the line about a library, beside the driver and NVRTC, and its version.
fn installed(
    (library, purpose, packages, is_cuda): &(NvidiaLibrary, &str, [&str; 2], bool),
    driver: Option<Version>,
    nvrtc: Option<Version>,
) -> (Value, Option<Version>) {
    let spec = library.spec();
    let install = |version: Version, exactly: &str| {
        let package = packages[usize::from(version.0 > 12)];
        format!("python3 -m pip install \"nvidia-{package}{exactly}\"")
    };
    let (found, version) = match library.load() {
        Ok(found) => found,
        Err(error) => {
            // A file that is there, or that a variable names, should be usable.
            let is_broken = spec.first_file().is_some() || variable(spec.path_variable).is_some();
            let numba = spec.name == "libNVVM" && NUMBA.first_file().is_some();
            let text = format!("not found: {purpose}");
            let text = if is_broken { error.to_string() } else { text };
            let state = if is_broken || numba { WRONG } else { ABSENT };
            let mut check = check(spec.name, state, text);
            check["remedy"] = install(driver.or(nvrtc).unwrap_or((13, 0)), "").into();
            return (check, None);
        }
    };
    let file = found.file().map(|file| file.display().to_string());
    let stem = spec.files[0].0.split_inclusive(".so").next();
    let place = file.or_else(|| mapped(stem?));
    let place = place.unwrap_or_else(|| found.origin().to_owned());
    let mut check = check(spec.name, FOUND, place);
    match (version.filter(|_| *is_cuda), driver, nvrtc) {
        (Some(own), Some(driver), None) if own > driver && spec.name == "NVRTC" => {
            let why = "newer than the driver, which does not load its PTX";
            let exactly = format!("=={}.*", version_text(driver));
            mark_wrong(&mut check, why, install(driver, &exactly));
        }
        (Some(own), Some(driver), _) if own.0 > driver.0 => {
            mark_wrong(&mut check, "it needs a newer driver", install(driver, ""));
        }
        (Some(own), _, Some(nvrtc)) if own.0 != nvrtc.0 => {
            let why = "NVRTC is of another version of CUDA";
            mark_wrong(&mut check, why, install(nvrtc, ""));
        }
        _ => {}
    }
    (check, version)
}

/// Returns the line about the compiler.
fn nvcc() -> Value {
    let Ok(file) = nvcc_search::find() else {
        let text = "not found: only `millstream-nvcc` uses it";
        return check("nvcc", ABSENT, text);
    };
    let mut check = check("nvcc", FOUND, file.display().to_string());
    match Command::new(&file).arg("--version").output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let release = text
                .split_once("release ")
                .and_then(|(_, text)| text.split_once(','));
            check["version"] = release.map(|(release, _)| release).into();
        }
        Err(error) => {
            let remedy = format!("chmod +x {}", file.display());
            mark_wrong(&mut check, &error.to_string(), remedy);
        }
    }
    check
}

/// Returns the lines about variables, most of which name folders.
fn variables() -> Vec<Value> {
    let has_toolkit = Path::new(TOOLKIT).is_dir();
    let folders = HOMES
        .into_iter()
        .chain(["CUDA_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"]);
    let mut checks = Vec::new();
    for (name, value) in folders.filter_map(|name| Some((name, variable(name)?))) {
        let mut check = check(name, FOUND, &*value);
        if !env::split_paths(&value).any(|folder| folder.is_dir()) {
            let remedy = match has_toolkit && HOMES.contains(&name) {
                true => format!("export {name}={TOOLKIT}"),
                false => format!("unset {name}"),
            };
            mark_wrong(&mut check, "there is no such folder", remedy);
        }
        checks.push(check);
    }
    if has_toolkit && HOMES.into_iter().all(|home| variable(home).is_none()) {
        let mut check = check(
            HOMES[0],
            ABSENT,
            "not set: no toolkit is searched for libraries",
        );
        check["remedy"] = format!("export {}={TOOLKIT}", HOMES[0]).into();
        checks.push(check);
    }
    let others = [
        "LD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "MILLSTREAM_DEVICE",
    ];
    let others = others
        .iter()
        .filter_map(|name| Some(check(name, FOUND, variable(name)?)));
    checks.extend(others);
    checks
}

/// Returns the file of a library that this process has loaded, by the beginning of its name.
fn mapped(stem: &str) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mut files = maps
        .lines()
        .filter_map(|line| Some(&line[line.find('/')?..]));
    let is_named =
        |file: &&str| (file.rsplit('/').next()).is_some_and(|name| name.starts_with(stem));
    files.find(is_named).map(str::to_owned)
}
