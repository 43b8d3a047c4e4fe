//! Temperatures as a PNG picture.

use std::path::Path;

use anyhow::{Context, Result};
use ndarray::Array2;
use png::{ColorType, Compression};

/// The number of pixels along an edge of a point.
const ZOOM: usize = 4;

/// The colours of the temperatures from 0 to 1, at equal distances.
const COLOURS: [[f32; 3]; 5] = [
    [10.0, 8.0, 40.0],
    [110.0, 20.0, 110.0],
    [220.0, 60.0, 50.0],
    [250.0, 180.0, 30.0],
    [255.0, 255.0, 220.0],
];

fn colour(temperature: f32) -> [u8; 3] {
    let at = temperature.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f32;
    let below = (at as usize).min(COLOURS.len() - 2);
    let share = at - below as f32;
    std::array::from_fn(|channel| {
        let (low, high) = (COLOURS[below][channel], COLOURS[below + 1][channel]);
        (low + (high - low) * share).round() as u8
    })
}

/// Writes the temperatures, with the highest as the brightest colour. The folder is made if it does
/// not exist.
pub(crate) fn write(path: &Path, temperatures: &Array2<f32>) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let highest = temperatures
        .iter()
        .copied()
        .fold(f32::MIN_POSITIVE, f32::max);
    let (rows, columns) = temperatures.dim();
    let (height, width) = (rows * ZOOM, columns * ZOOM);
    let mut rgb = Vec::with_capacity(3 * height * width);
    for row in 0..height {
        for column in 0..width {
            rgb.extend(colour(temperatures[(row / ZOOM, column / ZOOM)] / highest));
        }
    }
    let mut bytes = Vec::new();
    let size = (u32::try_from(width)?, u32::try_from(height)?);
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(ColorType::Rgb);
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header().with_context(context)?;
    writer.write_image_data(&rgb).with_context(context)?;
    writer.finish().with_context(context)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    std::fs::write(path, bytes).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_run_from_dark_to_bright() {
        assert_eq!(colour(-1.0), [10, 8, 40]);
        assert_eq!(colour(0.25), [110, 20, 110]);
        assert_eq!(colour(1.0), [255, 255, 220]);
    }
}
