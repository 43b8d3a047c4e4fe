//! `cargo xtask targets` and `cargo xtask msrv`: check that the crates compile for other platforms,
//! and with the oldest Rust that they support.

use anyhow::{Context, Result};

use crate::process::{self, cargo};

/// The platforms besides Linux on x86-64.
const TARGETS: [&str; 3] = [
    "x86_64-pc-windows-gnu",
    "aarch64-apple-darwin",
    "aarch64-unknown-linux-gnu",
];

/// The arguments of cargo that select the crates for users: not benchmarks, helpers of tests,
/// examples and chores.
pub(crate) const CRATES: [&str; 4] = ["-p", "millstream", "-p", "millstream-[!bt]*"];

/// Checks the [crates for users](CRATES) for every platform whose standard library is or can be
/// installed, and prints the platforms that were not checked.
pub(crate) fn run() -> Result<()> {
    let mut checked = Vec::new();
    for target in TARGETS {
        if is_installed(target)? || rustup(&["target", "add", target]) {
            checked.extend(["--target", target]);
        } else {
            println!("{target}: not checked, because its standard library cannot be installed");
        }
    }
    if checked.is_empty() {
        return Ok(());
    }
    println!("cargo check {} {}", CRATES.join(" "), checked.join(" "));
    process::run(cargo("check --quiet").args(CRATES).args(checked))
}

/// The crates with features, each without those that the rest of the workspace enables.
const FEATURES: [&str; 7] = [
    "-p millstream",
    "-p millstream --no-default-features",
    "-p millstream --no-default-features --features dlpack,timeline",
    "-p millstream-collective --no-default-features",
    "-p millstream-region",
    "-p millstream-region --features mesh",
    "-p millstream-region --features safetensors",
];

/// Checks the libraries with fewer [features](FEATURES) than the workspace builds.
pub(crate) fn features() -> Result<()> {
    for arguments in FEATURES {
        println!("cargo clippy {arguments}");
        process::run(&mut cargo(&format!(
            "clippy --quiet {arguments} -- -D warnings"
        )))?;
    }
    Ok(())
}

/// Checks the [crates for users](CRATES) with the `rust-version` of the workspace; if that
/// toolchain is neither installed nor can be, prints that nothing was checked.
pub(crate) fn msrv() -> Result<()> {
    let manifest = process::read("Cargo.toml")?;
    let version = rust_version(&manifest).context("Cargo.toml has no rust-version")?;
    let mut probe = cargo(&format!("+{version} --version"));
    if !process::succeeds(probe.env("RUSTUP_AUTO_INSTALL", "0"))
        && !rustup(&["toolchain", "install", version, "--profile", "minimal"])
    {
        println!("Rust {version} is not checked: the toolchain cannot be installed here");
        return Ok(());
    }
    println!("cargo +{version} check {}", CRATES.join(" "));
    let mut check = cargo(&format!("+{version} check --quiet"));
    let target = process::target_folder().join("msrv");
    process::run(check.args(CRATES).env("CARGO_TARGET_DIR", target))
}

/// Returns the value of the key `rust-version`.
fn rust_version(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines();
    let version = lines.find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(version.trim().trim_matches('"'))
}

/// Returns whether the compiler has the target's standard library.
fn is_installed(target: &str) -> Result<bool> {
    let mut rustc = process::command("rustc");
    let folder = process::output(rustc.args(["--print", "target-libdir", "--target", target]))?;
    let folder = std::path::Path::new(folder.trim());
    if !folder.is_dir() {
        return Ok(false);
    }
    let entries = folder
        .read_dir()
        .with_context(|| format!("cannot list {}", folder.display()))?;
    let is_core = |name: std::ffi::OsString| name.to_string_lossy().starts_with("libcore-");
    Ok(entries.flatten().any(|entry| is_core(entry.file_name())))
}

/// Returns whether rustup, if there is one, can install this.
fn rustup(arguments: &[&str]) -> bool {
    process::succeeds(process::command("rustup").args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_crates_benchmarks_and_helpers_of_tests_are_not_for_users() {
        let folders = process::root().join("crates").read_dir().expect("crates");
        for folder in folders.flatten() {
            let manifest = folder.path().join("Cargo.toml");
            let manifest = std::fs::read_to_string(manifest).expect("a crate has a manifest");
            let name = manifest
                .lines()
                .find_map(|line| line.strip_prefix("name = "))
                .expect("a crate has a name")
                .trim_matches('"');
            // What the patterns of `CRATES` match.
            let is_for_users = name == "millstream"
                || name.starts_with("millstream-")
                    && !name.starts_with("millstream-b")
                    && !name.starts_with("millstream-t");
            let others = ["millstream-bench", "millstream-testkit"];
            assert_eq!(is_for_users, !others.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_hosts_target_is_installed_and_an_unknown_one_is_an_error() {
        let version = process::output(process::command("rustc").arg("-vV")).expect("rustc runs");
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        assert!(is_installed(host.expect("a host")).expect("it is known"));
        assert!(is_installed("x86_64-millstream-none").is_err());
    }
    #[test]
    fn the_version_is_read_from_the_manifest() {
        let manifest = "[workspace.package]\nrust-version = \"1.88\"\n";
        assert_eq!(rust_version(manifest), Some("1.88"));
        assert_eq!(rust_version("rust = 1\n"), None);
    }
}
