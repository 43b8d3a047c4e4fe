//! The element types of collectives, and the reductions.

use std::fmt;

use bytemuck::Pod;

/// A reduction of the elements of all ranks (`ncclRedOp_t`).
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
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduce {
    /// The sum. Sums of integers wrap.
    Sum = 0,
    /// The product. Products of integers wrap.
    Prod = 1,
    /// The minimum. Of a number and a NaN it is the number, and -0 is less than +0.
    Min = 3,
    /// The maximum. Of a number and a NaN it is the number, and -0 is less than +0.
    Max = 2,
    /// The sum, divided by the number of ranks. For floating-point elements only.
    Avg = 4,
}

/// An element type of collectives: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`, and the types `f16`
/// and `bf16` of the crate `half`.
///
/// Among the devices of one process without NCCL, a reduction of `f16` or `bf16` rounds after each
/// rank's element, like a loop over the ranks in Rust. NCCL may round at other places.
pub trait CollectiveElement: Pod + sealed::Sealed {}

pub(super) mod sealed {
    pub trait Sealed {
        const TYPE: super::DataType;
    }
}

/// An element type as a value (`ncclDataType_t`).
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// 32-bit signed integers.
    I32 = 2,
    /// 32-bit unsigned integers.
    U32 = 3,
    /// 64-bit signed integers.
    I64 = 4,
    /// 64-bit unsigned integers.
    U64 = 5,
    /// 16-bit floating-point numbers of IEEE 754.
    F16 = 6,
    /// Single precision.
    F32 = 7,
    /// Double precision.
    F64 = 8,
    /// The upper halves of single-precision numbers.
    Bf16 = 9,
}

impl DataType {
    /// Returns the size of an element in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Returns whether elements have fractions, so that there is an average.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::Bf16)
    }

    /// Returns the name of the type in Rust.
    pub(crate) fn name(self) -> &'static str {
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

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! elements {
    ($($type:ty: $element:ident),*) => {
        $(
            impl sealed::Sealed for $type {
                const TYPE: DataType = DataType::$element;
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
