//! Kernels with indices of 64 bits, which only arrays of more than 2^31 elements have otherwise.
//! The width of all indices is a setting of a process.

use crate::differential::{Outcome, other_process};

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

#[test]
fn wide_indices_in_another_process() -> Outcome {
    let variables = [
        ("MILLSTREAM_INDEX_BITS", "64"),
        ("MILLSTREAM_PROGRAMS", PROGRAMS),
    ];
    other_process::run(&FILTERS, &variables)
}
