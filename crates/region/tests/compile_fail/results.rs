//! What cannot come back from a region, and bodies that give something else than they say.

use millstream_region::region;
use ndarray::Array1;

#[region] //~ E0277 "cannot be the result of a region function"
fn a_result_of_the_host_alone(x: &Array1<f32>) -> std::time::Instant { //~ E0277 "cannot be the result of a region function"
    std::time::Instant::now()
}

fn main() {}
