//! Host implementations of element functions, according to the library's documentation.

use crate::differential::{
    host_half::{BRAIN, Exact, HALF},
    prelude::*,
};

pub(crate) trait Plain: Copy + PartialEq {
    fn sum(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

pub(crate) trait Number: Plain + PartialOrd {
    fn from_small(value: i8) -> Self;
    fn unary(self, function: Unary) -> Self;
    fn binary(self, function: Binary, other: Self) -> Self;
    fn is_no_number(self) -> bool;
    fn is_negative_zero(self) -> bool;
    fn power(self, exponent: i32) -> Self;

    fn clamped(self, least: Self, greatest: Self) -> Self {
        self.binary(Binary::Maximum, least)
            .binary(Binary::Minimum, greatest)
    }

    /// Combines two elements by a reduction.
    fn join(self, reduce: Reduce, other: Self) -> Self {
        match reduce {
            Reduce::Sum => self.sum(other),
            Reduce::Product => self.times(other),
            Reduce::Minimum => self.binary(Binary::Minimum, other),
            Reduce::Maximum => self.binary(Binary::Maximum, other),
            _ => unreachable!("{reduce:?} has results of another type"),
        }
    }
}

pub(crate) trait Word: Copy {
    fn bitwise(self, function: Bitwise, other: Self) -> Self;
}

/// A type to which elements of another can be cast.
pub(crate) trait CastFrom<T> {
    fn cast_from(value: T) -> Self;
}

impl Compare {
    pub(crate) fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            Compare::Less => a < b,
            Compare::LessEqual => a <= b,
            Compare::Greater => a > b,
            Compare::GreaterEqual => a >= b,
            Compare::Equal => a == b,
            Compare::NotEqual => a != b,
        }
    }
}

/// Implements sum and product by the operators of a float.
macro_rules! plain_floats {
    ($($type:ty),*) => {$(
        impl Plain for $type {
            fn sum(self, other: Self) -> Self {
                self + other
            }

            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}

plain_floats!(f16, bf16, f32, f64);

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn from_small(value: i8) -> Self {
                value.into()
            }

            fn unary(self, function: Unary) -> Self {
                match function {
                    Unary::Negate => -self,
                    Unary::Absolute => self.abs(),
                    Unary::Signum => self.signum(),
                    Unary::Square => self * self,
                    Unary::Relu => self.binary(Binary::Maximum, 0.0),
                    Unary::Root => self.sqrt(),
                    Unary::Floor => self.floor(),
                    Unary::Ceil => self.ceil(),
                    Unary::Trunc => self.trunc(),
                    Unary::RoundEven => self.round_ties_even(),
                    Unary::Round => self.round(),
                    Unary::Reciprocal => self.recip(),
                    Unary::Fraction => self.fract(),
                    Unary::Coarse => self.clamped(-64.0, 64.0).round_ties_even() + 0.0,
                    Unary::Coarsest => self.clamped(-1.0, 1.0).round_ties_even() + 0.0,
                }
            }

            fn binary(self, function: Binary, other: Self) -> Self {
                match function {
                    Binary::Add => self + other,
                    Binary::Subtract => self - other,
                    Binary::Multiply => self * other,
                    Binary::Divide => self / other,
                    Binary::Remainder => self % other,
                    Binary::Minimum | Binary::Maximum if self.is_nan() || other.is_nan() => {
                        Self::NAN
                    }
                    // Of two zeros, the negative one is less.
                    Binary::Minimum if self == other && self.is_sign_negative() => self,
                    Binary::Maximum if self == other && self.is_sign_positive() => self,
                    Binary::Minimum if self < other => self,
                    Binary::Maximum if self > other => self,
                    Binary::Minimum | Binary::Maximum => other,
                }
            }

            fn is_no_number(self) -> bool {
                self.is_nan()
            }

            fn is_negative_zero(self) -> bool {
                self == 0.0 && self.is_sign_negative()
            }

            fn power(self, exponent: i32) -> Self {
                self.powi(exponent)
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ty: $absolute:path, $signum:path;)*) => {$(
        impl Plain for $type {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Number for $type {
            fn from_small(value: i8) -> Self {
                value as Self
            }

            fn unary(self, function: Unary) -> Self {
                match function {
                    Unary::Negate => self.wrapping_neg(),
                    Unary::Absolute => $absolute(self),
                    Unary::Signum => $signum(self),
                    Unary::Square => self.wrapping_mul(self),
                    Unary::Relu => self.max(0),
                    Unary::Coarse | Unary::Coarsest => self,
                    _ => unreachable!("{function:?} is for floats"),
                }
            }

            fn binary(self, function: Binary, other: Self) -> Self {
                match function {
                    Binary::Add => self.wrapping_add(other),
                    Binary::Subtract => self.wrapping_sub(other),
                    Binary::Multiply => self.wrapping_mul(other),
                    Binary::Divide | Binary::Remainder if other == 0 => 0,
                    Binary::Divide => self.wrapping_div(other),
                    Binary::Remainder => self.wrapping_rem(other),
                    Binary::Minimum => self.min(other),
                    Binary::Maximum => self.max(other),
                }
            }

            fn is_no_number(self) -> bool {
                false
            }

            fn is_negative_zero(self) -> bool {
                false
            }

            fn power(self, exponent: i32) -> Self {
                let power = self.wrapping_pow(exponent.unsigned_abs());
                if exponent < 0 { (1 as Self).binary(Binary::Divide, power) } else { power }
            }
        }

        impl Word for $type {
            fn bitwise(self, function: Bitwise, other: Self) -> Self {
                match function {
                    Bitwise::And => self & other,
                    Bitwise::Or => self | other,
                    Bitwise::ExclusiveOr => self ^ other,
                    Bitwise::Not => !self,
                    Bitwise::ShiftLeft => self.wrapping_shl(other as u32),
                    Bitwise::ShiftRight => self.wrapping_shr(other as u32),
                }
            }
        }
    )*};
}

/// Implements the casts from each of these types to each type.
macro_rules! casts {
    ($($from:ty)*) => {$(
        casts!($from => f32 f64 i8 i16 i32 i64 u8 u16 u32 u64, |value| value as Self);
        casts!($from => f16, |value| Self::from_f64(value.nearest(HALF)));
        casts!($from => bf16, |value| Self::from_f64(value.nearest(BRAIN)));
        casts!($from => bool, |value| value != 0 as $from);
    )*};
    ($from:ty => $($to:ty)*, |$value:ident| $cast:expr) => {$(
        impl CastFrom<$from> for $to {
            fn cast_from($value: $from) -> Self {
                $cast
            }
        }
    )*};
}

casts!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

/// Implements the casts from a type as those from another, to which it converts exactly.
macro_rules! casts_by {
    ($($from:ty: $by:ty;)*) => {$(
        impl<T: CastFrom<$by>> CastFrom<$from> for T {
            fn cast_from(value: $from) -> Self {
                Self::cast_from(<$by>::from(value))
            }
        }
    )*};
}

casts_by! {
    f16: f32;
    bf16: f32;
    bool: u8;
}

fn same<T>(value: T) -> T {
    value
}

fn is_one<T: Ord + From<bool>>(value: T) -> T {
    value.min(true.into())
}

floats!(f32, f64);
integers! {
    i8: i8::wrapping_abs, i8::signum;
    i16: i16::wrapping_abs, i16::signum;
    i32: i32::wrapping_abs, i32::signum;
    i64: i64::wrapping_abs, i64::signum;
    u8: same, is_one;
    u16: same, is_one;
    u32: same, is_one;
    u64: same, is_one;
}

impl Plain for bool {
    fn sum(self, other: Self) -> Self {
        self | other
    }

    fn times(self, other: Self) -> Self {
        self & other
    }
}

impl Word for bool {
    fn bitwise(self, function: Bitwise, other: Self) -> Self {
        match function {
            Bitwise::And => self & other,
            Bitwise::Or => self | other,
            Bitwise::ExclusiveOr => self ^ other,
            Bitwise::Not => !self,
            Bitwise::ShiftLeft | Bitwise::ShiftRight => unreachable!("a boolean is not shifted"),
        }
    }
}
