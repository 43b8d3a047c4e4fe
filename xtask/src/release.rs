//! `cargo xtask release`: the files that users download. The packages, and the command `millstream`
//! as a wheel and as an archive for each [target](TARGETS), with their checksums.
//!
//! The command is one file, which carries its driver. Zig links it, against the glibc of an old
//! system.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::{clients::install, package, process};

/// A platform, and its name in the archive's: those on which nothing was run are marked.
pub(crate) struct Target {
    triple: &'static str,
    name: &'static str,
}

pub(crate) const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        name: "x86_64-linux",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        name: "aarch64-linux-untested",
    },
];

/// The oldest supported glibc is 2.28, that of Debian 10 and Red Hat Enterprise Linux 8.
const GLIBC: u32 = 28;

/// The Python packages that build and check wheels.
const REQUIREMENTS: &str = "xtask/install/release.txt";

const TEXTS: [(&str, &str); 3] = [
    ("crates/cli/README.md", "README.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
];

/// Makes all files.
pub(crate) fn run() -> Result<()> {
    package::run()?;
    let folder = command(&TARGETS)?;
    let checksums = fs::read_to_string(folder.join("SHA256SUMS")).context("no checksums")?;
    println!("in {}:\n{}", folder.display(), checksums.trim_end());
    Ok(())
}

/// Makes the wheels and the archives of the command, in a new folder, which it returns.
pub(crate) fn command(targets: &[Target]) -> Result<PathBuf> {
    let folder = process::target_folder().join("release-files");
    process::remove_folder(&folder)?;
    let python = install::python(
        &process::target_folder().join("release-tools"),
        REQUIREMENTS,
    )?;
    let programs = python.parent().context("an interpreter lies in a folder")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [programs.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path)?;
    for target in targets {
        let mut maturin = process::command("maturin");
        maturin.args(["build", "--zig", "--target", target.triple]);
        maturin.args(["--manifest-path", "crates/cli/Cargo.toml", "--out"]);
        maturin
            .arg(&folder)
            .arg(format!("--compatibility=manylinux_2_{GLIBC}"));
        maturin.env("PATH", &path);
        maturin.env("CARGO_TARGET_DIR", process::target_folder());
        process::run(&mut maturin)?;
        let built = process::target_folder().join(target.triple).join("dist");
        archive(&built, &folder, target.name)?;
    }
    for wheel in files(&folder, ".whl")? {
        let mut auditwheel = process::command("auditwheel");
        let auditwheel = auditwheel.arg("show").arg(folder.join(&wheel));
        let found = process::output(auditwheel.env("PATH", &path))?;
        // Its text has line breaks anywhere.
        let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
        println!("{found}");
        ensure!(
            newest(found.as_bytes(), "platform tag: \"manylinux_2_") <= Some(GLIBC),
            "auditwheel does not confirm the tag of {wheel}"
        );
    }
    let mut checksums = process::command("sha256sum");
    let checksums = checksums.current_dir(&folder).args(files(&folder, "")?);
    let checksums = process::output(checksums)?;
    process::write(&folder.join("SHA256SUMS"), checksums)?;
    Ok(folder)
}

/// Returns the names of the files with this ending.
pub(crate) fn files(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.read_dir().context("cannot list the files")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && name.ends_with(ending) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Makes the archive of the command in `built`.
fn archive(built: &Path, folder: &Path, target: &str) -> Result<()> {
    let program = built.join("millstream");
    let program =
        fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    // auditwheel does not see the library that the program carries.
    let glibc = newest(&program, "GLIBC_2.");
    ensure!(
        glibc <= Some(GLIBC),
        "the command or its driver needs glibc 2.{glibc:?}"
    );
    let name = format!(
        "millstream-{}-{target}",
        package::version("millstream-cli")?
    );
    let contents = folder.join(&name);
    process::write(&contents.join("bin/millstream"), program)?;
    let compiler = fs::read(built.join("millstream-nvcc")).context("no millstream-nvcc")?;
    process::write(&contents.join("bin/millstream-nvcc"), compiler)?;
    for (from, to) in TEXTS {
        process::write(&contents.join(to), process::read(from)?)?;
    }
    process::run(
        process::command("chmod")
            .args(["755".as_ref(), contents.join("bin/millstream").as_os_str()])
            .arg(contents.join("bin/millstream-nvcc")),
    )?;
    let mut tar = process::command("tar");
    tar.current_dir(folder);
    process::run(
        tar.args(["--owner=0", "--group=0", "--remove-files", "-czf"])
            .args([format!("{name}.tar.gz"), name]),
    )
}

/// Returns the greatest number that follows `prefix`.
fn newest(bytes: &[u8], prefix: &str) -> Option<u32> {
    let starts = bytes.windows(prefix.len()).enumerate();
    let numbers = starts.filter(|(_, found)| *found == prefix.as_bytes());
    let numbers = numbers.filter_map(|(start, _)| {
        let digits = bytes[start + prefix.len()..].iter();
        let digits: String = digits
            .map(|byte| char::from(*byte))
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    });
    numbers.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_of_a_program_is_found() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.34\0\xffGLIBC_2.17\0GLIBC_PRIVATE\0GLIBC_2.";
        assert_eq!(newest(program, "GLIBC_2."), Some(34));
        assert_eq!(newest(b"", "GLIBC_2."), None);
    }

    #[test]
    fn the_action_and_the_template_install_the_version_of_the_command() {
        let package = format!(
            "default: millstream=={}\n",
            package::version("millstream-cli").unwrap()
        );
        for file in ["action.yml", "templates/millstream.yml"] {
            assert!(process::read(file).unwrap().contains(&package), "{file}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_archive_has_the_program_that_may_be_run_and_the_licences() {
        let scratch = process::target_folder().join("archive-test");
        process::remove_folder(&scratch).unwrap();
        process::write(&scratch.join("built/millstream"), "GLIBC_2.17").unwrap();
        process::write(&scratch.join("built/millstream-nvcc"), "").unwrap();
        archive(&scratch.join("built"), &scratch, "x").unwrap();
        let [name] = &files(&scratch, ".tar.gz").unwrap()[..] else {
            panic!("no archive")
        };
        let mut list = process::command("tar");
        let listed = process::output(list.current_dir(&scratch).args(["-tvzf", name])).unwrap();
        assert!(
            listed
                .lines()
                .any(|line| line.starts_with("-rwxr-xr-x") && line.ends_with("-x/bin/millstream")),
            "{listed}"
        );
        assert!(listed.contains("-x/LICENSE-MIT\n"), "{listed}");
        process::write(&scratch.join("built/millstream"), "GLIBC_2.39").unwrap();
        archive(&scratch.join("built"), &scratch, "x").unwrap_err();
    }
}
