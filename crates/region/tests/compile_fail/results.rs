//! Types that cannot be results of a region.

use millstream_region::region;
use ndarray::Array1;

#[region] //~ E0277 "cannot be the result of a region function"
fn of_the_host_alone(x: &Array1<f32>) -> std::time::Instant { //~ E0277 "cannot be the result"
    std::time::Instant::now()
}

fn main() {}
