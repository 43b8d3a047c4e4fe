//! CUDA's driver API over the simulated GPU of [`millstream_sim`].
//!
//! The library takes the place of `libcuda.so.1`: a program that calls the driver API and brings
//! its kernels as PTX runs unchanged on a machine without a GPU. Every race between its streams,
//! and every other violation that the simulator finds, is printed to standard error when it is
//! found.
//!
//! ```text
//! mkdir shim && ln -s …/libmillstream_libcuda.so shim/libcuda.so.1
//! LD_LIBRARY_PATH=shim MILLSTREAM_DEVICE=sim:schedule=lazy ./program
//! ```
//!
//! | environment variable | meaning |
//! |---|---|
//! | `MILLSTREAM_DEVICE` | `sim`, or `sim:option=value,…` as [`SimConfig::parse`] reads it; a device has 2 GiB unless `memory=` says otherwise |
//! | `MILLSTREAM_KIND` | the kind of device whose name and attributes programs see: `h200` unless given, or another of [`kinds::KINDS`] |
//! | `MILLSTREAM_CUDA` | the CUDA version of the driver, the newest known one unless given |
//! | `MILLSTREAM_SITES` | `off` omits call sites from reports, which makes calls cheaper |
//! | `MILLSTREAM_LEAKS` | `on` reports memory, streams and events that the program left |
//! | `MILLSTREAM_SUPPRESS` | a file of patterns, a line each; problems that match one are left out |
//! | `MILLSTREAM_TIMELINE` | a file to which the operations are appended as a trace |
//! | `MILLSTREAM_REPORT` | a file to which the report is appended, too, in lines of JSON |
//!
//! [`SimConfig::parse`]: millstream_sim::SimConfig::parse
//!
//! # How a call runs
//!
//! The files of `api/` declare the functions; a macro (`export.rs`) makes an exported symbol of
//! each declaration, which catches panics and turns the result into a number (`call.rs`). A
//! function checks its handles in the tables of live objects (`objects.rs`), which know the context
//! of each, and then calls the simulator (`simulated.rs`). No lock is held during a call of the
//! simulator, because it may block for the device.

mod abi;
mod api;
mod at_exit;
mod block_to_shared;
mod call;
mod codes;
mod current;
pub mod demangle;
mod export;
pub mod fatbin;
mod functions;
mod host_function;
mod image;
mod jit;
pub mod kinds;
mod objects;
mod options;
mod problems;
mod process;
mod progress;
mod refused;
mod simulated;
mod sites;
mod standard_output;
mod suppress;
mod symbols;
mod timeline;
pub mod versions;
