//! Kernels run by the interpreter, compared with plain Rust implementations.

mod memory;

mod atomics;
mod barrier_objects;
mod elementwise;
mod faults;
mod oracle;
mod parsing;
mod racing;
mod reductions;
mod tiled;
mod waiting;
