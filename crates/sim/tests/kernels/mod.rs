//! Kernels run by the interpreter and by machine code, compared with known results and with models.

mod memory;

mod barrier_objects;
mod faults;
mod fused;
mod large;
mod oracle;
mod parsing;
mod progress;
mod racing;
mod restart;
mod waiting;
