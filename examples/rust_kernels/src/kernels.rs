//! The kernels of this program, which were written in Rust: see `kernels/src/lib.rs`.

#![allow(unsafe_code, reason = "declares the kernels")]

use millstream::{Device, Result};

millstream::kernels! {
    // SAFETY: the kernels are those of kernels/src/lib.rs, which access only elements that their
    // slices have: each thread its own, and of the bins any by atomic additions.
    #[kernel(abi = "rust")]
    unsafe mod in_rust from include_str!("../kernels.ptx") {
        safe fn escape_times(
            times: &mut [u32], width: u32, left: f32, top: f32, step: f32, most: u32
        ) requires grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;

        safe fn histogram(times: &[u32], bins: &mut [u32])
            requires grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;
    }
}

/// The number of bins of a histogram, and the greatest escape time.
pub(crate) const MOST: u32 = 15;

/// Returns the escape times of the points of a picture row by row, and their histogram.
pub(crate) fn mandelbrot(device: &Device, width: u32, height: u32) -> Result<(Vec<u32>, Vec<u32>)> {
    let kernels = in_rust::load(device)?;
    let stream = device.stream()?;
    let n = width as usize * height as usize;
    let mut times = stream.zeros::<u32>(n)?;
    let mut bins = stream.zeros::<u32>(MOST as usize + 1)?;
    // The points of a row are 3 apart at its ends. A character is twice as high as it is wide.
    let step = 3.0 / width as f32;
    let top = step * height as f32;
    kernels.escape_times(&stream, n, &mut times, width, -2.25, top, step, MOST)?;
    kernels.histogram(&stream, n, &times, &mut bins)?;
    let (times, bins) = (stream.download(&times)?, stream.download(&bins)?);
    Ok((times.wait()?, bins.wait()?))
}
