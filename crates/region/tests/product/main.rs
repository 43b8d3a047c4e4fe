//! Matrix products against plain Rust, on the simulated device, or with `MILLSTREAM_DEVICE=cuda:0`
//! on a GPU, where the tests of cuBLAS run as well.

mod builtin;
mod cublas;
mod epilogues;
mod exact;
mod layout;
mod replayed;

use std::{env, process::ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// The result of a test.
pub(crate) type Outcome = Result<(), Failed>;

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("random_products", builtin::random_products),
    (
        "sizes_around_tiles_and_chunks",
        builtin::sizes_around_tiles_and_chunks,
    ),
    ("long_sums_are_split", builtin::long_sums_are_split),
    (
        "products_are_added_up_in_ranges",
        builtin::products_are_added_up_in_ranges,
    ),
    (
        "half_products_are_those_of_f32_rounded_once",
        builtin::half_products_are_those_of_f32_rounded_once,
    ),
    ("empty_products", builtin::empty_products),
    (
        "a_product_is_the_same_every_time",
        builtin::a_product_is_the_same_every_time,
    ),
    (
        "products_wait_for_their_operands",
        builtin::products_wait_for_their_operands,
    ),
    (
        "replayed_products_are_those_of_separate_launches",
        replayed::replayed_products_are_those_of_separate_launches,
    ),
    (
        "epilogues_have_the_bits_of_separate_kernels",
        epilogues::epilogues_have_the_bits_of_separate_kernels,
    ),
    (
        "epilogues_of_half_products_have_the_bits_of_separate_kernels",
        epilogues::epilogues_of_half_products_have_the_bits_of_separate_kernels,
    ),
    (
        "epilogues_of_every_type_have_the_bits_of_separate_kernels",
        epilogues::epilogues_of_every_type_have_the_bits_of_separate_kernels,
    ),
    (
        "epilogues_of_many_partial_products_have_the_bits_of_separate_kernels",
        epilogues::epilogues_of_many_partial_products_have_the_bits_of_separate_kernels,
    ),
    (
        "epilogues_of_16_bit_integers_cast_the_product",
        epilogues::epilogues_of_16_bit_integers_cast_the_product,
    ),
    (
        "epilogues_of_batches_have_the_bits_of_separate_kernels",
        epilogues::epilogues_of_batches_have_the_bits_of_separate_kernels,
    ),
    (
        "operands_on_another_device_are_rejected",
        builtin::operands_on_another_device_are_rejected,
    ),
];

/// The tests that need a GPU with cuBLAS.
const GPU_TESTS: &[Test] = &[
    (
        "cublas_products_are_within_the_bound",
        cublas::products_are_within_the_bound,
    ),
    (
        "cublas_products_of_half_floats_are_within_the_bound",
        cublas::products_of_half_floats_are_within_the_bound,
    ),
    (
        "exact_half_products_match_those_of_built_in_kernels",
        cublas::exact_half_products_match_those_of_built_in_kernels,
    ),
    (
        "exact_products_match_those_of_built_in_kernels",
        cublas::exact_products_match_those_of_built_in_kernels,
    ),
    (
        "tf32_is_used_where_it_is_asked_for",
        cublas::tf32_is_used_where_it_is_asked_for,
    ),
    (
        "tf32_products_are_within_the_bound",
        cublas::tf32_products_are_within_the_bound,
    ),
    ("threads_share_a_handle", cublas::threads_share_a_handle),
];

/// Returns whether the environment names a GPU.
pub(crate) fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = TESTS.iter().map(|&(name, test)| Trial::test(name, test));
    let ignored = !on_gpu();
    let kind = if ignored {
        "needs a GPU with cuBLAS"
    } else {
        ""
    };
    let gpu_trials = GPU_TESTS.iter().map(|&(name, test)| {
        Trial::test(name, test)
            .with_kind(kind)
            .with_ignored_flag(ignored)
    });
    libtest_mimic::run(&arguments, trials.chain(gpu_trials).collect()).exit_code()
}
