//! Element types of arrays and the traits of their operations.

use bytemuck::Pod;

/// The element type of a device array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DType {
    F32,
    F64,
    I32,
    I64,
    U8,
    /// A byte that holds 0 or 1.
    Bool,
}

impl DType {
    /// Returns the size of an element in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::U8 | DType::Bool => 1,
        }
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
        fn store(self) -> Self::Stored;
        #[doc(hidden)]
        fn stored(elements: &[Self]) -> &[Self::Stored];
        #[doc(hidden)]
        fn load(stored: Self::Stored) -> Self;
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn scalar(self) -> Scalar;
    }
}

/// An element type of arrays: `f32`, `f64`, `i32`, `i64`, `u8` or `bool`.
///
/// ```
/// fn bytes_of<T: millstream_region::Element>(elements: &[T]) -> usize {
///     size_of_val(elements)
/// }
/// assert_eq!(bytes_of(&[1.0_f32, 2.0]), 8);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of an array on a device",
    note = "elements are `f32`, `f64`, `i32`, `i64`, `u8` or `bool`"
)]
pub trait Element: sealed::Sealed + PartialEq + std::fmt::Debug {}

/// A numeric element type: every element type except `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a numeric element type",
    note = "numeric types are `f32`, `f64`, `i32`, `i64` and `u8`; `cast` converts between types"
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

/// A floating-point element type: `f32` or `f64`.
#[diagnostic::on_unimplemented(
    message = "this operation needs `f32` or `f64`, not `{Self}`",
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
    ($(
        $type:ty, $stored:ty, $dtype:ident, |$value:ident| $store:expr, |$from:ident| $load:expr;
    )*) => {$(
        impl sealed::Sealed for $type {
            type Stored = $stored;
            #[allow(private_interfaces)]
            const DTYPE: DType = DType::$dtype;

            fn store(self) -> $stored {
                let $value = self;
                $store
            }

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

        impl Element for $type {}
    )*};
}

elements! {
    f32, f32, F32, |value| value, |stored| stored;
    f64, f64, F64, |value| value, |stored| stored;
    i32, i32, I32, |value| value, |stored| stored;
    i64, i64, I64, |value| value, |stored| stored;
    u8, u8, U8, |value| value, |stored| stored;
    bool, u8, Bool, |value| u8::from(value), |stored| stored != 0;
}

macro_rules! numbers {
    ($($type:ty: $zero:literal, $one:literal, $count:ident;)*) => {$(
        impl Number for $type {
            const ZERO: Self = $zero;
            const ONE: Self = $one;

            fn step_count(start: Self, end: Self, step: Self) -> Option<usize> {
                $count(start.into(), end.into(), step.into())
            }
        }
    )*};
}

numbers! {
    f32: 0.0, 1.0, float_steps;
    f64: 0.0, 1.0, float_steps;
    i32: 0, 1, whole_steps;
    i64: 0, 1, whole_steps;
    u8: 0, 1, whole_steps;
}

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
    let (distance, step) = if step > 0 {
        (end - start, step)
    } else {
        (start - end, -step)
    };
    let steps = (distance.max(0) + step - 1) / step;
    Some(usize::try_from(steps).unwrap_or(usize::MAX))
}

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl Float for $type {
            fn from_whole(whole: i32) -> Self {
                whole as Self
            }

            fn from_count(count: usize) -> Self {
                count as Self
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

floats!(f32, f64);

/// A typed scalar, as passed to a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar {
    F32(f32),
    F64(f64),
    I32(i32),
    I64(i64),
    U8(u8),
    Bool(bool),
}

impl Scalar {
    /// Returns the type and the bits of the value, which identify it.
    pub(crate) fn key(self) -> (DType, u64) {
        let bits = match self {
            Scalar::F32(value) => value.to_bits().into(),
            Scalar::F64(value) => value.to_bits(),
            Scalar::I32(value) => u64::from(value as u32),
            Scalar::I64(value) => value as u64,
            Scalar::U8(value) => value.into(),
            Scalar::Bool(value) => value.into(),
        };
        (self.dtype(), bits)
    }

    /// Returns the element type of the value.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Scalar::F32(_) => DType::F32,
            Scalar::F64(_) => DType::F64,
            Scalar::I32(_) => DType::I32,
            Scalar::I64(_) => DType::I64,
            Scalar::U8(_) => DType::U8,
            Scalar::Bool(_) => DType::Bool,
        }
    }
}
