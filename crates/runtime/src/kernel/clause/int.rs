//! `Int`: an integer of a clause with checked arithmetic.

use std::{
    cmp::Ordering,
    fmt,
    ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Rem, Shl, Shr, Sub},
};

use super::{FAILED, Value};

/// An integer in a clause. Operators accept it together with Rust's own integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub struct Int(i128);

impl Int {
    /// Creates the integer of a literal.
    pub const fn new(value: i128) -> Self {
        Self(value)
    }

    /// Returns the smaller integer.
    pub fn min(self, other: impl Into<Self>) -> Self {
        Ord::min(self, other.into())
    }

    /// Returns the larger integer.
    pub fn max(self, other: impl Into<Self>) -> Self {
        Ord::max(self, other.into())
    }

    /// Restricts the integer to `min..=max`, which must not be empty.
    pub fn clamp(self, min: impl Into<Self>, max: impl Into<Self>) -> Self {
        let (min, max) = (min.into(), max.into());
        Self::checked((min <= max).then(|| Ord::clamp(self.0, min.0, max.0)))
    }

    /// Returns the quotient, rounded up.
    pub fn div_ceil(self, divisor: impl Into<Self>) -> Self {
        let divisor = divisor.into();
        let quotient = self / divisor;
        let remainder = self % divisor;
        let up = remainder.0 != 0 && (remainder.0 < 0) == (divisor.0 < 0);
        quotient + Self(i128::from(up))
    }

    /// Returns the quotient of Euclidean division, whose remainder is not negative.
    pub fn div_euclid(self, divisor: impl Into<Self>) -> Self {
        Self::checked(self.0.checked_div_euclid(divisor.into().0))
    }

    /// Returns the remainder of Euclidean division, which is not negative.
    pub fn rem_euclid(self, divisor: impl Into<Self>) -> Self {
        Self::checked(self.0.checked_rem_euclid(divisor.into().0))
    }

    /// Raises the integer to a power.
    pub fn pow(self, exponent: impl Into<Self>) -> Self {
        let exponent = u32::try_from(exponent.into().0).ok();
        Self::checked(exponent.and_then(|exponent| self.0.checked_pow(exponent)))
    }

    /// Returns the absolute value.
    pub fn abs(self) -> Self {
        Self::checked(self.0.checked_abs())
    }

    /// Returns the distance to the other integer.
    pub fn abs_diff(self, other: impl Into<Self>) -> Self {
        (self - other.into()).abs()
    }

    /// Returns whether the integer is a multiple of another. Only 0 is a multiple of 0.
    #[must_use]
    pub fn is_multiple_of(self, divisor: impl Into<Self>) -> bool {
        match divisor.into() {
            Self(0) => self.0 == 0,
            divisor => (self % divisor).0 == 0,
        }
    }

    /// Returns the smallest multiple of a positive `divisor` that is not less than the integer.
    pub fn next_multiple_of(self, divisor: impl Into<Self>) -> Self {
        let divisor = Self::checked(Some(divisor.into().0).filter(|&divisor| divisor > 0));
        self.div_ceil(divisor) * divisor
    }

    /// Returns whether the integer is a power of two.
    #[must_use]
    pub fn is_power_of_two(self) -> bool {
        self.0 > 0 && self.0.count_ones() == 1
    }

    /// Returns the smallest power of two that is not less than the integer.
    pub fn next_power_of_two(self) -> Self {
        let value = u128::try_from(self.0).unwrap_or(0);
        let power = value.checked_next_power_of_two();
        Self::checked(power.and_then(|power| i128::try_from(power).ok()))
    }

    /// Returns the result of an operation. If there is none, marks the clause as failed.
    #[inline]
    fn checked(result: Option<i128>) -> Self {
        Self(result.unwrap_or_else(|| {
            FAILED.set(true);
            0
        }))
    }

    #[inline]
    pub(super) fn get(self) -> i128 {
        self.0
    }

    /// Converts the integer to a bound of a range. A value that does not fit becomes `usize::MAX`,
    /// which is out of bounds of every array, and marks the clause as failed.
    #[inline]
    fn to_index(self) -> usize {
        usize::try_from(self.0).unwrap_or_else(|_| {
            FAILED.set(true);
            usize::MAX
        })
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Neg for Int {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        Self::checked(self.0.checked_neg())
    }
}

/// Returns `value << shift`, or `None` if a bit is lost.
fn shift_left(value: i128, shift: i128) -> Option<i128> {
    if value == 0 && shift >= 0 {
        return Some(0);
    }
    let factor = 1_i128.checked_shl(u32::try_from(shift).ok()?)?;
    // The highest bit is the sign.
    value.checked_mul(Some(factor).filter(|&factor| factor > 0)?)
}

/// Returns `value >> shift`, rounded down.
fn shift_right(value: i128, shift: i128) -> Option<i128> {
    let shift = u32::try_from(shift.min(127)).ok()?;
    value.checked_shr(shift)
}

macro_rules! operators {
    ($($trait:ident::$method:ident = $checked:expr;)*) => {
        $(
            impl $trait for Int {
                type Output = Int;

                #[inline]
                fn $method(self, other: Self) -> Int {
                    Int::checked($checked(self.0, other.0))
                }
            }
        )*
    };
}

operators! {
    Add::add = i128::checked_add;
    Sub::sub = i128::checked_sub;
    Mul::mul = i128::checked_mul;
    Div::div = i128::checked_div;
    Rem::rem = i128::checked_rem;
    BitAnd::bitand = |one, other| Some(one & other);
    BitOr::bitor = |one, other| Some(one | other);
    BitXor::bitxor = |one, other| Some(one ^ other);
    Shl::shl = shift_left;
    Shr::shr = shift_right;
}

macro_rules! integers {
    ($($integer:ty)*) => {
        $(
            impl From<$integer> for Int {
                #[inline]
                fn from(value: $integer) -> Self {
                    // Every listed type except `u128` always fits.
                    Self::checked(i128::try_from(value).ok())
                }
            }

            impl PartialEq<$integer> for Int {
                #[inline]
                fn eq(&self, other: &$integer) -> bool {
                    *self == Int::from(*other)
                }
            }

            impl PartialEq<Int> for $integer {
                #[inline]
                fn eq(&self, other: &Int) -> bool {
                    Int::from(*self) == *other
                }
            }

            impl PartialOrd<$integer> for Int {
                #[inline]
                fn partial_cmp(&self, other: &$integer) -> Option<Ordering> {
                    self.partial_cmp(&Int::from(*other))
                }
            }

            impl PartialOrd<Int> for $integer {
                #[inline]
                fn partial_cmp(&self, other: &Int) -> Option<Ordering> {
                    Int::from(*self).partial_cmp(other)
                }
            }

            operand!($integer: |value| Int::from(value));
            operand!(&$integer: |value| Int::from(*value));
            mixed_operators!(
                $integer:
                Add::add Sub::sub Mul::mul Div::div Rem::rem
                BitAnd::bitand BitOr::bitor BitXor::bitxor Shl::shl Shr::shr
            );
        )*
    };
}

macro_rules! operand {
    ($operand:ty: |$value:ident| $int:expr) => {
        impl Value<$operand> {
            /// Returns the integer as an [`Int`].
            #[inline]
            pub fn in_clause(self) -> Int {
                let $value = self.0;
                $int
            }

            /// Returns the integer as a bound of a range of an array.
            #[must_use]
            #[inline]
            pub fn into_index(self) -> usize {
                self.in_clause().to_index()
            }
        }
    };
}

macro_rules! mixed_operators {
    ($integer:ty: $($trait:ident::$method:ident)*) => {
        $(
            impl $trait<$integer> for Int {
                type Output = Int;

                #[inline]
                fn $method(self, other: $integer) -> Int {
                    $trait::$method(self, Int::from(other))
                }
            }

            impl $trait<Int> for $integer {
                type Output = Int;

                #[inline]
                fn $method(self, other: Int) -> Int {
                    $trait::$method(Int::from(self), other)
                }
            }
        )*
    };
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128 isize usize);
operand!(Int: |value| value);
