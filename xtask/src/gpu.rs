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

/// The maximum size of the bundle in MiB, small enough to send to a borrowed machine.
const MEBIBYTES_MAX: f64 = 60.0;

/// The packages whose tests and benchmarks use a device: their folders, and the target that does.
const PACKAGES: [(&str, &str, &str); 7] = [
    ("millstream-bench", BENCHMARKS, "millstream-bench"),
    ("millstream", "crates/runtime", "all"),
    ("millstream-driver", "crates/driver", "millstream_driver"),
    ("sim-tests", "crates/sim/tests", "devices"),
    ("millstream-region", "crates/region", "all"),
    ("millstream-collective", "crates/collective", "all"),
    ("millstream-cli", "crates/cli", "all"),
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

/// A program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    /// The path in the bundle, in the folder `tests`, `benches` or `examples`.
    place: String,
    executable: PathBuf,
}

/// Builds, strips and compresses the programs, and checks the size of the bundle.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = !options.tests && !options.benches && !options.examples;
    let mut programs = Vec::new();
    if all || options.tests {
        let packages = PACKAGES.map(|(package, ..)| package);
        programs.extend(build("test --no-run --tests", &packages)?);
    }
    if all || options.benches {
        programs.extend(build("build", &["millstream-bench"])?);
        // Only if it was built: it needs packages for Python, and this one does not.
        let executable = nvidia::executable();
        if executable.is_file() {
            let place = format!("benches/{}", nvidia::NAME);
            programs.push(Program { place, executable });
        }
    }
    if all || options.examples {
        programs.extend(build("build", &EXAMPLES)?);
    }
    if programs.is_empty() {
        bail!("cargo built no program for the bundle");
    }
    let mebibytes = bundle(&programs, &process::root().join(BUNDLE))? as f64 / f64::from(1 << 20);
    println!("{BUNDLE}/: {} programs, {mebibytes:.1} MiB", programs.len());
    if mebibytes > MEBIBYTES_MAX {
        bail!(
            "{BUNDLE}/ has {mebibytes:.1} MiB, more than {MEBIBYTES_MAX}, the most that is easy to \
             send: leave programs out with --tests, --benches or --examples"
        );
    }
    println!("on a machine with a GPU: {BUNDLE}/run.sh");
    Ok(())
}

/// Runs cargo with `arguments` for these packages and returns the programs that it built.
fn build(arguments: &str, packages: &[&str]) -> Result<Vec<Program>> {
    let mut cargo = process::cargo(arguments);
    cargo.args(["--release", "--message-format=json-render-diagnostics"]);
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
    let kind = message["target"]["kind"][0].as_str()?;
    let is_program = kind == "bin" && message["profile"]["test"] == false;
    let is_example = |name: &&str| is_of(&format!("examples/{name}"));
    if is_program && EXAMPLES.iter().any(is_example) {
        let place = format!("examples/{target}");
        return Some(Program { place, executable });
    }
    let is_bundled = |(_, folder, name): &&(&str, &str, &str)| is_of(folder) && *name == target;
    let (package, folder, _) = PACKAGES.iter().find(is_bundled)?;
    if *folder == BENCHMARKS {
        let place = format!("benches/{target}");
        return is_program.then_some(Program { place, executable });
    }
    Some(Program {
        place: format!("tests/{package}-{target}"),
        executable,
    })
}

/// Creates the bundle anew, with the stripped and compressed programs and the script. Prints the
/// size of each program, and returns the total in bytes.
fn bundle(programs: &[Program], bundle: &Path) -> Result<u64> {
    process::remove_folder(bundle)?;
    let run = |program: &str, argument: &str, file: &Path| {
        process::run(process::command(program).arg(argument).arg(file))
    };
    let mut sum = 0;
    for Program { place, executable } in programs {
        let target = bundle.join(place);
        let contents = std::fs::read(executable);
        let context = || format!("cannot read {}", executable.display());
        process::write(&target, contents.with_context(context)?)?;
        run("chmod", "+x", &target)?;
        run("strip", "--strip-all", &target)?;
        // The script decompresses it. Each program contains the library, and uncompressed they are
        // too large to send.
        run("gzip", "--force", &target)?;
        let bytes = target.with_extension("gz").metadata()?.len();
        println!("{:8.1} MiB  {place}", bytes as f64 / f64::from(1 << 20));
        sum += bytes;
    }
    let script = bundle.join("run.sh");
    process::write(&script, SCRIPT)?;
    run("chmod", "+x", &script)?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the place of the program of a build artifact with this package folder, target kind
    /// and name, built with a test harness or not.
    fn place(folder: &str, kind: &str, name: &str, test: bool) -> Option<String> {
        let message = json!({
            "reason": "compiler-artifact",
            "manifest_path": format!("/somewhere/{folder}/Cargo.toml"),
            "target": { "kind": [kind], "name": name },
            "profile": { "test": test },
            "executable": "/somewhere/target/release/deps/x-0123456789abcdef",
        });
        program(&message).map(|program| program.place)
    }

    #[test]
    fn programs_that_use_a_device_are_bundled_and_no_others() {
        // Folder, kind and name of the target, whether it has a test harness, and the place.
        let table = "
            crates/runtime test all true tests/millstream-all
            crates/driver lib millstream_driver true tests/millstream-driver-millstream_driver
            crates/sim/tests test devices true tests/sim-tests-devices
            crates/bench bin millstream-bench false benches/millstream-bench
            examples/photos bin photos false examples/photos
            crates/runtime lib millstream true -
            crates/sim/tests test all true -
            crates/bench bin millstream-bench true -
        ";
        for line in table.trim().lines() {
            let [folder, kind, name, test, expected] = line
                .split_whitespace()
                .collect::<Vec<_>>()
                .try_into()
                .expect("five words");
            let place = place(folder, kind, name, test == "true");
            assert_eq!(place.as_deref().unwrap_or("-"), expected, "{line}");
        }
        for message in [
            json!({ "reason": "build-finished", "success": true }),
            json!({ "reason": "compiler-artifact", "executable": null }),
        ] {
            assert_eq!(program(&message), None);
        }
    }
}
