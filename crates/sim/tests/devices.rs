//! Tests of both drivers: with `MILLSTREAM_DEVICE=cuda:0` they run on a GPU. What a device
//! cannot run is listed as ignored, with the reason.

mod conformance;
mod gpu;
#[allow(dead_code, reason = "the tests of the simulated device use more of it")]
mod harness;
mod ptx;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if let Some(code) = conformance::asked_for() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    if conformance::on_gpu() {
        // Serial, because loading a module or freeing memory would wait for another test's gate.
        arguments.test_threads = Some(1);
    }
    let mut trials = conformance::trials();
    trials.extend(ptx::trials());
    trials.extend(gpu::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        conformance::print_table();
    }
    conclusion.exit_code()
}
