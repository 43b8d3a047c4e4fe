//! The element types of collectives, and the reductions.

use std::fmt;

use bytemuck::Pod;

/// A reduction of the elements of all ranks.
///
/// ```
/// use millstream::Device;
/// use millstream_collective::{Collectives, Reduce};
///
/// let device = Device::simulated()?;
/// let mut array = device.stream()?.upload(&[3_i32])?;
/// let collectives = Collectives::new(&[device])?;
/// collectives.all_reduce(&mut [&mut array], Reduce::Max)?;
/// // Integers have no average.
/// assert!(collectives.all_reduce(&mut [&mut array], Reduce::Avg).is_err());
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduce {
    /// The sum. Sums of integers wrap.
    Sum,
    /// The product. Products of integers wrap.
    Prod,
    /// The minimum. Of a number and a NaN it is the number, and -0 is less than +0.
    Min,
    /// The maximum. Of a number and a NaN it is the number, and -0 is less than +0.
    Max,
    /// The sum, divided by the number of ranks. For floating-point elements only.
    Avg,
}

/// An element type of collectives: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`, and the types `f16`
/// and `bf16` of the crate `half`.
///
/// Among the devices of one process without NCCL, a reduction of `f16` or `bf16` rounds after each
/// rank's element, like a loop over the ranks in Rust. NCCL may round at other places.
///
/// ```
/// fn bytes<T: millstream_collective::CollectiveElement>(array: &millstream::Buffer<T>) -> usize {
///     array.len() * size_of::<T>()
/// }
/// let array = millstream::Device::simulated()?.stream()?.zeros::<f64>(3)?;
/// assert_eq!(bytes(&array), 24);
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait CollectiveElement: Pod + sealed::Sealed {}

pub(super) mod sealed {
    pub trait Sealed {
        const TYPE: super::ElementType;
    }
}

/// An element type as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    F16,
    Bf16,
}

impl ElementType {
    /// Returns the size of an element in bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Returns whether elements have fractions, so that there is an average.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::Bf16)
    }

    /// Returns the name of the type in Rust.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! elements {
    ($($type:ty: $element:ident),*) => {
        $(
            impl sealed::Sealed for $type {
                const TYPE: ElementType = ElementType::$element;
            }

            impl CollectiveElement for $type {}
        )*
    };
}

elements!(
    f32: F32,
    f64: F64,
    i32: I32,
    i64: I64,
    u32: U32,
    u64: U64,
    half::f16: F16,
    half::bf16: Bf16
);
