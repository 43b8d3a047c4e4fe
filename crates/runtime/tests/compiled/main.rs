//! Kernels compiled at run time: scenarios K1 to K4. On the simulated device or, with
//! `MILLSTREAM_DEVICE=cuda:0`, on a GPU. Without NVRTC the tests that need it are listed as
//! ignored.

mod cache;
mod child;
mod errors;
mod launches;
mod times;

use std::{env, process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Failed, Trial};
use millstream::{
    Device, Select,
    driver::{
        Driver,
        cuda::Cuda,
        nvrtc::{self, Nvrtc},
    },
    sim::{Gpu, SimConfig},
};

/// The result of a test.
type Outcome = Result<(), Failed>;

/// A test by its name.
type Test = (&'static str, fn(&Device) -> Outcome);

/// Declares a list of tests, each named after its function.
macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        &[$((stringify!($name), $module::$name as fn(&Device) -> Outcome)),*]
    };
}

/// Tests that need no NVRTC.
const TESTS: &[Test] = tests! {
    errors::k02_without_nvrtc_the_error_lists_what_was_tried,
    errors::k02_without_nvrtc_ptx_is_loaded,
};

/// Tests that need NVRTC.
const TESTS_OF_NVRTC: &[Test] = tests! {
    launches::k01_cuda_source_is_compiled_loaded_and_launched,
    launches::k01_templates_macros_and_headers_are_for_the_asking,
    launches::k01_a_signature_that_is_not_the_kernels_names_the_parameter_and_the_line,
    launches::k01_an_unknown_kernel_lists_those_there_are,
    launches::k01_a_declared_source_is_compiled_when_it_is_loaded,
    launches::k01_checked_in_ptx_has_the_hash_of_its_source,
    errors::k02_a_missing_header_names_the_folders_that_were_searched,
    errors::k02_an_unknown_option_is_the_compilers_own_message,
    cache::k03_a_second_load_makes_no_compiler_call,
    cache::k03_every_input_is_a_part_of_the_key,
    cache::k03_a_damaged_entry_is_compiled_anew,
    cache::k03_processes_that_compile_at_once_all_get_their_kernel,
    cache::k03_another_nvrtc_compiles_anew,
    cache::k03_a_folder_that_cannot_be_written_is_no_error,
    cache::k03_a_changed_header_file_is_compiled_anew,
    cache::k03_a_header_of_equal_size_and_time_is_another_however_it_is_spelled,
    cache::k03_a_kernel_with_the_time_of_its_compilation_is_not_cached,
    cache::k03_headers_are_searched_for_only_in_named_folders,
    cache::k03_the_environment_of_nvrtc_and_the_working_directory_count,
    errors::k04_names_are_those_of_the_source_and_move_no_cursor,
    errors::k04_errors_are_shown_with_their_source_lines,
    errors::k04_warnings_of_a_compilation_are_kept,
};

/// Tests that need an NVRTC whose PTX is newer than the driver.
const TESTS_OF_NEWER: &[Test] = tests! {
    launches::k02_an_nvrtc_newer_than_the_driver_compiles_for_it,
};

/// Tests of times, which mean something only on a GPU that nothing else uses.
const TESTS_OF_TIMES: &[Test] = tests! {
    times::k03_a_cached_load_takes_little_more_than_the_drivers,
    times::k01_a_first_compilation_takes_little_more_than_nvrtcs,
    launches::k05_machine_code_is_loaded_and_launched,
};

/// Returns whether the tests run on a GPU.
fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}

/// Opens the device to test on.
fn device() -> Device {
    let device = if on_gpu() {
        Device::open(Select::Auto)
    } else {
        Device::simulated()
    };
    device.expect("the device opens")
}

/// Returns whether the PTX of this NVRTC is newer than the driver.
fn is_newer(nvrtc: &Nvrtc) -> bool {
    let driver: Arc<dyn Driver> = if on_gpu() {
        Cuda::load().expect("MILLSTREAM_DEVICE names a GPU")
    } else {
        Gpu::new(SimConfig::new()).driver()
    };
    let (major, minor) = nvrtc.version();
    let version = driver.driver_version();
    version.is_ok_and(|version| 1000 * major + 10 * minor > version)
}

fn main() -> ExitCode {
    if let Some(code) = child::main() {
        return code;
    }
    let arguments = Arguments::from_args();
    let nvrtc = nvrtc::load();
    let newer = nvrtc.as_ref().is_ok_and(|nvrtc| is_newer(nvrtc));
    let mut trials = Vec::new();
    let mut extend = |tests: &[Test], lacks: bool, needs: &str| {
        trials.extend(tests.iter().map(|&(name, test)| {
            let trial = Trial::test(name, move || test(&device()));
            let kind = if lacks { needs } else { "" };
            trial.with_kind(kind).with_ignored_flag(lacks)
        }));
    };
    extend(TESTS, false, "");
    extend(TESTS_OF_NVRTC, nvrtc.is_err(), "needs NVRTC");
    extend(
        TESTS_OF_NEWER,
        !newer,
        "needs an NVRTC newer than the driver",
    );
    let lacks = !on_gpu() || nvrtc.is_err();
    extend(TESTS_OF_TIMES, lacks, "needs a GPU and NVRTC");
    libtest_mimic::run(&arguments, trials).exit_code()
}
