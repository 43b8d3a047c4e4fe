//! All tests of collectives, in one program. A test's name begins with its folder here.

mod nccl;
mod several_processes;
