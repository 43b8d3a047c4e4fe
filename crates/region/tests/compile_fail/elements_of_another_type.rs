//! C6: an element type that the device does not support.

use millstream_region::region;
use ndarray::Array1;

#[region]
fn wide(x: &Array1<u128>) {} //~ E0277 "elements are `f32`, `f64`, `half::f16`, `half::bf16`"

fn main() {}
