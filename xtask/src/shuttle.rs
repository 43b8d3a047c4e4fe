//! `cargo xtask shuttle`: tests the runtime's submission protocol with shuttle, which schedules
//! every step of every thread.

use anyhow::Result;

use crate::process;

/// The environment in which `cargo test` builds the runtime with shuttle's locks.
pub(crate) const ENVIRONMENT: [(&str, &str); 2] = [
    ("RUSTFLAGS", "--cfg shuttle"),
    ("SHUTTLE_SILENCE_WARNINGS", "1"),
];

/// Builds the runtime with shuttle's locks instead of `parking_lot`'s, in a separate target folder,
/// and runs the tests written for shuttle. All other tests would use the locks outside of a
/// schedule.
pub(crate) fn run() -> Result<()> {
    process::run(
        process::command("cargo")
            .args(["test", "--package", "millstream", "--lib", "interleavings"])
            .envs(ENVIRONMENT)
            .env("CARGO_TARGET_DIR", process::target_folder().join("shuttle")),
    )
}
