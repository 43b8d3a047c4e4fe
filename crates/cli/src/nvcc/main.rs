//! The command `millstream-nvcc`: runs nvcc such that the program has PTX and uses CUDA's runtime
//! library as a shared one, for which the simulated device has its own.
//!
//! Build systems take it in the place of nvcc, such as `CMAKE_CUDA_COMPILER` of CMake. It replaces
//! the architectures by the PTX of the oldest one that is asked for, and `-cudart static` by
//! `-cudart shared`. A folder that it gives to the linker has a stand-in for `libcudart_static.a`.

mod arguments;
mod folder;
#[path = "../nvcc_search.rs"]
mod nvcc_search;

use std::{
    env,
    ffi::OsString,
    io::Write as _,
    process::{Command, ExitCode},
};

use millstream_driver::printable;

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
    let nvcc = nvcc_search::find()?;
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
