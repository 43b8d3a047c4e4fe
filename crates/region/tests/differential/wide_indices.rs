//! Kernels with indices of 64 bits, which only arrays of more than 2^31 elements have otherwise.
//! The width of all indices is a setting of a process.

use millstream_testkit::share;

use crate::differential::{Outcome, other_process};

/// The number of programs of each kind, so few that the test takes little time.
const PROGRAMS: &str = "16";

/// The tests of kernels that compute indices of their own. All are run within `DAYS` days.
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

const DAYS: u64 = 7;

#[test]
fn wide_indices_in_another_process() -> Outcome {
    let day = share::day().to_string();
    let variables = [
        ("MILLSTREAM_INDEX_BITS", "64"),
        ("MILLSTREAM_PROGRAMS", PROGRAMS),
        (share::DAY, day.as_str()),
    ];
    let filters: Vec<_> = share::cases(FILTERS, DAYS).collect();
    other_process::run(&filters, &variables)
}
