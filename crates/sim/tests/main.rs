//! The tests of the simulated device, in one program. A test's name begins with its folder here.

#[macro_use]
extern crate millstream_testkit;

mod causality;
#[allow(dead_code, reason = "the tests of devices use more of it")]
mod harness;
mod kernels;
mod races;
mod rules;
