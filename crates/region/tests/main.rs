//! All tests of regions, in one program. A test's name begins with its folder or file here.

#[macro_use]
extern crate millstream_testkit;

mod compile_fail;
mod differential;
mod fusion;
mod maths;
mod mesh;
mod product;
mod scenarios;

use millstream::Device;
use millstream_region::{DeviceValue, Output, Region, RegionExt, Result};

/// The result of a region on the host.
type Value<R> = <<R as DeviceValue>::Host as Output>::Value;

fn evaluate<R: DeviceValue>(device: &Device, body: impl FnOnce(&Region) -> R) -> Result<Value<R>> {
    device.region(body)?.wait()
}
