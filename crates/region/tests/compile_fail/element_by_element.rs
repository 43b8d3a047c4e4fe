//! C4: elements of a device array cannot be read or written one by one, and the error names the
//! alternatives.

use millstream_region::region;
use ndarray::{Array1, Array2};

#[region]
fn reads(x: &Array1<f32>) -> Array1<f32> {
    x * x[0] //~ E0277 "operate on whole arrays"
}

#[region]
fn reads_of_two_axes(x: &Array2<f32>) -> Array2<f32> {
    let corner: f32 = x[[0, 0]]; //~ E0277 "return them from the region"
    x * corner
}

#[region]
fn writes(x: &mut Array1<f32>) {
    x[0] = 1.0; //~ E0277 "cannot be read one by one"
}

fn main() {}
