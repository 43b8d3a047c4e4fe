//! `cargo xtask shuttle`: the runtime's protocol of submission under schedules of threads that are
//! chosen step by step.

use anyhow::Result;

use crate::process;

/// Builds the runtime with shuttle's locks in place of `parking_lot`'s, in an output folder of its
/// own, and runs the tests that are written for them. Others would lock outside of any schedule.
pub(crate) fn run() -> Result<()> {
    process::run(
        process::command("cargo")
            .args(["test", "--package", "millstream", "--lib", "interleavings"])
            .env("RUSTFLAGS", "--cfg shuttle")
            .env("CARGO_TARGET_DIR", process::target_folder().join("shuttle"))
            .env("SHUTTLE_SILENCE_WARNINGS", "1"),
    )
}
