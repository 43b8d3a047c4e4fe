//! Tests of the clauses that `kernels!` expands to, with a stub of the runtime. The scenarios of
//! `millstream` test the rest of the expansion: signatures, arguments, variables and occupancies.
//!
//! For the macro, this file is the crate `millstream`.

#![allow(unsafe_code, reason = "declares unsafe kernels")]

extern crate self as millstream;

mod clauses;
mod stub;

pub use stub::{Device, Error, LaunchConfig, Occupancy, Result, Stream, kernel};
