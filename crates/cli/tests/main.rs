//! The tests of the command and of the drop-in driver, in one program: with programs in C, in
//! Python and of the published crate cudarc. They run on Linux, where the system's loader finds the
//! library in the place of the driver.

#![cfg(target_os = "linux")]

mod cudarc;
mod doctor;
mod ending;
mod hand_overs;
mod harness;
mod keep_going;
mod numba;
mod nvcc;
mod nvcc_programs;
mod profile;
mod programs;
mod run;
mod runtime_api;
mod virtual_memory;
