//! Kernels run by the interpreter, compared with plain Rust implementations.

mod memory;

mod atomics;
mod barrier_objects;
mod elementwise;
mod faults;
mod fused;
mod large;
mod oracle;
mod parsing;
mod progress;
mod racing;
mod reductions;
mod restart;
mod tiled;
mod waiting;
