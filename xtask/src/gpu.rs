//! `cargo xtask gpu`: gathers what is worth running on a GPU in one folder, for a machine that has
//! a driver but neither Rust nor this repository. What is gathered reads no file at run time:
//! `CARGO_MANIFEST_DIR` means nothing over there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;

/// The folder that is made, which git ignores.
const BUNDLE: &str = "gpu-bundle";

/// The script that runs everything in the folder.
const SCRIPT: &str = include_str!("../gpu-run.sh");

/// The most bytes that the folder may have: what can be sent to a borrowed machine without a second
/// thought.
const BYTES_MAX: u64 = 60 << 20;

/// The packages whose tests and benchmarks drive a device, by the names of their folders.
const PACKAGES: [(&str, &str); 5] = [
    ("millstream-bench", BENCHMARKS),
    ("millstream", "crates/runtime"),
    ("millstream-driver", "crates/driver"),
    ("millstream-sim", "crates/sim"),
    ("millstream-region", "crates/region"),
];

/// The folder of the benchmarks, which are a program of their own.
const BENCHMARKS: &str = "crates/bench";

/// The examples that run on a GPU, each a package in a folder of its name.
const EXAMPLES: [&str; 3] = ["digits", "options", "photos"];

/// Of the simulator's tests, those that run on a GPU as well.
const SIMULATOR_TESTS: [&str; 2] = ["conformance", "ptx"];

/// Tests that drive no device but the compiler, which the other machine lacks.
const COMPILER_TESTS: [&str; 2] = ["compile_fail", "ui"];

/// What `cargo xtask gpu` is told; without any of it, everything is gathered.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Gather the tests.
    #[arg(long)]
    tests: bool,
    /// Gather the benchmarks.
    #[arg(long)]
    benches: bool,
    /// Gather the examples.
    #[arg(long)]
    examples: bool,
}

/// What a program in the folder is, which decides how it is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Test,
    Bench,
    Example,
}

impl Kind {
    /// The folder within the bundle.
    fn folder(self) -> &'static str {
        match self {
            Kind::Test => "tests",
            Kind::Bench => "benches",
            Kind::Example => "examples",
        }
    }
}

/// One program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    kind: Kind,
    /// Unique among those of its kind.
    name: String,
    executable: PathBuf,
}

/// Builds, gathers, strips, packs and weighs.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = !options.tests && !options.benches && !options.examples;
    let mut programs = Vec::new();
    if all || options.tests {
        programs.extend(build(&["test", "--no-run", "--tests"], &packages())?);
    }
    if all || options.benches {
        programs.extend(build(&["build"], &["millstream-bench"])?);
    }
    if all || options.examples {
        programs.extend(build(&["build"], &EXAMPLES)?);
    }
    if programs.is_empty() {
        bail!("nothing was built that is worth running on a GPU");
    }
    let bundle = process::root().join(BUNDLE);
    gather(&programs, &bundle)?;
    let bytes = weigh(&programs, &bundle)?;
    println!(
        "{BUNDLE}/: {} programs, {:.1} MiB",
        programs.len(),
        bytes as f64 / f64::from(1 << 20)
    );
    if bytes > BYTES_MAX {
        bail!("{BUNDLE}/ is larger than {} MiB", BYTES_MAX >> 20);
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
            serde_json::from_str(line).context("cargo printed something else than JSON")?;
        programs.extend(program(&message));
    }
    Ok(programs)
}

/// The program that one of cargo's messages tells of, if it is one for the bundle.
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
        // The runtime's unit tests are about its logic alone; what drives a device there are its
        // integration tests.
        "lib" if *folder == "crates/driver" => Kind::Test,
        "test" if *folder == "crates/sim" && !SIMULATOR_TESTS.contains(&target) => return None,
        "test" if !COMPILER_TESTS.contains(&target) => Kind::Test,
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

/// Makes the folder anew, with the programs, stripped of what only a debugger wants and packed, and
/// the script.
fn gather(programs: &[Program], bundle: &Path) -> Result<()> {
    if bundle.exists() {
        std::fs::remove_dir_all(bundle)
            .with_context(|| format!("cannot remove {}", bundle.display()))?;
    }
    for program in programs {
        let target = target(program, bundle);
        let folder = target
            .parent()
            .expect("a program lies in the folder of its kind");
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::copy(&program.executable, &target)
            .with_context(|| format!("cannot write {}", target.display()))?;
        process::run(process::command("strip").arg(&target))?;
        // The script unpacks it: each program has the library in it, and together they are too
        // large to send.
        process::run(process::command("gzip").arg("--force").arg(&target))?;
    }
    let script = bundle.join("run.sh");
    std::fs::write(&script, SCRIPT)
        .with_context(|| format!("cannot write {}", script.display()))?;
    process::run(process::command("chmod").arg("+x").arg(&script))
}

/// Where a program lies in the bundle.
fn target(program: &Program, bundle: &Path) -> PathBuf {
    bundle.join(program.kind.folder()).join(&program.name)
}

/// Prints the size of each program and returns their sum, in bytes.
fn weigh(programs: &[Program], bundle: &Path) -> Result<u64> {
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

    /// What the bundle makes of an artifact of this package folder, target kind and name, built
    /// with a test harness or not.
    fn chosen(folder: &str, kind: &str, name: &str, test: bool) -> Option<(Kind, String)> {
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
    fn programs_that_drive_a_device_are_chosen() {
        assert_eq!(
            chosen("crates/runtime", "test", "streams", true),
            Some((Kind::Test, "millstream-streams".into()))
        );
        assert_eq!(
            chosen("crates/driver", "lib", "millstream_driver", true),
            Some((Kind::Test, "millstream-driver-millstream_driver".into()))
        );
        assert_eq!(
            chosen("crates/sim", "test", "conformance", true),
            Some((Kind::Test, "millstream-sim-conformance".into()))
        );
        assert_eq!(
            chosen("crates/sim", "test", "ptx", true),
            Some((Kind::Test, "millstream-sim-ptx".into()))
        );
        assert_eq!(
            chosen("crates/bench", "bin", "millstream-bench", false),
            Some((Kind::Bench, "millstream-bench".into()))
        );
        assert_eq!(
            chosen("examples/photos", "bin", "photos", false),
            Some((Kind::Example, "photos".into()))
        );
    }

    #[test]
    fn other_programs_are_not() {
        assert_eq!(chosen("crates/runtime", "lib", "millstream", true), None);
        assert_eq!(chosen("crates/runtime", "test", "compile_fail", true), None);
        assert_eq!(chosen("examples/photos", "bin", "photos", true), None);
        assert_eq!(chosen("crates/sim", "test", "kernels", true), None);
        assert_eq!(
            chosen("crates/bench", "bin", "millstream-bench", true),
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
