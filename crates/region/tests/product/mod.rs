//! Matrix products against plain Rust, on the simulated device, or with `MILLSTREAM_DEVICE=cuda:0`
//! on a GPU, where those of cuBLAS run with `--ignored` too.

mod builtin;
mod cublas;
mod epilogues;
mod exact;
mod layout;
mod replayed;

use std::{env, error::Error};

use crate::evaluate;

pub(crate) type Outcome = Result<(), Failed>;
type Failed = Box<dyn Error + Send + Sync>;

/// Returns whether the environment names a GPU.
pub(crate) fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}
