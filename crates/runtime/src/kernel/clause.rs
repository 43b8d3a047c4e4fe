//! What the names in a `requires` clause of `kernels!` stand for, and when a clause holds.
//!
//! A clause is the reason that a `safe` kernel is safe, so its arithmetic must not go wrong unseen: with plain integers
//! `luma.len() >= w * h * d` would panic in a debug build and wrap around in a release build, and then hold. Here every
//! integer is an [`Int`]: 128 bits wide, and what still does not fit, or divides by zero, makes the clause not hold,
//! whatever the rest of it says.

use std::{
    cell::Cell,
    cmp::Ordering,
    ops::{Add, Div, Mul, Neg, Rem, Sub},
};

thread_local! {
    /// Whether an operation since the start of the clause had no answer.
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the clause is true and all its arithmetic had an answer.
#[inline]
pub fn holds(clause: impl FnOnce() -> bool) -> bool {
    // A clause may call a function that checks clauses of its own.
    let outer = FAILED.replace(false);
    let holds = clause() && !FAILED.get();
    FAILED.set(outer);
    holds
}

/// An integer in a clause. Operators mix it freely with Rust's own integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Int(i128);

impl Int {
    /// An integer literal of the clause.
    #[must_use]
    pub const fn new(value: i128) -> Self {
        Self(value)
    }

    /// The smaller one.
    #[must_use]
    pub fn min(self, other: impl Into<Self>) -> Self {
        Ord::min(self, other.into())
    }

    /// The larger one.
    #[must_use]
    pub fn max(self, other: impl Into<Self>) -> Self {
        Ord::max(self, other.into())
    }

    /// The quotient, rounded up.
    #[must_use]
    pub fn div_ceil(self, divisor: impl Into<Self>) -> Self {
        let divisor = divisor.into();
        let quotient = self / divisor;
        let remainder = self % divisor;
        let up = remainder.0 != 0 && (remainder.0 < 0) == (divisor.0 < 0);
        quotient + Self(i128::from(up))
    }

    /// An operation's answer, or a note that there was none.
    #[inline]
    fn checked(answer: Option<i128>) -> Self {
        Self(answer.unwrap_or_else(|| {
            FAILED.set(true);
            0
        }))
    }
}

impl Neg for Int {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        Self::checked(self.0.checked_neg())
    }
}

macro_rules! operators {
    ($($trait:ident::$method:ident = $checked:ident;)*) => {
        $(
            impl $trait for Int {
                type Output = Int;

                #[inline]
                fn $method(self, other: Self) -> Int {
                    Int::checked(self.0.$checked(other.0))
                }
            }
        )*
    };
}

operators! {
    Add::add = checked_add;
    Sub::sub = checked_sub;
    Mul::mul = checked_mul;
    Div::div = checked_div;
    Rem::rem = checked_rem;
}

macro_rules! integers {
    ($($integer:ty)*) => {
        $(
            impl From<$integer> for Int {
                #[inline]
                fn from(value: $integer) -> Self {
                    // Every type of the list but `u128` fits.
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

            impl Value<$integer> {
                /// What the parameter's name stands for: an [`Int`].
                #[must_use]
                #[inline]
                pub fn in_clause(self) -> Int {
                    self.0.into()
                }
            }

            mixed_operators!($integer: Add::add Sub::sub Mul::mul Div::div Rem::rem);
        )*
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

/// A scalar parameter, before it is known whether its type is an integer under whatever name.
pub struct Value<T>(pub T);

/// Any other scalar parameter: its name stands for the value itself. An integer's own method comes before this one.
pub trait Other<T> {
    /// What the parameter's name stands for.
    fn in_clause(self) -> T;
}

impl<T> Other<T> for Value<T> {
    #[inline]
    fn in_clause(self) -> T {
        self.0
    }
}

/// What a slice parameter's name stands for.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    len: usize,
}

impl Slice {
    /// A slice of `len` elements.
    #[must_use]
    pub const fn new(len: usize) -> Self {
        Self { len }
    }

    /// Elements in the slice.
    #[must_use]
    #[inline]
    pub fn len(self) -> Int {
        self.len.into()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// A size in three dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    /// In x.
    pub x: Int,
    /// In y.
    pub y: Int,
    /// In z.
    pub z: Int,
}

impl From<[u32; 3]> for Dim3 {
    #[inline]
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self {
            x: x.into(),
            y: y.into(),
            z: z.into(),
        }
    }
}

/// What `grid` stands for: the shape of the launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Blocks of the grid (CUDA's `gridDim`).
    pub blocks: Dim3,
    /// Threads of a block (CUDA's `blockDim`).
    pub block: Dim3,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: Int,
}

impl Shape {
    /// The shape of a launch of `blocks`, each of `block` threads.
    #[must_use]
    #[inline]
    pub fn new(blocks: [u32; 3], block: [u32; 3], shared_bytes: u32) -> Self {
        Self {
            blocks: blocks.into(),
            block: block.into(),
            shared_bytes: shared_bytes.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_mix_with_rusts_own() {
        let n = Value(7_i32).in_clause();
        assert!(holds(|| 3 * n + 1_u8 == 22
            && n - 8 < 0_i64
            && 15_usize / n == 2
            && n % 4_u64 > 2));
        assert!(holds(|| -n == -7 && n.min(3) == 3 && n.max(9_usize) == 9));
        assert!(holds(|| n.div_ceil(2) == 4
            && n.div_ceil(7) == 1
            && (-n).div_ceil(2) == -3));
        assert!(!holds(|| n > 7));
    }

    #[test]
    fn what_has_no_answer_makes_the_clause_not_hold() {
        let huge = Value(i64::MAX).in_clause();
        assert!(holds(|| huge * huge > 0), "two factors of 64 bits fit");
        assert!(!holds(|| huge * huge * huge > 0));
        assert!(!holds(|| huge * huge * huge <= 0));
        assert!(
            !holds(|| huge * huge * huge != 1),
            "not by comparing unequal either"
        );
        let negated = |truth: bool| !truth;
        assert!(!holds(|| negated(huge * huge * huge > 0)), "nor by negation");
        let zero = Value(0_u32).in_clause();
        assert!(!holds(|| huge / zero == 0));
        assert!(!holds(|| huge % zero == 0));
        assert!(!holds(|| huge.div_ceil(zero) >= 0));
        assert!(!holds(|| zero < u128::MAX));
        assert!(holds(|| zero == 0), "the next clause starts afresh");
        assert!(
            !holds(|| huge * huge * huge != 1 && holds(|| zero == 0)),
            "an inner clause hides nothing"
        );
    }

    #[test]
    fn an_integer_type_under_another_name_is_an_integer_and_a_float_is_a_float() {
        type Index = std::ffi::c_int;
        let n = Value::<Index>(i32::MAX).in_clause();
        assert!(holds(|| n * n > 1_i64 << 60));
        let alpha: f32 = Value(0.5_f32).in_clause();
        assert!(holds(|| alpha < 1.0));
    }

    #[test]
    fn slices_and_launches_count_in_wide_integers() {
        let slice = Slice::new(usize::MAX);
        assert!(holds(|| slice.len() + 1 > usize::MAX && !slice.is_empty()));
        assert!(Slice::new(0).is_empty());
        let grid = Shape::new([u32::MAX, 2, 3], [u32::MAX, 1, 1], 16);
        assert!(holds(
            || grid.blocks.x * grid.block.x > u32::MAX && grid.blocks.y * grid.blocks.z == 6
        ));
        assert!(holds(|| grid.shared_bytes == 16));
    }
}
