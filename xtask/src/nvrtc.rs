//! NVRTC for the tests of kernels that are compiled at run time, installed by pip.

use std::path::PathBuf;

use crate::process;

/// The package, in the version whose messages the tests know to the letter.
const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12==12.0.76";

/// Returns the folder with NVRTC, which is installed below cargo's output folder if it is missing.
/// `None` if that fails: tests that need NVRTC are then listed as ignored.
pub(crate) fn folder() -> Option<PathBuf> {
    let wheels = process::target_folder().join("nvrtc");
    let folder = wheels.join("nvidia/cuda_nvrtc/lib");
    if folder.is_dir() {
        return Some(folder);
    }
    let mut pip = process::command("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&wheels)
        .arg(PACKAGE);
    match process::run(&mut pip) {
        Ok(()) => folder.is_dir().then_some(folder),
        Err(error) => {
            println!("NVRTC cannot be installed, so the tests that need it are ignored: {error}");
            None
        }
    }
}
