//! `cargo xtask devices`: the scenarios of several devices with more devices than in CI.

use anyhow::Result;

use crate::process;

/// The numbers of devices. CI runs the scenarios with two.
const DEVICES: [&str; 2] = ["4", "8"];
/// The scenarios of several devices.
const SCENARIOS: [&str; 3] = ["peers", "two_devices", "collective"];

/// Runs the scenarios with each number of simulated devices: the harness's device in a pair with
/// each of the others, all of which are open.
pub(crate) fn run() -> Result<()> {
    for devices in DEVICES {
        println!("{devices} devices");
        process::run(
            process::command("cargo")
                .args([
                    "test",
                    "--package",
                    "millstream",
                    "--test",
                    "scenarios",
                    "--",
                ])
                .args(SCENARIOS)
                .env("MILLSTREAM_TEST_DEVICES", devices),
        )?;
    }
    Ok(())
}
