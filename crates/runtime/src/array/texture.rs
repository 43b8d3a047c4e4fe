//! `Texture` and `Surface`: arrays of texels, which kernels sample and write.

use std::{marker::PhantomData, sync::Arc};

use bytemuck::Pod;
use half::f16;
use millstream_driver::{ArrayDescriptor, TextureDescriptor, cuda::api};

use super::{
    CopySource, CopyTarget, DeviceOperand, ReadOperand, WriteOperand,
    operand::{CopyOperand, sealed::Sealed},
    view::{Reach, Span},
};
use crate::{
    UsageErrorKind,
    memory::{Allocation, ArrayKey},
};

#[doc = include_str!("address_mode.md")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// The texel at the coordinate modulo 1; with normalised coordinates only.
    Wrap,
    /// The nearest texel of the texture.
    #[default]
    Clamp,
    /// As `Wrap`, with every second repetition mirrored.
    Mirror,
    /// The [border colour](TextureOptions::border).
    Border,
}

#[doc = include_str!("texture_options.md")]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureOptions {
    /// Width, height and depth in texels: 0 for those that the texture does not have.
    pub size: [usize; 3],
    /// Whether the depth is a number of layers, one of which a fetch chooses.
    pub layered: bool,
    /// The texel that a fetch outside reads.
    pub address: AddressMode,
    /// The border colour; for integers, its bits.
    pub border: [f32; 4],
    /// Whether a fetch blends the nearest texels, whose centres are at their index plus 0.5, with
    /// weights of 8 bits.
    pub linear: bool,
    /// Whether coordinates are from 0 to 1, in place of texels.
    pub normalized_coordinates: bool,
    /// Whether integers of 8 or 16 bits are read as floats from 0 or -1 to 1.
    pub normalized_values: bool,
}

impl TextureOptions {
    /// Returns the number of texels, or `usize::MAX` if it is larger.
    #[must_use]
    pub fn texels(&self) -> usize {
        let rest = self.size[1..].iter().map(|size| *size.max(&1));
        rest.fold(self.size[0], usize::saturating_mul)
    }

    /// Returns the descriptors of a texture of `T`, or why there is none.
    pub(crate) fn key<T: Texel>(&self) -> Result<ArrayKey, UsageErrorKind> {
        let refused = |detail: String| UsageErrorKind::Unsupported { detail };
        let (format, channels) = T::FORMAT;
        let [width, height, depth] = self.size;
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let shape = ArrayDescriptor {
            width,
            height,
            depth,
            format,
            channels,
            flags: api::ARRAY3D_SURFACE_LDST | flag(self.layered, api::ARRAY3D_LAYERED),
        };
        let is_integer = format < 16 && !self.normalized_values;
        let problem = if self.normalized_values && ![1, 2, 8, 9].contains(&format) {
            Some("only integers of 8 and 16 bits have normalised values".into())
        } else if self.linear && is_integer {
            Some("a linear filter needs floats or normalised values".into())
        } else if self.address as i32 % 2 == 0 && !self.normalized_coordinates {
            Some(format!("{:?} needs normalised coordinates", self.address))
        } else {
            shape.problem()
        };
        let mode = TextureDescriptor {
            address: [self.address as i32; 3],
            filter: self.linear.into(),
            flags: flag(is_integer, api::TRSF_READ_AS_INTEGER)
                | flag(
                    self.normalized_coordinates,
                    api::TRSF_NORMALIZED_COORDINATES,
                ),
            border: self.border,
            ..TextureDescriptor::default()
        };
        problem.map_or(Ok((shape, mode)), |problem| Err(refused(problem)))
    }
}

#[doc = include_str!("texel.md")]
pub trait Texel: Pod + Sealed {
    /// The number of the format in `CUarray_format`, and the number of components.
    #[doc(hidden)]
    const FORMAT: (i32, u32);
}

macro_rules! texels {
    ($($component:ty = $format:literal),*) => {$(
        texels!(of $component, $format, 1);
        texels!(of [$component; 2], $format, 2);
        texels!(of [$component; 4], $format, 4);
    )*};
    (of $texel:ty, $format:literal, $channels:literal) => {
        impl Sealed for $texel {}

        impl Texel for $texel {
            const FORMAT: (i32, u32) = ($format, $channels);
        }
    };
}

texels! { u8 = 1, u16 = 2, u32 = 3, i8 = 8, i16 = 9, i32 = 10, f16 = 16, f32 = 32 }

#[doc = include_str!("texture.md")]
#[doc(alias("cudaTextureObject_t", "CUtexObject", "cudaArray_t"))]
#[derive(Debug)]
pub struct Texture<T> {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) options: TextureOptions,
    pub(crate) element: PhantomData<T>,
}

impl<T> Texture<T> {
    /// Returns the size and the mode.
    #[must_use]
    pub fn options(&self) -> TextureOptions {
        self.options
    }

    /// Returns the surface by which a kernel writes the texels.
    #[doc(alias("cudaCreateSurfaceObject", "cuSurfObjectCreate"))]
    pub fn surface(&mut self) -> Surface<'_, T> {
        Surface { texture: self }
    }

    pub(crate) fn span(&self, reach: Reach) -> Span<'_> {
        Span {
            allocation: &self.allocation,
            bytes: 0..self.options.texels() * size_of::<T>(),
            ordered: true,
            reach,
        }
    }
}

#[doc = include_str!("surface.md")]
#[derive(Debug)]
#[must_use]
#[doc(alias("cudaSurfaceObject_t", "CUsurfObject"))]
pub struct Surface<'a, T> {
    texture: &'a mut Texture<T>,
}

/// The elements of a texture or a surface, as an operand of kernels. No copy takes them.
#[doc(hidden)]
#[derive(Debug)]
pub struct Texels<T>(PhantomData<T>);

macro_rules! operand {
    ($type:ty: |$this:ident| $texture:expr, $reach:ident, $is_exclusive:literal) => {
        impl<T> Sealed for $type {}

        impl<T> ReadOperand<Texels<T>> for $type {
            fn len(&self) -> usize {
                let $this = self;
                $texture.options.texels()
            }

            fn operand(&self) -> DeviceOperand<'_> {
                let $this = self;
                DeviceOperand($texture.span(Reach::$reach))
            }

            fn is_exclusive(&self) -> bool {
                $is_exclusive
            }
        }
    };
}

operand!(Texture<T>: |this| this, Own, false);
operand!(Surface<'_, T>: |this| this.texture, Surface, true);

impl<T> WriteOperand<Texels<T>> for Surface<'_, T> {}
impl<T> WriteOperand<Texels<T>> for &mut Surface<'_, T> {}

impl<T> CopySource<T> for Texture<T> {
    fn source(&self) -> CopyOperand<'_> {
        CopyOperand::Texture(DeviceOperand(self.span(Reach::Own)))
    }
}

impl<T> CopyTarget<T> for &mut Texture<T> {}
