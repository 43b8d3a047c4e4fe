//! `cargo xtask gpu`: bundles the tests, benchmarks and examples that use a GPU in one folder, for
//! a machine with a driver but without Rust and this repository.
//!
//! The bundled programs must not read the repository's files at run time, because
//! `CARGO_MANIFEST_DIR` does not exist on that machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{nvidia, process};

/// The folder of the bundle, which git ignores.
const BUNDLE: &str = "gpu-bundle";

/// The script that runs all programs of the bundle.
const SCRIPT: &str = include_str!("../gpu-run.sh");

/// The maximum size of the bundle in bytes, small enough to send to a borrowed machine.
const BYTES_MAX: u64 = 60 << 20;

/// The packages whose tests and benchmarks use a device, with their folders.
const PACKAGES: [(&str, &str); 6] = [
    ("millstream-bench", BENCHMARKS),
    ("millstream", "crates/runtime"),
    ("millstream-driver", "crates/driver"),
    ("millstream-sim", "crates/sim"),
    ("millstream-region", "crates/region"),
    ("millstream-cudarc", "crates/cudarc"),
];

/// The folder of the benchmarks, which are a program and not a test.
const BENCHMARKS: &str = "crates/bench";

/// The examples that run on a GPU, each a package in a folder of its name.
const EXAMPLES: [&str; 6] = [
    "decode",
    "digits",
    "heat",
    "options",
    "photos",
    "rust_kernels",
];

/// The simulator's tests that also run on a GPU.
const SIMULATOR_TESTS: [&str; 2] = ["conformance", "ptx"];

/// Tests that run the compiler, which the other machine lacks, and use no device.
const COMPILER_TESTS: [&str; 2] = ["compile_fail", "ui"];

/// Tests that use simulated devices only, wherever they run.
const SIMULATED_TESTS: [&str; 3] = ["fusion", "mesh", "without_simulator"];

/// The arguments of `cargo xtask gpu`. Without any, everything is bundled.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bundle the tests.
    #[arg(long)]
    tests: bool,
    /// Bundle the benchmarks.
    #[arg(long)]
    benches: bool,
    /// Bundle the examples.
    #[arg(long)]
    examples: bool,
}

/// The kind of a program, which determines its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Test,
    Bench,
    Example,
}

impl Kind {
    /// Returns the folder within the bundle.
    fn folder(self) -> &'static str {
        match self {
            Kind::Test => "tests",
            Kind::Bench => "benches",
            Kind::Example => "examples",
        }
    }
}

/// A program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    kind: Kind,
    /// The name, unique within its kind.
    name: String,
    executable: PathBuf,
}

/// Builds, strips and compresses the programs, and checks the size of the bundle.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = !options.tests && !options.benches && !options.examples;
    let mut programs = Vec::new();
    if all || options.tests {
        programs.extend(build(&["test", "--no-run", "--tests"], &packages())?);
    }
    if all || options.benches {
        programs.extend(build(&["build"], &["millstream-bench"])?);
        // Only if it was built: it needs packages for Python, and this one does not.
        let executable = nvidia::executable();
        if executable.is_file() {
            programs.push(Program {
                kind: Kind::Bench,
                name: nvidia::NAME.to_owned(),
                executable,
            });
        }
    }
    if all || options.examples {
        programs.extend(build(&["build"], &EXAMPLES)?);
    }
    if programs.is_empty() {
        bail!("cargo built no program for the bundle");
    }
    let bundle = process::root().join(BUNDLE);
    bundle_programs(&programs, &bundle)?;
    let bytes = print_sizes(&programs, &bundle)?;
    println!(
        "{BUNDLE}/: {} programs, {:.1} MiB",
        programs.len(),
        bytes as f64 / f64::from(1 << 20)
    );
    if bytes > BYTES_MAX {
        bail!(
            "{BUNDLE}/ has {:.1} MiB, more than {}, the most that is easy to send: leave programs \
             out with --tests, --benches or --examples",
            bytes as f64 / f64::from(1 << 20),
            BYTES_MAX >> 20
        );
    }
    println!("on a machine with a GPU: {BUNDLE}/run.sh");
    Ok(())
}

/// The names of [`PACKAGES`].
fn packages() -> Vec<&'static str> {
    PACKAGES.iter().map(|(package, _)| *package).collect()
}

/// Runs cargo with `arguments` for these packages and returns the programs that it built.
fn build(arguments: &[&str], packages: &[&str]) -> Result<Vec<Program>> {
    let mut cargo = process::command("cargo");
    cargo
        .args(arguments)
        .args(["--release", "--message-format=json-render-diagnostics"]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    let messages = process::output(&mut cargo)?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value =
            serde_json::from_str(line).context("cargo printed a line that is not JSON")?;
        programs.extend(program(&message));
    }
    Ok(programs)
}

/// Returns the program that one of cargo's messages reports, if it belongs to the bundle.
fn program(message: &Value) -> Option<Program> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let is_of = |folder: &str| manifest.ends_with(Path::new(folder).join("Cargo.toml"));
    let target = message["target"]["name"].as_str()?;
    let is_program = message["target"]["kind"][0] == "bin" && message["profile"]["test"] == false;
    if is_program
        && EXAMPLES
            .iter()
            .any(|name| is_of(&format!("examples/{name}")))
    {
        return Some(Program {
            kind: Kind::Example,
            name: target.to_owned(),
            executable,
        });
    }
    let (package, folder) = PACKAGES.iter().find(|(_, folder)| is_of(folder))?;
    let kind = match message["target"]["kind"][0].as_str()? {
        "bin" if *folder == BENCHMARKS && is_program => Kind::Bench,
        // The runtime's unit tests use no device; its integration tests do.
        "lib" if *folder == "crates/driver" => Kind::Test,
        "test" if *folder == "crates/sim" && !SIMULATOR_TESTS.contains(&target) => return None,
        "test" if !COMPILER_TESTS.contains(&target) && !SIMULATED_TESTS.contains(&target) => {
            Kind::Test
        }
        _ => return None,
    };
    let name = match kind {
        Kind::Bench | Kind::Example => target.to_owned(),
        Kind::Test => format!("{package}-{target}"),
    };
    Some(Program {
        kind,
        name,
        executable,
    })
}

/// Creates the folder anew, with the stripped and compressed programs and the script.
fn bundle_programs(programs: &[Program], bundle: &Path) -> Result<()> {
    process::remove_folder(bundle)?;
    for program in programs {
        let target = target(program, bundle);
        let contents = std::fs::read(&program.executable)
            .with_context(|| format!("cannot read {}", program.executable.display()))?;
        process::write(&target, contents)?;
        process::run(process::command("chmod").arg("+x").arg(&target))?;
        process::run(process::command("strip").arg(&target))?;
        // The script decompresses it. Each program contains the library, and uncompressed they are
        // too large to send.
        process::run(process::command("gzip").arg("--force").arg(&target))?;
    }
    let script = bundle.join("run.sh");
    process::write(&script, SCRIPT)?;
    process::run(process::command("chmod").arg("+x").arg(&script))
}

/// Returns the path of a program in the bundle.
fn target(program: &Program, bundle: &Path) -> PathBuf {
    bundle.join(program.kind.folder()).join(&program.name)
}

/// Prints the size of each program and returns the total, in bytes.
fn print_sizes(programs: &[Program], bundle: &Path) -> Result<u64> {
    let mut sum = 0;
    for program in programs {
        let target = target(program, bundle).with_extension("gz");
        let bytes = std::fs::metadata(&target)
            .with_context(|| format!("cannot read {}", target.display()))?
            .len();
        println!(
            "{:8.1} MiB  {}/{}",
            bytes as f64 / f64::from(1 << 20),
            program.kind.folder(),
            program.name
        );
        sum += bytes;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the bundled program for a build artifact with this package folder, target kind and
    /// name, built with a test harness or not.
    fn bundled(folder: &str, kind: &str, name: &str, test: bool) -> Option<(Kind, String)> {
        let message = json!({
            "reason": "compiler-artifact",
            "manifest_path": format!("/somewhere/{folder}/Cargo.toml"),
            "target": { "kind": [kind], "name": name },
            "profile": { "test": test },
            "executable": "/somewhere/target/release/deps/x-0123456789abcdef",
        });
        program(&message).map(|program| (program.kind, program.name))
    }

    #[test]
    fn programs_that_use_a_device_are_bundled() {
        assert_eq!(
            bundled("crates/runtime", "test", "streams", true),
            Some((Kind::Test, "millstream-streams".into()))
        );
        assert_eq!(
            bundled("crates/driver", "lib", "millstream_driver", true),
            Some((Kind::Test, "millstream-driver-millstream_driver".into()))
        );
        assert_eq!(
            bundled("crates/sim", "test", "conformance", true),
            Some((Kind::Test, "millstream-sim-conformance".into()))
        );
        assert_eq!(
            bundled("crates/sim", "test", "ptx", true),
            Some((Kind::Test, "millstream-sim-ptx".into()))
        );
        assert_eq!(
            bundled("crates/bench", "bin", "millstream-bench", false),
            Some((Kind::Bench, "millstream-bench".into()))
        );
        assert_eq!(
            bundled("examples/photos", "bin", "photos", false),
            Some((Kind::Example, "photos".into()))
        );
    }

    #[test]
    fn other_programs_are_not_bundled() {
        assert_eq!(bundled("crates/runtime", "lib", "millstream", true), None);
        assert_eq!(
            bundled("crates/runtime", "test", "compile_fail", true),
            None
        );
        assert_eq!(bundled("examples/photos", "bin", "photos", true), None);
        assert_eq!(bundled("crates/sim", "test", "kernels", true), None);
        assert_eq!(
            bundled("crates/bench", "bin", "millstream-bench", true),
            None
        );
        assert_eq!(
            program(&json!({ "reason": "build-finished", "success": true })),
            None
        );
        assert_eq!(
            program(&json!({ "reason": "compiler-artifact", "executable": null })),
            None
        );
    }
}
