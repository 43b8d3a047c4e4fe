//! Methods that the guide's page `from_cupy.md` and the README call missing.

use millstream_region::Array;
use ndarray::Ix1;

fn main() {}

fn all(x: &Array<f32, Ix1>) {
    let _ = x.fft(); //~ E0599
    let _ = x.grad(); //~ E0599
    let _ = x.backward(); //~ E0599
}
