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

/// A texel of a filter in one dimension: its index, `None` outside of the texture, and its weight
/// in 1/256.
pub(super) type Tap = (Option<u32>, u32);

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

    /// Returns the components of a texel from its bytes. Missing ones are 0, but alpha is 1.
    pub(super) fn components(&self, bytes: &[u8], mode: &TextureDescriptor) -> Components {
        let one = if self.is_float(mode) {
            1.0_f32.to_bits()
        } else {
            1
        };
        let mut components = [0, 0, 0, one];
        let bytes = bytes.chunks(component_bytes(self.format.0).unwrap_or(4));
        for (component, bytes) in components.iter_mut().zip(bytes) {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            let bits = u32::from_le_bytes(word);
            let scaled = self.is_scaled(mode);
            *component = match self.format.0 {
                1 if scaled => (bits as f32 / 255.0).to_bits(),
                2 if scaled => (bits as f32 / 65535.0).to_bits(),
                8 if scaled => (f32::from(bits as i8) / 127.0).max(-1.0).to_bits(),
                9 if scaled => (f32::from(bits as i16) / 32767.0).max(-1.0).to_bits(),
                8 => i32::from(bits as i8).cast_unsigned(),
                9 => i32::from(bits as i16).cast_unsigned(),
                HALF => of_half(bits).to_bits(),
                _ => bits,
            };
        }
        components
    }

    /// Returns the border colour as a fetch returns it.
    pub(super) fn border(&self, mode: &TextureDescriptor) -> Components {
        mode.border.map(|value| match self.format.0 {
            _ if self.is_float(mode) => value.to_bits(),
            8..=10 => (value as i32).cast_unsigned(),
            _ => value as u32,
        })
    }

    /// Returns the texels that a coordinate refers to in one dimension.
    pub(super) fn taps(
        &self,
        axis: usize,
        bits: u32,
        op: ImageOp,
        mode: &TextureDescriptor,
    ) -> [Tap; 2] {
        let size = i64::from(self.size[axis]);
        let normalized = mode.flags & TRSF_NORMALIZED_COORDINATES != 0;
        let address = mode.address[axis];
        let tap = |index: i64, weight: u32| {
            let index = match address {
                BORDER if !(0..size).contains(&index) => return (None, weight),
                WRAP if normalized => index.rem_euclid(size),
                MIRROR if normalized => {
                    let index = index.rem_euclid(2 * size);
                    index.min(2 * size - 1 - index)
                }
                _ => index.clamp(0, size - 1),
            };
            (u32::try_from(index).ok(), weight)
        };
        if let ImageOp::Fetch { integer: true } = op {
            return [tap(bits.cast_signed().into(), 256), (None, 0)];
        }
        let value = f64::from(f32::from_bits(bits));
        let scaled = if normalized {
            value * size as f64
        } else {
            value
        };
        if mode.filter == 0 && !matches!(op, ImageOp::Gather(_)) {
            return [tap(scaled.floor() as i64, 256), (None, 0)];
        }
        let fixed = ((scaled - 0.5) * 256.0).round_ties_even() as i64;
        let (index, weight) = (fixed >> 8, (fixed & 255) as u32);
        [
            tap(index, 256 - weight),
            tap(index.saturating_add(1), weight),
        ]
    }
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
