//! Random programs over the whole safe interface, each under many schedules, against an oracle that
//! knows nothing of the runtime. With `MILLSTREAM_DEVICE=cuda:0` they run on a GPU instead.
//!
//! A program is a list of steps drawn from a number (`program/step.rs` has them all). Its machine
//! carries them out and writes down what the host sees; the oracle compares that with plain vectors
//! that do the same in the order of the text. Afterwards the simulated device must have reported
//! nothing, and nothing may be left of it but what the program forgot.
//!
//! What no step does: raw handles and operations of other libraries, drivers that panic or lie,
//! waiting for a timeline's picture, pinned arrays of other elements than bytes, opting out of
//! order for reads and kernels, modules that do not load, kernels with shared memory or that fault,
//! `check` and `check_async`. Other tests are about these.

mod case;
mod long;
mod program;
mod shrink;
mod suite;
mod watch;
