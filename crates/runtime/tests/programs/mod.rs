//! Random programs over the whole safe interface, each under many schedules, compared with an
//! oracle that is independent of the runtime. With `MILLSTREAM_DEVICE=cuda:0` they run on a GPU
//! instead.
//!
//! A program is a list of steps drawn from a seed (`program/step.rs` lists all steps). The
//! interpreter executes them and logs what the host sees; the oracle compares the log with plain
//! vectors on which it performs the same steps in program order. Afterwards the simulated device
//! must have reported nothing, and no objects may be left but those that the program forgot.
//!
//! Programs of graphs are of another kind (`graphs`): recordings, replays and all changes between
//! them.
//!
//! Steps do not cover: raw handles and operations of other libraries, drivers that panic or answer
//! falsely, waiting for a timeline's recording, pinned arrays of elements other than bytes, opting
//! reads and kernels out of ordering, modules that fail to load, kernels with shared memory or with
//! faults, `check` and `check_async`. Other tests cover these.

mod case;
mod graphs;
mod long;
pub(crate) mod program;
mod shrink;
mod suite;
