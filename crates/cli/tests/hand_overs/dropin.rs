//! Runs a scenario of this program with the drop-in driver in the place of the GPU's.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
};

use crate::hand_overs::play::Outcome;

/// Creates a folder in which the library has the names under which programs look for a driver.
fn shim(name: &str) -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("cudarc-{}-{name}", process::id()));
    // Left over by an earlier process with the same id.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let library = env::current_exe()?.with_file_name("libmillstream_libcuda.so");
    for name in ["libcuda.so.1", "libcuda.so"] {
        let link = folder.join(name);
        fs::hard_link(&library, &link).or_else(|_| fs::copy(&library, &link).map(drop))?;
    }
    Ok(folder)
}

/// Compiles the library that counts waits on the host.
fn interposed(folder: &Path) -> Result<PathBuf, String> {
    let library = folder.join("interposed.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hand_overs/interposed.c");
    let compiler = Command::new("gcc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(["-shared", "-fPIC", source, "-o"])
        .arg(&library)
        .output()
        .map_err(|error| format!("gcc is needed: {error}"))?;
    match compiler.status.success() {
        true => Ok(library),
        false => Err(String::from_utf8_lossy(&compiler.stderr).into_owned()),
    }
}

/// The variable of a process with the library in the place of the driver.
const CHILD: &str = "MILLSTREAM_TEST_HAND_OVERS";

/// Runs the scenario of a test: here on a GPU, elsewhere in a process of its own.
///
/// # Errors
///
/// If it fails, or if the driver reports a problem.
pub(crate) fn run(test: &str, scenario: fn() -> Outcome) -> Outcome {
    let on_gpu = env::var("MILLSTREAM_DEVICE").is_ok_and(|name| name.starts_with("cuda"));
    if on_gpu || env::var_os(CHILD).is_some() {
        return scenario();
    }
    let (_, test) = test
        .split_once("::")
        .ok_or("a test's name has its modules")?;
    Ok(run_apart(test)?)
}

/// Runs a test in a process of its own.
fn run_apart(name: &str) -> Result<(), String> {
    let driver = shim(&name.replace("::", "-"))
        .map_err(|error| format!("cannot prepare the driver: {error}"))?;
    let interposed = interposed(&driver)?;
    let output = env::current_exe().and_then(|executable| {
        Command::new(executable)
            .args(["--exact", name, "--test-threads=1"])
            .env(CHILD, "1")
            .env("LD_LIBRARY_PATH", &driver)
            .env("LD_PRELOAD", &interposed)
            .env_remove("MILLSTREAM_DEVICE")
            .env_remove("MILLSTREAM_CUDA")
            .env_remove("MILLSTREAM_KIND")
            .output()
    });
    // The folder is in cargo's, which a clean removes.
    let _ = fs::remove_dir_all(driver);
    let output = output.map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && errors.is_empty() && printed.contains(" 1 passed") {
        return Ok(());
    }
    Err(format!("{}\n{printed}{errors}", output.status))
}
