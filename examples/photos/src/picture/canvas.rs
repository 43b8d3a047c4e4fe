//! PNG files: of one byte a pixel (grey), and of three (a canvas to draw on).

use std::path::Path;

use anyhow::{Context, Result};
use png::{ColorType, Compression};

/// Red, green and blue.
pub(super) type Colour = [u8; 3];

/// A picture to draw on.
pub(super) struct Canvas {
    pub(super) width: u32,
    pub(super) height: u32,
    /// The pixels, row by row.
    rgb: Vec<u8>,
}

impl Canvas {
    /// A canvas of one colour.
    pub(super) fn new(width: u32, height: u32, colour: Colour) -> Canvas {
        let rgb = colour.repeat((width * height) as usize);
        Canvas { width, height, rgb }
    }

    /// Sets the pixel at (x, y).
    pub(super) fn set(&mut self, x: u32, y: u32, colour: Colour) {
        let at = self.at(x, y);
        self.rgb[at..at + 3].copy_from_slice(&colour);
    }

    /// The index of the first byte of the pixel at (x, y).
    fn at(&self, x: u32, y: u32) -> usize {
        assert!(x < self.width && y < self.height, "({x}, {y}) is outside");
        3 * (y * self.width + x) as usize
    }

    /// Writes the canvas to the file `path`.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        save(path, (self.width, self.height), ColorType::Rgb, &self.rgb)
    }
}

#[cfg(test)]
impl Canvas {
    /// The pixel at (x, y).
    pub(super) fn get(&self, x: u32, y: u32) -> Colour {
        let at = self.at(x, y);
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }
}

/// Writes a grey picture to the file `path`.
pub(super) fn save_grey(path: &Path, size: (u32, u32), levels: &[u8]) -> Result<()> {
    save(path, size, ColorType::Grayscale, levels)
}

/// Writes a picture with 8 bits for each channel to the file `path`.
fn save(path: &Path, (width, height): (u32, u32), colour: ColorType, samples: &[u8]) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header().with_context(context)?;
    writer.write_image_data(samples).with_context(context)?;
    writer.finish().with_context(context)?;
    std::fs::write(path, bytes).with_context(context)
}
