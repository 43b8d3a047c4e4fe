//! What the elements of arrays are: six types, and what can be done with each.

use bytemuck::Pod;

/// The type of an element on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DType {
    F32,
    F64,
    I32,
    I64,
    U8,
    /// A byte that is 0 or 1.
    Bool,
}

impl DType {
    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::U8 | DType::Bool => 1,
        }
    }
}

pub(crate) mod sealed {
    use super::{DType, Pod};

    /// What the crate must know of an element and nobody else may.
    pub trait Sealed: Copy + Send + Sync + 'static {
        /// What stands for it in memory.
        type Stored: Pod + Send + Sync;
        #[doc(hidden)]
        #[allow(private_interfaces)]
        const DTYPE: DType;
        #[doc(hidden)]
        fn store(self) -> Self::Stored;
        #[doc(hidden)]
        fn load(stored: Self::Stored) -> Self;
    }
}

/// A type that arrays can have as elements: `f32`, `f64`, `i32`, `i64`, `u8` and `bool`.
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

/// An element to calculate with: every one but `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number that a device calculates with",
    note = "numbers are `f32`, `f64`, `i32`, `i64` and `u8`; `cast` makes one type of another"
)]
pub trait Number: Element + PartialOrd {}

/// An element with a fraction: `f32` or `f64`.
#[diagnostic::on_unimplemented(
    message = "this operation needs `f32` or `f64`, not `{Self}`",
    note = "`cast::<f32>()` or `cast::<f64>()` makes an array of those"
)]
pub trait Float: Number {}

macro_rules! elements {
    ($($type:ty, $stored:ty, $dtype:ident, |$value:ident| $store:expr, |$from:ident| $load:expr;)*) => {$(
        impl sealed::Sealed for $type {
            type Stored = $stored;
            #[allow(private_interfaces)]
            const DTYPE: DType = DType::$dtype;

            fn store(self) -> $stored {
                let $value = self;
                $store
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

impl Number for f32 {}
impl Number for f64 {}
impl Number for i32 {}
impl Number for i64 {}
impl Number for u8 {}
impl Float for f32 {}
impl Float for f64 {}
