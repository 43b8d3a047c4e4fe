//! The operands of `requires` clauses of `kernels!`, and the evaluation of such clauses.
//!
//! A clause is the safety argument of a `safe` kernel, so its arithmetic must not silently go
//! wrong: with Rust's own integers `luma.len() >= size.w * size.h` would panic in a debug build,
//! and wrap around in a release build and then hold. `kernels!` therefore wraps each operand of
//! each operator in a [`Value`], which converts every integer to an [`Int`] of 128 bits. An
//! operation whose result does not fit, or that divides by zero, makes the whole clause false.

mod index;
mod int;
mod values;

use std::cell::Cell;

pub use index::{Indexed, OtherIndexed};
pub use int::Int;
pub use values::{Opaque, Shown, Values, values};

thread_local! {
    /// True if an operation since the start of the clause had no result.
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// A guard that restores [`FAILED`] when it is dropped, also during a panic of the clause.
struct Outer(bool);

impl Outer {
    /// Begins a clause. Clauses nest, because a clause may call a function that evaluates other
    /// clauses.
    #[inline]
    fn begin() -> Self {
        Self(FAILED.replace(false))
    }
}

impl Drop for Outer {
    #[inline]
    fn drop(&mut self) {
        FAILED.set(self.0);
    }
}

/// Returns whether the clause is true and all of its arithmetic had a result.
#[inline]
pub fn holds(clause: impl FnOnce() -> bool) -> bool {
    let _outer = Outer::begin();
    clause() && !FAILED.get()
}

/// An operand of a clause, before its type is known.
///
/// The method `in_clause` turns an integer of any type, or a reference to one, into an [`Int`]. Any
/// other operand stays as it is, by the method of the same name of [`Other`]: the compiler prefers
/// the inherent one.
pub struct Value<T>(pub T);

/// An operand that is not an integer.
pub trait Other<T> {
    /// Returns the operand itself.
    fn in_clause(self) -> T;
    /// Returns the bound of a range itself.
    fn into_index(self) -> T;
}

impl<T> Other<T> for Value<T> {
    #[inline]
    fn in_clause(self) -> T {
        self.0
    }

    #[inline]
    fn into_index(self) -> T {
        self.0
    }
}

/// The operand for a slice parameter.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    len: usize,
}

impl Slice {
    /// Creates the operand for a slice of `len` elements.
    #[must_use]
    pub const fn new(len: usize) -> Self {
        Self { len }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(self) -> Int {
        self.len.into()
    }

    /// Returns whether there is no element.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Dimensions in x, y and z.
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    /// The size in x.
    pub x: Int,
    /// The size in y.
    pub y: Int,
    /// The size in z.
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

/// The operand `grid` of a clause: the launch configuration.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// The number of blocks of the grid (CUDA's `gridDim`).
    pub blocks: Dim3,
    /// The number of threads per block (CUDA's `blockDim`).
    pub block: Dim3,
    /// The dynamic shared memory per block, in bytes.
    pub shared_bytes: Int,
}

impl LaunchShape {
    /// Creates the shape of a launch of `blocks`, each of `block` threads.
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
    fn arithmetic_without_a_result_makes_the_clause_false() {
        let huge = Value(i64::MAX).in_clause();
        assert!(holds(|| huge * huge > 0), "two factors of 64 bits fit");
        assert!(!holds(|| huge * huge * huge > 0));
        assert!(!holds(|| huge * huge * huge <= 0));
        assert!(
            !holds(|| huge * huge * huge != 1),
            "nor does it hold for `!=`"
        );
        let negated = |truth: bool| !truth;
        assert!(
            !holds(|| negated(huge * huge * huge > 0)),
            "nor for a negation"
        );
        let zero = Value(0_u32).in_clause();
        assert!(!holds(|| huge / zero == 0));
        assert!(!holds(|| huge % zero == 0));
        assert!(!holds(|| huge.div_ceil(zero) >= 0));
        assert!(!holds(|| zero < u128::MAX));
        assert!(
            holds(|| zero == 0),
            "the failure does not affect the next clause"
        );
        assert!(
            !holds(|| huge * huge * huge != 1 && holds(|| zero == 0)),
            "an inner clause does not reset the outer one's failure"
        );
    }

    #[test]
    fn methods_and_bits_of_integers_are_checked() {
        let (n, huge) = (Value(-7_i32).in_clause(), Value(i64::MAX).in_clause());
        let limit = Value(i128::MAX).in_clause();
        assert!(holds(|| n.abs() == 7
            && n.abs_diff(3_u8) == 10
            && n.pow(3) == -343));
        assert!(holds(|| n.rem_euclid(4) == 1
            && n.div_euclid(4) == -2
            && n.clamp(-3, 3) == -3));
        assert!(holds(|| n.is_multiple_of(7)
            && !n.is_multiple_of(0)
            && (n - n).is_multiple_of(0)));
        assert!(holds(
            || n.next_multiple_of(4) == -4 && huge.next_power_of_two() == 1_i128 << 63
        ));
        assert!(holds(|| !n.is_power_of_two()
            && (n + 8_u8).is_power_of_two()
            && !(n - n).is_power_of_two()));
        assert!(holds(|| n >> 1 == -4
            && n << 2 == -28
            && n >> 1000 == -1
            && (n - n) << 1000 == 0));
        assert!(holds(|| n & 3 == 1
            && n | 1 == -7
            && n ^ n == 0
            && 6_u8 & Int::new(3) == 2));
        for overflowing in [
            || Int::new(i128::MIN).abs(),
            || Int::new(2).pow(127),
            || Int::new(2).pow(-1),
            || Int::new(1) << 127,
            || Int::new(1) << -1,
            || Int::new(1) >> -1,
            || Int::new(5).clamp(3, 2),
            || Int::new(5).next_multiple_of(0),
            || Int::new(5).next_multiple_of(-5),
            || Int::new(5).rem_euclid(0),
            || Int::new(i128::MIN).div_euclid(-1),
        ] {
            assert!(!holds(|| overflowing() == overflowing()));
        }
        assert!(!holds(
            || limit.next_power_of_two() != 0 || limit.abs_diff(-1) != 0
        ));
    }

    #[test]
    fn an_index_out_of_bounds_makes_the_clause_false() {
        let (array, vector) = ([1_u32, 2, 3], vec![1_u32, 2, 3]);
        let map = std::collections::BTreeMap::from([("two", 2)]);
        assert!(holds(
            || *Indexed(&array).at(2_u64) == 3 && *Indexed(&&vector).at(Int::new(0)) == 1
        ));
        assert!(holds(
            || *Indexed(&vector[1..]).at(1) == 3 && *Indexed(&map).at("two") == 2
        ));
        assert!(!holds(|| *Indexed(&array).at(3) > 0));
        assert!(!holds(|| *Indexed(&vector).at(-1) > 0));
        assert!(!holds(|| *Indexed(&&array[..]).at(u64::MAX) > 0));
        assert!(!holds(
            || !array[..Value(-1_i32).into_index().min(1)].is_empty()
        ));
    }

    #[test]
    fn evaluated_operands_are_listed_once_and_truncated() {
        let (n, long) = (Value(3_u8).in_clause(), "ä".repeat(60));
        let noted = values(|values| {
            let n = || values.noted("n", n, |n| Shown(n).text());
            n() * n() == 8 && values.noted("m", 1, |_| None) == 1
        });
        assert_eq!(noted, "n = 3");
        let noted =
            values(|values| values.noted("long", &long, |long| Shown(long).text()).len() < 9);
        assert_eq!(noted, format!("long = \"{}…", "ä".repeat(49)));
        let noted = values(|values| values.noted("n", n / 0, |n| Shown(n).text()) == 1);
        assert_eq!(noted, "n = 0; its arithmetic overflows or divides by zero");
        assert_eq!(values(|_| false), "");
    }

    #[test]
    fn a_panic_in_an_inner_clause_does_not_affect_the_outer_one() {
        let (zero, one) = (Value(0_u8).in_clause(), Value(1_u8).in_clause());
        let panicking = || {
            let inner = || holds(|| one / zero == 1 || panic!("a function of the clause"));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(inner)).is_err()
        };
        assert!(
            holds(panicking),
            "the inner clause's failure does not affect the outer clause"
        );
        assert!(
            !holds(|| one / zero != 0 && panicking()),
            "the outer clause's failure is kept"
        );
        assert!(
            !holds(|| one / zero == 0 && panicking()),
            "the outer clause's failure is kept"
        );
        let noting = || values(|_| panicking() && one / zero == 0 && panicking());
        assert_eq!(noting(), "its arithmetic overflows or divides by zero");
        assert!(
            holds(|| one == 1),
            "the failure does not affect the next clause"
        );
    }

    #[test]
    fn type_aliases_are_integers_and_floats_are_unchanged() {
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
        let grid = LaunchShape::new([u32::MAX, 2, 3], [u32::MAX, 1, 1], 16);
        assert!(holds(
            || grid.blocks.x * grid.block.x > u32::MAX && grid.blocks.y * grid.blocks.z == 6
        ));
        assert!(holds(|| grid.shared_bytes == 16));
    }
}
