//! Draws the Mandelbrot set in the terminal by kernels that were written in Rust.
//!
//! ```sh
//! cargo run -p rust_kernels
//! MILLSTREAM_DEVICE=sim cargo run -p rust_kernels
//! ```

mod kernels;

use anyhow::Result;
use clap::Parser;
use millstream::{Device, Select};

/// Draws the Mandelbrot set.
#[derive(Parser)]
struct Options {
    /// The characters of a line, and the number of lines.
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"], default_values_t = [72, 24])]
    size: Vec<u16>,
}

/// Characters by escape time.
const LEVELS: &[u8; kernels::MOST as usize + 1] = b" .,:;-=+*oO%#@& ";

fn main() -> Result<()> {
    let options = Options::parse();
    let (width, height) = (u32::from(options.size[0]), u32::from(options.size[1]));
    let device = Device::open(Select::Auto)?;
    let (times, bins) = kernels::mandelbrot(&device, width, height)?;
    for row in times.chunks(width.max(1) as usize) {
        let line: String = row.iter().map(|&time| character(time)).collect();
        println!("{line}");
    }
    let inside = bins[kernels::MOST as usize];
    println!("{inside} of {} points stay in the circle", times.len());
    Ok(())
}

fn character(time: u32) -> char {
    char::from(LEVELS[(time as usize).min(LEVELS.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_that_of_the_set() {
        let device = Device::simulated().expect("it opens");
        let (times, bins) = kernels::mandelbrot(&device, 30, 9).expect("nothing fails");
        let expected = |i: usize| {
            let step = 3.0_f32 / 30.0;
            let (x, y) = (
                -2.25 + step * (i % 30) as f32,
                step * 9.0 - 2.0 * step * (i / 30) as f32,
            );
            let (mut re, mut im) = (0.0_f32, 0.0_f32);
            let escape = (0..kernels::MOST).find(|_| {
                let escapes = re * re + im * im > 4.0;
                (re, im) = (re * re - im * im + x, 2.0 * re * im + y);
                escapes
            });
            escape.unwrap_or(kernels::MOST)
        };
        let expected: Vec<u32> = (0..30 * 9).map(expected).collect();
        assert_eq!(times, expected);
        for (bin, &count) in bins.iter().enumerate() {
            let points = times.iter().filter(|&&time| time as usize == bin).count();
            assert_eq!(count as usize, points, "bin {bin}");
        }
        assert!(bins[kernels::MOST as usize] > 20, "{bins:?}");
    }
}
