//! Failures that users of other libraries have reported and that no scenario repeats, as programs
//! of this one. Each must behave here as its users expected, under every schedule of the simulated
//! device or, with `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

mod cuda_async_busy_future;
mod cudarc_lost_reader;

use millstream_testkit::configurations;

use crate::scenarios::prelude::{
    Calls, Harness, N, counted_scenario as counted, scenario_on as regression_on,
};
