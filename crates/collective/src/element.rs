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

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Passes the table of element types to the macro `$then`: the type in Rust, its name and number in
/// `ncclDataType_t`, its name in Rust, its kind of arithmetic, and its description. Not part of the
/// public interface.
#[doc(hidden)]
#[macro_export]
macro_rules! elements {
    ($then:ident) => {
        $then! {
            i32: I32 = 2, "i32", integer, "32-bit signed integers.";
            u32: U32 = 3, "u32", integer, "32-bit unsigned integers.";
            i64: I64 = 4, "i64", integer, "64-bit signed integers.";
            u64: U64 = 5, "u64", integer, "64-bit unsigned integers.";
            half::f16: F16 = 6, "f16", half, "16-bit floating-point numbers of IEEE 754.";
            f32: F32 = 7, "f32", float, "Single precision.";
            f64: F64 = 8, "f64", float, "Double precision.";
            half::bf16: Bf16 = 9, "bf16", half, "The upper halves of single-precision numbers.";
        }
    };
}

macro_rules! declare {
    ($(
        $type:ty: $name:ident = $number:literal, $text:literal, $kind:ident, $doc:literal;
    )*) => {
        /// An element type as a value (`ncclDataType_t`).
        #[repr(i32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum DataType {
            $(#[doc = $doc] $name = $number,)*
        }

        impl DataType {
            /// Returns the size of an element in bytes.
            #[must_use]
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$name => size_of::<$type>(),)*
                }
            }

            /// Returns whether elements have fractions, so that there is an average.
            pub(crate) fn is_float(self) -> bool {
                match self {
                    $(Self::$name => stringify!($kind) != "integer",)*
                }
            }

            /// Returns the name of the type in Rust.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        $(
            impl sealed::Sealed for $type {
                const TYPE: DataType = DataType::$name;
            }

            impl CollectiveElement for $type {}
        )*
    };
}

elements!(declare);
