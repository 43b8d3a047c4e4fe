//! The scenarios of regions, each a test named after its number, under every schedule of the
//! simulated device or, with `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

mod agreement;
mod buffers;
#[path = "../../../runtime/tests/scenarios/calls.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod calls;
#[path = "../../../runtime/tests/scenarios/configurations.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod configurations;
mod crossing;
mod exchange;
mod failures;
mod graphs;
#[path = "../../../runtime/tests/scenarios/harness.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod harness;
#[path = "../../../runtime/tests/scenarios/instrumented.rs"]
#[allow(dead_code, reason = "the runtime's scenarios use the remaining items")]
mod instrumented;
#[path = "../../../runtime/tests/scenarios/outsiders.rs"]
#[allow(dead_code, reason = "the runtime's scenarios use more of it")]
mod outsiders;
mod prepared;
mod structs;
#[path = "../../../runtime/tests/scenarios/sweep.rs"]
#[allow(dead_code, reason = "the runtime's scenarios use the remaining items")]
mod sweep;
#[path = "../../../runtime/tests/scenarios/tensors.rs"]
mod tensors;
