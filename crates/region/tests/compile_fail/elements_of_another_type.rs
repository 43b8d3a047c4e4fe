//! C6: elements are of the six types that a device calculates with.

use millstream_region::region;
use ndarray::Array1;

#[region]
fn short(x: &Array1<u16>) {} //~ E0277 "elements are `f32`, `f64`, `i32`, `i64`, `u8` or `bool`"

fn main() {}
