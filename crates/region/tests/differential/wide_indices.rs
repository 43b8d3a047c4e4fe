//! Kernels with indices of 64 bits, which only arrays of more than 2^31 elements have otherwise.
//! The width of all indices is a setting of a process.

use crate::{
    Outcome,
    other_process::{self, SKIPPED},
};

type Test = (&'static str, fn() -> Outcome);

pub(crate) const TESTS: &[Test] = &[("wide_indices_in_another_process", wide_indices)];

/// The number of programs of each kind, so few that the test takes little time.
const PROGRAMS: &str = "16";

/// The tests of kernels that compute indices of their own.
const FILTERS: [&str; 10] = [
    "random_programs",
    "long_arrays",
    "single_operations",
    "variances",
    "are_joined",
    "stencils_of",
    "are_added",
    "long_scans",
    "many_rows",
    "columns_have",
];

fn wide_indices() -> Outcome {
    let variables = [
        ("MILLSTREAM_INDEX_BITS", "64"),
        ("MILLSTREAM_PROGRAMS", PROGRAMS),
    ];
    debug_assert!(TESTS.iter().all(|(name, _)| name.contains(SKIPPED)));
    FILTERS
        .iter()
        .try_for_each(|filter| other_process::run(filter, &variables))
}
