//! Failures of other libraries that people have reported, as programs of this one: each must do
//! here what its users wanted there. Under every schedule of the simulated device or, with
//! `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

#[path = "../scenarios/calls.rs"]
#[allow(dead_code, reason = "the scenarios use more of it")]
mod calls;
#[path = "../scenarios/configurations.rs"]
mod configurations;
#[path = "../scenarios/harness.rs"]
#[allow(dead_code, reason = "the scenarios use more of it")]
mod harness;

mod cuda_async_busy_future;
mod cuda_async_refusal;
mod cuda_jl_task_result;
mod cuda_jl_whole_array_wait;
mod cudarc_copy_too_long;
mod cudarc_last_stream_dropped;
mod cudarc_lost_reader;
mod cudarc_no_driver;
mod cudarc_opened_twice;
mod cudastf_event_per_task;
mod open3d_early_read;
mod pinned_written_during_upload;
mod pytorch_record_stream;
mod rmm_reuse_across_streams;
mod rustacuda_dropped_buffer;

use millstream::Result;

use crate::{
    calls::Calls,
    harness::{Harness, everywhere, everywhere_counted},
};

/// Elements of the arrays: enough for several pages.
const N: usize = 1500;

/// Runs a program that may use `?`, everywhere.
fn regression(run: impl Fn(&Harness) -> Result<()>) {
    everywhere(|harness| run(harness).unwrap());
}

/// As [`regression`], with every driver call noted down.
fn counted(run: impl Fn(&Harness, &Calls) -> Result<()>) {
    everywhere_counted(|harness, calls| run(harness, calls).unwrap());
}
