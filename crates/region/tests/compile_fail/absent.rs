//! Methods that the guide's page `from_cupy.md` and the README call missing.

use millstream_region::Array;
use ndarray::{Axis, Ix1};

fn main() {}

fn all(x: &Array<f32, Ix1>) {
    let _ = x.sort(); //~ E0599
    let _ = x.sort_axis(Axis(0)); //~ E0599
    let _ = x.argsort(Axis(0)); //~ E0599
    let _ = x.fft(); //~ E0599
    let _ = x.grad(); //~ E0599
    let _ = x.backward(); //~ E0599
}
