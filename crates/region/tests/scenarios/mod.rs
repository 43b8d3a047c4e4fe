//! The scenarios of regions, each a test named after its number, under every schedule of the
//! simulated device or, with `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

mod agreement;
mod buffers;
mod crossing;
mod exchange;
mod failures;
mod graphs;
mod models;
mod nested;
mod prelude;
mod prepared;
mod structs;

use crate::evaluate;
use millstream_testkit::{calls, configurations, harness, instrumented, outsiders, sweep, tensors};
