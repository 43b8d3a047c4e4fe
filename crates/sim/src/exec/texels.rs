//! Textures and surfaces as kernels see them: the layout of their texels, the values of components,
//! and the texels that a coordinate refers to.

use millstream_driver::TextureDescriptor;
use millstream_driver::cuda::api::{TRSF_NORMALIZED_COORDINATES, TRSF_READ_AS_INTEGER};

use crate::ptx::ir::ImageOp;

/// A texture or a surface, as [`GlobalMemory::image`](super::GlobalMemory::image) describes it to
/// kernels.
///
/// ```
/// use millstream_sim::exec::Image;
/// // A surface of 5 × 3 texels of four bytes (`CU_AD_FORMAT_UNSIGNED_INT8`).
/// let (size, pitch_bytes, format) = ([5, 3, 1], 32, (1, 4));
/// let (dimensions, layered, mode) = (2, false, None);
/// let image = Image { base: 0x1000, size, dimensions, layered, pitch_bytes, format, mode };
/// assert_eq!((image.texel_bytes(), image.row_bytes()), (4, 20));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// The address of the first texel.
    pub base: u64,
    /// The width, height and depth in texels, 1 where there is no such dimension. The depth of a
    /// layered image is its number of layers.
    pub size: [u32; 3],
    /// The number of dimensions, without layers.
    pub dimensions: u8,
    /// Whether the image consists of layers.
    pub layered: bool,
    /// The distance between the starts of rows.
    pub pitch_bytes: u64,
    /// The format of a component (`CUarray_format`), and the number of components.
    pub format: (i32, u32),
    /// The way in which a texture is read; `None` for a surface.
    pub mode: Option<TextureDescriptor>,
}

/// The formats of components: floating-point numbers of 16 and of 32 bits.
const HALF: i32 = 16;
const FLOAT: i32 = 32;
/// The address modes: the texture repeats, in mirror image, or is surrounded by the border colour.
/// The remaining mode is to clamp.
const WRAP: i32 = 0;
const MIRROR: i32 = 2;
const BORDER: i32 = 3;

/// Returns the size of a component of a format in bytes; `None` for a format that is not known.
pub(crate) fn component_bytes(format: i32) -> Option<usize> {
    match format {
        1 | 8 => Some(1),
        2 | 9 | HALF => Some(2),
        3 | 10 | FLOAT => Some(4),
        _ => None,
    }
}

/// The four components of a texel, as the bits that a fetch returns.
pub(super) type Components = [u32; 4];

/// The texels of a filter in one dimension: their indices, `None` outside of the texture, and the
/// weight of the second one in 1/256.
pub(super) type Taps = ([Option<u32>; 2], u32);

/// 1 in a normalised coordinate of fixed point.
const FRACTION: f64 = 2_097_152.0;

impl Image {
    /// Returns the number of bytes of a texel.
    #[must_use]
    pub fn texel_bytes(&self) -> usize {
        component_bytes(self.format.0).unwrap_or(4) * self.format.1 as usize
    }

    /// Returns the number of bytes of a row.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.size[0]) * self.texel_bytes() as u64
    }

    /// Returns the address of a byte of a row of a layer.
    pub(super) fn address(&self, x_bytes: u64, y: u32, z: u32) -> u64 {
        let row = u64::from(z) * u64::from(self.size[1]) + u64::from(y);
        self.base + row * self.pitch_bytes + x_bytes
    }

    /// Returns whether components are integers that are read as numbers from 0 or -1 to 1.
    fn is_scaled(&self, mode: &TextureDescriptor) -> bool {
        let is_short = self.format.0 < HALF && component_bytes(self.format.0) != Some(4);
        is_short && mode.flags & TRSF_READ_AS_INTEGER == 0
    }

    /// Returns whether a fetch returns floating-point numbers.
    pub(super) fn is_float(&self, mode: &TextureDescriptor) -> bool {
        self.format.0 >= HALF || self.is_scaled(mode)
    }

    /// Returns the components of a texel from its bytes. Missing ones are 0.
    pub(super) fn components(&self, bytes: &[u8], mode: &TextureDescriptor) -> Components {
        let mut components = [0; 4];
        if self.format.0 == FLOAT {
            for (component, bytes) in components.iter_mut().zip(bytes.as_chunks().0) {
                *component = u32::from_le_bytes(*bytes);
            }
            return components;
        }
        let bytes = bytes.chunks(component_bytes(self.format.0).unwrap_or(4));
        for (component, bytes) in components.iter_mut().zip(bytes) {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            *component = self.component(u32::from_le_bytes(word), mode);
        }
        components
    }

    /// Returns a component as a fetch returns it.
    fn component(&self, bits: u32, mode: &TextureDescriptor) -> u32 {
        let scaled = self.is_scaled(mode);
        match self.format.0 {
            1 if scaled => (f32::from(bits as u8) / 255.0).to_bits(),
            2 if scaled => (f32::from(bits as u16) / 65535.0).to_bits(),
            8 if scaled => (f32::from(bits as i8) / 127.0).max(-1.0).to_bits(),
            9 if scaled => (f32::from(bits as i16) / 32767.0).max(-1.0).to_bits(),
            1 => bits & 0xff,
            2 => bits & 0xffff,
            8 => i32::from(bits as i8).cast_unsigned(),
            9 => i32::from(bits as i16).cast_unsigned(),
            HALF => of_half(bits).to_bits(),
            _ => bits,
        }
    }

    /// Returns the border colour as a fetch returns it: in the format of the texels. A texture of
    /// integers takes the bits of the colour, as if it was one of integers.
    pub(super) fn border(&self, mode: &TextureDescriptor) -> Components {
        let mut border = mode.border.map(|value| match self.format.0 {
            FLOAT => value.to_bits(),
            HALF => to_half(value.to_bits()),
            format if self.is_scaled(mode) => {
                let bits = match format {
                    1 => (value * 256.0).floor().clamp(0.0, 255.0) as u32,
                    2 => (value * 65536.0).floor().clamp(0.0, 65535.0) as u32,
                    8 => (value * 127.0).round().clamp(-127.0, 127.0) as i32 as u32,
                    _ => (value * 32767.0).round().clamp(-32767.0, 32767.0) as i32 as u32,
                };
                self.component(bits, mode)
            }
            _ => self.component(value.to_bits(), mode),
        });
        border[self.format.1 as usize..].fill(0);
        border
    }

    /// Returns a component as filters use it: integers with 16 bits.
    pub(super) fn for_filter(&self, bits: u32, mode: &TextureDescriptor) -> f64 {
        let value = f64::from(f32::from_bits(bits));
        match self.filter_scale(mode) {
            Some(scale) => (value * scale).round(),
            None => value,
        }
    }

    /// Returns the result of a filter as a fetch returns it.
    pub(super) fn of_filter(&self, value: f64, mode: &TextureDescriptor) -> u32 {
        let value = match self.filter_scale(mode) {
            Some(scale) => (value + 0.5).floor() / scale,
            None => value,
        };
        let bits = (value as f32).to_bits();
        if self.format.0 == HALF {
            to_half(bits)
        } else {
            bits
        }
    }

    fn filter_scale(&self, mode: &TextureDescriptor) -> Option<f64> {
        let scale = if self.format.0 < 8 { 65535.0 } else { 32767.0 };
        self.is_scaled(mode).then_some(scale)
    }

    /// Returns the texels that a coordinate refers to in one dimension: their indices, and the
    /// weight of the second one in 1/256.
    ///
    /// Normalised coordinates have 21 fractional bits, as on an H100.
    pub(super) fn taps(
        &self,
        axis: usize,
        bits: u32,
        op: ImageOp,
        mode: &TextureDescriptor,
    ) -> Taps {
        let size = i64::from(self.size[axis]);
        let normalized = mode.flags & TRSF_NORMALIZED_COORDINATES != 0;
        let address = mode.address[axis];
        let tap = |index: i64| {
            let index = match address {
                BORDER if !(0..size).contains(&index) => return None,
                WRAP if normalized => index.rem_euclid(size),
                MIRROR if normalized => {
                    let index = index.rem_euclid(2 * size);
                    index.min(2 * size - 1 - index)
                }
                _ => index.clamp(0, size - 1),
            };
            u32::try_from(index).ok()
        };
        if let ImageOp::Fetch { integer: true } = op {
            // Outside of the texture are zeros, whatever the mode.
            let index = i64::from(bits.cast_signed());
            let found = (0..size).contains(&index).then_some(index as u32);
            return ([found; 2], 0);
        }
        let mut value = f64::from(f32::from_bits(bits));
        if normalized {
            value = match address {
                WRAP => value - value.floor(),
                MIRROR => value.rem_euclid(2.0),
                _ => value,
            };
            value = (value * FRACTION).floor() / FRACTION * size as f64;
        }
        if value.is_nan() {
            // Also an infinite coordinate of a texture that repeats.
            value = 0.0;
        }
        if let ImageOp::Gather(_) = op {
            let index = floor(value - 0.5);
            return ([tap(index), tap(index.saturating_add(1))], 0);
        }
        if mode.filter == 0 {
            return ([tap(floor(value)); 2], 0);
        }
        let fixed = floor((value - 0.5) * 256.0 + 0.5);
        let (index, weight) = (fixed >> 8, (fixed & 255) as u32);
        ([tap(index), tap(index.saturating_add(1))], weight)
    }
}

/// Returns the greatest integer that is not greater: the nearest there is, and 0 for NaN. For
/// `f64::floor`, a function of the C library would be called.
fn floor(value: f64) -> i64 {
    let whole = value as i64;
    whole.saturating_sub(i64::from(whole as f64 > value))
}

/// Rounds a number to one of 16 bits in its normal range.
fn to_half(bits: u32) -> u32 {
    bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff
}

fn of_half(bits: u32) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 31, bits & 1023);
    let magnitude = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}
