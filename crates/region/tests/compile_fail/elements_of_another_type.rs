//! C6: only six element types are supported on a device.

use millstream_region::region;
use ndarray::Array1;

#[region]
fn short(x: &Array1<u16>) {} //~ E0277 "elements are `f32`, `f64`, `i32`, `i64`, `u8` or `bool`"

fn main() {}
