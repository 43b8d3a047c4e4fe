//! Failures that users of other libraries have reported, as programs of this one. Each must behave
//! here as its users expected, under every schedule of the simulated device or, with
//! `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

mod candle_graph_temporaries;
mod cubecl_pool_aliases_graph;
mod cuda_async_busy_future;
mod cuda_async_refusal;
mod cuda_jl_task_result;
mod cuda_jl_whole_array_wait;
mod cudarc_copy_too_long;
mod cudarc_dangling_graph;
mod cudarc_last_stream_dropped;
mod cudarc_lost_reader;
mod cudarc_no_driver;
mod cudarc_opened_twice;
mod cudastf_event_per_task;
mod open3d_early_read;
mod pinned_written_during_upload;
mod pytorch_record_stream;
mod pytorch_stale_graph_input;
mod rmm_reuse_across_streams;
mod rustacuda_dropped_buffer;

use millstream_testkit::configurations;

use crate::scenarios::prelude::{
    Calls, Harness, N, counted_scenario as counted, scenario as regression,
};
