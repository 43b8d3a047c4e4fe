//! The command `millstream-nvcc`: runs nvcc such that the program has PTX and uses CUDA's runtime
//! library as a shared one, for which the simulated device has its own.
//!
//! Build systems take it in the place of nvcc, such as `CMAKE_CUDA_COMPILER` of CMake. It replaces
//! the architectures by the PTX of the oldest one that is asked for, and `-cudart static` by
//! `-cudart shared`. A folder that it gives to the linker has a stand-in for `libcudart_static.a`.

mod arguments;
mod folder;

use std::{
    env,
    ffi::OsString,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use millstream_driver::{libraries::LibrarySpec, printable};

/// The compiler in NVIDIA's packages for Python.
const WHEELS: LibrarySpec = LibrarySpec {
    name: "nvcc",
    path_variable: "",
    files: &[("nvcc", "")],
    wheel_folders: &["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"],
};

/// The variables with arguments that nvcc adds at the front and at the end.
const FLAGS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

fn main() -> ExitCode {
    run(env::args_os().skip(1).collect()).unwrap_or_else(|problem| {
        let text = printable(&problem);
        let _ = writeln!(std::io::stderr(), "millstream-nvcc: {text}");
        ExitCode::FAILURE
    })
}

fn run(given: Vec<OsString>) -> Result<ExitCode, String> {
    let nvcc = find()?;
    let folder = folder::prepare(&nvcc)?;
    if given.iter().any(|text| text == "--millstream-library") {
        let library = folder.join(folder::STATIC);
        let _ = writeln!(std::io::stdout(), "{}", library.display());
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(&nvcc);
    let [front, end] = FLAGS.map(|name| {
        let flags = env::var(name).unwrap_or_default();
        arguments::words(&flags)
    });
    let all: Vec<OsString> = front.into_iter().chain(given).chain(end).collect();
    command.args(arguments::translate(all, &folder)?);
    for name in FLAGS {
        command.env_remove(name);
    }
    let status = command.status();
    let status = status.map_err(|error| format!("cannot start {}: {error}", nvcc.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// Returns the path of the compiler.
fn find() -> Result<PathBuf, String> {
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
