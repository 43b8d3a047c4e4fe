//! `cargo xtask msrv`: compiles the crates for users with the oldest Rust that they support.

use std::process::Stdio;

use anyhow::{Context, Result};

use crate::{process, targets::CRATES};

/// Checks the [crates for users](CRATES) with the `rust-version` of the workspace; if that
/// toolchain is neither installed nor can be, prints that nothing was checked.
pub(crate) fn run() -> Result<()> {
    let manifest = process::read("Cargo.toml")?;
    let version = rust_version(&manifest).context("Cargo.toml has no rust-version")?;
    if !is_installed(version) && !install(version) {
        println!("Rust {version} is not checked: the toolchain cannot be installed here");
        return Ok(());
    }
    println!("cargo +{version} check {}", CRATES.join(" "));
    process::run(
        process::command("cargo")
            .args([&format!("+{version}"), "check", "--quiet"])
            .args(CRATES)
            .env("CARGO_TARGET_DIR", process::target_folder().join("msrv")),
    )
}

/// Returns the value of the key `rust-version`.
fn rust_version(manifest: &str) -> Option<&str> {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(line.trim().trim_matches('"'))
}

/// Returns whether `cargo` of the toolchain runs.
fn is_installed(version: &str) -> bool {
    let cargo = process::command("cargo")
        .args([&format!("+{version}"), "--version"])
        .env("RUSTUP_AUTO_INSTALL", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    cargo.is_ok_and(|status| status.success())
}

/// Installs the toolchain with rustup. Returns whether that succeeded.
fn install(version: &str) -> bool {
    let rustup = process::command("rustup")
        .args(["toolchain", "install", version, "--profile", "minimal"])
        .stdin(Stdio::null())
        .status();
    rustup.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_manifest() {
        let manifest = "[workspace.package]\nrust-version = \"1.88\"\n";
        assert_eq!(rust_version(manifest), Some("1.88"));
        assert_eq!(rust_version("rust = 1\n"), None);
    }
}
