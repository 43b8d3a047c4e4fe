//! Runs a scenario of this program with the drop-in driver in the place of the GPU's.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
};

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

/// Runs the scenario in a process of its own.
///
/// # Errors
///
/// If it fails, or if the driver reports a problem.
pub(crate) fn run(name: &str) -> Result<(), String> {
    let driver = shim(name).map_err(|error| format!("cannot prepare the driver: {error}"))?;
    let interposed = interposed(&driver)?;
    let output = env::current_exe().and_then(|executable| {
        Command::new(executable)
            .args(["client", name])
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
    if output.status.success() && errors.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{errors}", output.status))
}
