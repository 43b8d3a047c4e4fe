//! Element types of arrays and the traits of their operations.

use bytemuck::Pod;
use half::{bf16, f16};

impl DType {
    pub(crate) fn bytes(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Returns the number of neighbours that a thread loads or stores at once: 16 bytes, at most 4.
    pub(crate) fn vector_width(self) -> usize {
        (16 / self.bytes()).min(4)
    }

    /// Returns whether the elements are floats of 32 or 64 bits.
    pub(crate) fn is_wide_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// Returns whether the elements are floats of 16 bits.
    pub(crate) fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16)
    }

    pub(crate) fn is_float(self) -> bool {
        self.is_wide_float() || self.is_half()
    }

    /// Returns whether the elements are integers without a sign.
    pub(crate) fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// Returns whether the elements are integers of less than 32 bits.
    pub(crate) fn is_narrow_integer(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::U8 | DType::U16)
    }
}

pub(crate) mod sealed {
    use super::{DType, Pod, Scalar};

    /// Conversions between host elements and their form in device memory, private to this crate.
    pub trait Sealed: Copy + Send + Sync + 'static {
        /// The representation in memory.
        type Stored: Pod + Send + Sync + Unpin;
        #[doc(hidden)]
        #[allow(private_interfaces)]
        const DTYPE: DType;
        #[doc(hidden)]
        fn stored(elements: &[Self]) -> &[Self::Stored];
        #[doc(hidden)]
        fn load(stored: Self::Stored) -> Self;
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn scalar(self) -> Scalar;
    }
}

/// A type that can be an item of a list. A list of elements is one array, any other one a `Vec`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an item of a list of a region function",
    note = "items are numbers or `bool`, which make one array; and owned arrays of `ndarray`, \
            arrays on the device, other plain values, `Option`s, tuples and `Vec`s of those, and \
            structs that derive `millstream_region::OnDevice`"
)]
pub trait ListItem {
    /// [`ElementKind`] or [`CompositeKind`].
    type Kind;
}

/// The kind of elements.
#[doc(hidden)]
pub struct ElementKind;

/// The kind of all types that are no elements.
#[doc(hidden)]
pub struct CompositeKind;

/// An element type of arrays: `f32`, `f64`, integers of 8 to 64 bits, `bool`, and `f16` and `bf16`
/// of the crate `half`.
///
/// An operation on `f16` or `bf16` is computed in `f32`, and its result is rounded to the nearest
/// element, ties to even. Sums, differences, products, quotients, remainders and square roots are
/// therefore correctly rounded, and fusing operations changes no bit. Reductions, scans and matrix
/// products accumulate in a wider type and round the result once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of an array on a device",
    note = "elements are `f32`, `f64`, `half::f16`, `half::bf16`, `i8` to `i64`, `u8` to `u64`, \
            or `bool`"
)]
pub trait Element:
    sealed::Sealed + ListItem<Kind = ElementKind> + PartialEq + std::fmt::Debug
{
}

/// A numeric element type: every element type except `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a numeric element type",
    note = "every element type except `bool` is numeric; `cast` converts between types"
)]
pub trait Number: Element + PartialOrd {
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;

    /// Returns the number of steps of size `step` from `start` until `end` is reached or passed, or
    /// `None` if there is no such number.
    fn step_count(start: Self, end: Self, step: Self) -> Option<usize>;
}

/// A floating-point element type: `f32`, `f64`, or `f16` or `bf16` of the crate `half`.
#[diagnostic::on_unimplemented(
    message = "this operation needs floats, not `{Self}`",
    note = "`cast::<f32>()` or `cast::<f64>()` converts the array"
)]
pub trait Float: Number {
    /// Converts an integer, rounding to the nearest float if it has too many digits.
    fn from_whole(whole: i32) -> Self;

    /// Converts a number of elements, rounding to the nearest float if it has too many digits.
    fn from_count(count: usize) -> Self;

    /// Returns the difference `self - other`.
    fn minus(self, other: Self) -> Self;

    /// Returns the quotient `self / other`.
    fn divided_by(self, other: Self) -> Self;
}

macro_rules! elements {
    ($($(#[$doc:meta])* $dtype:ident $type:ty, $stored:ty, |$from:ident| $load:expr;)*) => {
        /// The element type of a device array.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum DType {
            $($(#[$doc])* $dtype,)*
        }

        impl DType {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$dtype),*];

            /// Returns the name of the host's type.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$dtype => stringify!($type),)*
                }
            }
        }

        /// A typed scalar, as passed to a kernel.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Scalar {
            $($dtype($type),)*
        }

        impl Scalar {
            /// Returns the element type of the value.
            pub(crate) fn dtype(self) -> DType {
                match self {
                    $(Self::$dtype(_) => DType::$dtype,)*
                }
            }
        }

        $(impl sealed::Sealed for $type {
            type Stored = $stored;
            #[allow(private_interfaces)]
            const DTYPE: DType = DType::$dtype;

            #[allow(private_interfaces)]
            fn scalar(self) -> Scalar {
                Scalar::$dtype(self)
            }

            fn stored(elements: &[Self]) -> &[$stored] {
                bytemuck::cast_slice(elements)
            }

            fn load($from: $stored) -> Self {
                $load
            }
        }

        impl ListItem for $type {
            type Kind = ElementKind;
        }

        impl Element for $type {})*
    };
}

elements! {
    F16 f16, f16, |stored| stored;
    Bf16 bf16, bf16, |stored| stored;
    F32 f32, f32, |stored| stored;
    F64 f64, f64, |stored| stored;
    I8 i8, i8, |stored| stored;
    I16 i16, i16, |stored| stored;
    I32 i32, i32, |stored| stored;
    I64 i64, i64, |stored| stored;
    U8 u8, u8, |stored| stored;
    U16 u16, u16, |stored| stored;
    U32 u32, u32, |stored| stored;
    U64 u64, u64, |stored| stored;
    /// A byte that holds 0 or 1.
    Bool bool, u8, |stored| stored != 0;
}

macro_rules! numbers {
    ($count:ident, $zero:expr, $one:expr, $($type:ty),*) => {$(
        impl Number for $type {
            const ZERO: Self = $zero;
            const ONE: Self = $one;

            fn step_count(start: Self, end: Self, step: Self) -> Option<usize> {
                $count(start.into(), end.into(), step.into())
            }
        }
    )*};
}

numbers!(float_steps, f16::ZERO, f16::ONE, f16);
numbers!(float_steps, bf16::ZERO, bf16::ONE, bf16);
numbers!(float_steps, 0.0, 1.0, f32, f64);
numbers!(whole_steps, 0, 1, i8, i16, i32, i64, u8, u16, u32, u64);

fn float_steps(start: f64, end: f64, step: f64) -> Option<usize> {
    let steps = ((end - start) / step).ceil();
    // The cast saturates: a negative number of steps becomes 0, and one that is too large is
    // rejected later, with the shape.
    (step != 0.0 && !steps.is_nan()).then_some(steps as usize)
}

fn whole_steps(start: i128, end: i128, step: i128) -> Option<usize> {
    if step == 0 {
        return None;
    }
    let (distance, step) = ((end - start) * step.signum(), step.abs());
    let steps = (distance.max(0) + step - 1) / step;
    Some(usize::try_from(steps).unwrap_or(usize::MAX))
}

macro_rules! floats {
    ($($type:ty: |$number:ident| $convert:expr;)*) => {$(
        impl Float for $type {
            fn from_whole($number: i32) -> Self {
                $convert
            }

            fn from_count($number: usize) -> Self {
                $convert
            }

            fn minus(self, other: Self) -> Self {
                self - other
            }

            fn divided_by(self, other: Self) -> Self {
                self / other
            }
        }
    )*};
}

floats! {
    f16: |number| Self::from_f32(number as f32);
    bf16: |number| Self::from_f32(number as f32);
    f32: |number| number as Self;
    f64: |number| number as Self;
}

impl Scalar {
    /// Returns the bits of the value as a register holds them: integers of less than 32 bits are
    /// extended to 32.
    pub(crate) fn bits(self) -> u64 {
        let signed = |value: i32| u64::from(value as u32);
        match self {
            Scalar::F16(value) => value.to_bits().into(),
            Scalar::Bf16(value) => value.to_bits().into(),
            Scalar::F32(value) => value.to_bits().into(),
            Scalar::F64(value) => value.to_bits(),
            Scalar::I8(value) => signed(value.into()),
            Scalar::I16(value) => signed(value.into()),
            Scalar::I32(value) => signed(value),
            Scalar::I64(value) => value as u64,
            Scalar::U8(value) => value.into(),
            Scalar::U16(value) => value.into(),
            Scalar::U32(value) => value.into(),
            Scalar::U64(value) => value,
            Scalar::Bool(value) => value.into(),
        }
    }
}
