//! The search for nvcc: the compiler that `millstream-nvcc` runs, and that `doctor` names.

use std::{
    env,
    path::{Path, PathBuf},
};

use millstream_driver::libraries::LibrarySpec;

/// The compiler in NVIDIA's packages for Python.
const WHEELS: LibrarySpec = LibrarySpec {
    name: "nvcc",
    path_variable: "",
    files: &[("nvcc", "")],
    wheel_folders: &["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"],
};

/// Returns the path of the compiler.
///
/// # Errors
/// Says where it was looked for, and how to install it.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("MILLSTREAM_NVCC").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        let problem = || {
            format!(
                "MILLSTREAM_NVCC names {}, which is no file",
                named.display()
            )
        };
        return is_compiler(&named)
            .then_some(named.clone())
            .ok_or_else(problem);
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(env::var_os);
    let homes = homes.map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = homes
        .chain(env::split_paths(&path))
        .chain(["/usr/local/cuda/bin".into()]);
    let found = folders
        .map(|folder| folder.join("nvcc"))
        .find(|file| is_compiler(file));
    found.or_else(|| WHEELS.first_file()).ok_or_else(|| {
        "found no nvcc: MILLSTREAM_NVCC, CUDA_HOME and CUDA_PATH name none, and neither PATH, \
         /usr/local/cuda nor Python's packages have one. Install it with\n  pip install \
         nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl"
            .to_owned()
    })
}

/// Returns whether a file exists that is not this program under another name.
fn is_compiler(file: &Path) -> bool {
    let this = env::current_exe().and_then(|this| this.canonicalize()).ok();
    let file = file.canonicalize().ok().filter(|file| file.is_file());
    file.is_some() && file != this
}
