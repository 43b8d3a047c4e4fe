//! Installs the projects from their registries, and the library under the names of the driver.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The names under which programs look for the driver.
const DRIVER_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Links the library into a folder under the driver's names, and returns the folder. Without a
/// library, builds it first.
pub(crate) fn driver(folder: &Path, library: Option<&Path>) -> Result<PathBuf> {
    let library = match library {
        Some(given) => given.to_owned(),
        None => {
            let build = "build --release --package millstream-libcuda";
            process::run(&mut process::cargo(build))?;
            process::target_folder().join("release/libmillstream_libcuda.so")
        }
    };
    let library = library
        .canonicalize()
        .with_context(|| format!("cannot find {}", library.display()))?;
    let driver = folder.join("driver");
    std::fs::create_dir_all(&driver).context("cannot create the driver's folder")?;
    for name in DRIVER_NAMES {
        let link = driver.join(name);
        // Left over by an earlier run, perhaps with another library.
        let _ = std::fs::remove_file(&link);
        link_to(&library, &link).with_context(|| format!("cannot create {}", link.display()))?;
    }
    Ok(driver)
}

#[cfg(unix)]
fn link_to(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn link_to(_target: &Path, _link: &Path) -> std::io::Result<()> {
    let problem = "the library takes the place of the driver on Linux";
    Err(std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        problem,
    ))
}

/// Creates a virtual environment with the packages that the file `requirements` lists, unless it is
/// there in these versions, and returns its interpreter.
pub(crate) fn python(folder: &Path, requirements: &str) -> Result<PathBuf> {
    let file = requirements;
    let requirements = process::read(file)?;
    let environment = folder.join("python");
    let python = environment.join("bin/python");
    let stamp = environment.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == requirements) {
        return Ok(python);
    }
    let mut venv = Command::new("python3");
    process::run(venv.args(["-m", "venv"]).arg(&environment))?;
    let mut pip = process::command(&python.to_string_lossy());
    pip.args(["-m", "pip", "install", "--quiet"]);
    pip.args(["--disable-pip-version-check", "--requirement", file]);
    process::run(&mut pip)?;
    std::fs::write(&stamp, requirements).context("cannot write the list of packages")?;
    Ok(python)
}

/// Returns the folder with the NVRTC whose messages the tests know to the letter; installs it if it
/// is missing. `None` if that fails: tests that need NVRTC are then listed as ignored.
pub(crate) fn nvrtc() -> Option<PathBuf> {
    let wheels = process::target_folder().join("nvrtc");
    let folder = wheels.join("nvidia/cuda_nvrtc/lib");
    if !folder.is_dir()
        && let Err(error) = process::pip(&wheels, &["nvidia-cuda-nvrtc-cu12==12.0.76"])
    {
        println!("NVRTC cannot be installed, so the tests that need it are ignored: {error}");
    }
    folder.is_dir().then_some(folder)
}

/// Copies the sources of a published crate, and returns the folder of the copy.
pub(super) fn crate_sources(folder: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let copy = folder.join(format!("{name}-{version}"));
    if copy.join("Cargo.toml").exists() {
        return Ok(copy);
    }
    // A crate that depends on the one to copy makes cargo fetch it.
    let user = folder.join("user");
    process::write(&user.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{name} = \"={version}\"\n"
    );
    process::write(&user.join("Cargo.toml"), manifest)?;
    let mut cargo = process::cargo("metadata --format-version=1");
    let metadata = process::output(cargo.current_dir(&user))?;
    let sources = manifest_folder(&metadata, name)?;
    copy_folder(&sources, &copy)?;
    // The target folder may be inside of this workspace, which the crate does not belong to.
    let manifest = copy.join("Cargo.toml");
    let own = std::fs::read_to_string(&manifest).context("cannot read the crate's manifest")?;
    process::write(&manifest, own + "\n[workspace]\n")?;
    Ok(copy)
}

/// Returns the folder of a package in the output of `cargo metadata`.
fn manifest_folder(metadata: &str, name: &str) -> Result<PathBuf> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let found = packages.iter().find(|package| package["name"] == name);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.with_context(|| format!("{name} is no package"))?);
    Ok(manifest.parent().unwrap_or(Path::new("")).to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let problem = || format!("cannot copy {}", from.display());
    std::fs::create_dir_all(to).with_context(problem)?;
    for entry in std::fs::read_dir(from).with_context(problem)? {
        let entry = entry.with_context(problem)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target).with_context(problem)?;
        }
    }
    Ok(())
}
