//! The subcommand `millstream compile`: CUDA C++ to the PTX that is checked in beside it.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use millstream::{Cuda, driver::nvrtc, kernel};

/// The architecture of the PTX by default: the oldest one that Millstream supports.
const ARCHITECTURE: &str = "compute_75";

/// The arguments of `millstream compile`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The CUDA C++ files; each result is written beside its source, with the extension `ptx`.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write nothing; fail if a PTX file differs from the output for its source.
    #[arg(long)]
    check: bool,
    /// The virtual architecture to compile for.
    #[arg(long, value_name = "NAME", default_value = ARCHITECTURE)]
    arch: String,
    /// Define a macro.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// Search a folder for headers.
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<PathBuf>,
    /// Further options of NVRTC.
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Compiles all files, or compares them. Returns the lines to print.
///
/// # Errors
///
/// The reason for the first file that cannot be compiled, or that is not up to date.
pub(crate) fn run(arguments: &Arguments) -> Result<String, String> {
    let mut report = String::new();
    for file in &arguments.files {
        let target = file.with_extension("ptx");
        let (ptx, warnings) = compile(file, arguments)?;
        for warning in warnings {
            let _ = writeln!(std::io::stderr(), "{warning}\n");
        }
        report.push_str(&finish(&target, &ptx, arguments.check)?);
    }
    Ok(report)
}

/// Compiles one file to PTX that begins with the hash of its source.
fn compile(
    file: &Path,
    arguments: &Arguments,
) -> Result<(String, Vec<millstream::error::Diagnostic>), String> {
    let options = options(arguments);
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let mut source = Cuda::file(file).map_err(|error| error.to_string())?;
    for option in &options {
        source = source.option(option);
    }
    for folder in &arguments.include {
        source = source.include_folder(folder);
    }
    let (ptx, warnings) = source.to_ptx().map_err(|error| error.to_string())?;
    let compiler = nvrtc::load().map_err(|error| error.to_string())?;
    let (major, minor) = compiler.version();
    let header = kernel::header(&text, &options, &format!("NVRTC {major}.{minor}"));
    Ok((header + &ptx, warnings))
}

/// Returns the options that belong to the result: those for headers name folders of one machine.
fn options(arguments: &Arguments) -> Vec<String> {
    let mut options = vec![format!("--gpu-architecture={}", arguments.arch)];
    let defines = arguments.define.iter();
    options.extend(defines.map(|define| format!("--define-macro={define}")));
    options.extend(arguments.options.iter().cloned());
    options
}

/// Writes the PTX, or compares it with the file. Returns a line to print.
fn finish(target: &Path, ptx: &str, check: bool) -> Result<String, String> {
    let name = target.display();
    let is_same = fs::read_to_string(target).is_ok_and(|found| found == ptx);
    match (is_same, check) {
        (true, _) => Ok(format!("{name} is up to date\n")),
        (false, true) => Err(format!(
            "{name} differs from the output for its source: run `millstream compile` without \
             --check"
        )),
        (false, false) => match fs::write(target, ptx) {
            Ok(()) => Ok(format!("{name} written\n")),
            Err(error) => Err(format!("cannot write {name}: {error}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Arguments {
        Command::parse_from(line.split(' ')).arguments
    }

    #[test]
    fn options_are_those_that_change_the_result() {
        let plain = parse("compile k.cu");
        assert_eq!(options(&plain), ["--gpu-architecture=compute_75"]);
        let all = parse("compile -D A=1 -I /headers --arch compute_90 k.cu -- --fmad=false");
        assert_eq!(
            options(&all),
            [
                "--gpu-architecture=compute_90",
                "--define-macro=A=1",
                "--fmad=false"
            ]
        );
        assert_eq!(all.include, [Path::new("/headers")]);
    }

    #[test]
    fn a_file_is_written_once_and_compared_with_check() {
        let name = format!("millstream-compile-{}.ptx", std::process::id());
        let target = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&target);
        assert!(finish(&target, "one", true).is_err_and(|error| error.contains("--check")));
        assert!(finish(&target, "one", false).is_ok_and(|line| line.ends_with("written\n")));
        assert!(finish(&target, "one", true).is_ok_and(|line| line.ends_with("up to date\n")));
        assert!(finish(&target, "two", true).is_err());
        fs::remove_file(&target).expect("a file is removed");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = run(&parse("compile /millstream/no/such/k.cu")).expect_err("there is none");
        assert!(
            error.starts_with("cannot read /millstream/no/such/k.cu"),
            "{error}"
        );
    }
}
