//! The scenarios of regions that must work, each a test named after its number, under every
//! schedule of the simulated device or, with `MILLSTREAM_DEVICE=cuda:0`, on a GPU.

mod agreement;
#[path = "../../../runtime/tests/scenarios/calls.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod calls;
mod crossing;
mod failures;
#[path = "../../../runtime/tests/scenarios/places.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod places;
#[path = "../../../runtime/tests/scenarios/rig.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod rig;
mod structs;
#[path = "../../../runtime/tests/scenarios/sweep.rs"]
mod sweep;
#[path = "../../../runtime/tests/scenarios/worlds.rs"]
mod worlds;
