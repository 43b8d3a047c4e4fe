//! All tests of the library, in one program. A test's name begins with its folder or file here.

#[macro_use]
extern crate millstream_testkit;

mod check;
mod compile_fail;
mod compiled;
mod documented_limits;
mod programs;
mod races;
mod regressions;
mod reports;
mod scenarios;
mod thread_safety;
mod timelines;
