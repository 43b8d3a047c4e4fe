//! Clauses with operands of every kind, none of whose arithmetic may wrap around.
//!
//! This crate is compiled without overflow checks, as a release build is (`Cargo.toml` of the
//! workspace). The tests of `millstream` test clauses in a build with overflow checks.

use std::{hint::black_box, ops::Mul};

use crate::{Device, Error, LaunchConfig, Result, Stream};

/// A size whose product needs more bits than its sides have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Size {
    w: u32,
    h: u32,
}

impl Size {
    /// Returns the area by Rust's own arithmetic, for which the author is responsible.
    fn area(self) -> u64 {
        u64::from(self.w) * u64::from(self.h)
    }

    fn width(self) -> u32 {
        self.w
    }
}

/// A type without `Debug`, whose values an error cannot show.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
struct Secret(u32);

impl Mul for Secret {
    type Output = u32;

    fn mul(self, other: Self) -> u32 {
        self.0.wrapping_mul(other.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Shape {
    dims: [u32; 3],
    size: Size,
    at: usize,
    sign: i32,
    byte: u8,
}

const SIDE: u32 = 65_536;
const SIDES: [u32; 2] = [SIDE, SIDE];
static LONG: u64 = u64::MAX;

/// A function of the kernels' author that a clause calls.
fn twice(n: u32) -> u32 {
    n.saturating_mul(2)
}

fn big() -> u32 {
    black_box(SIDE)
}

fn reference(size: &Size) -> &u32 {
    &size.w
}

type Name = u32;

macro_rules! refusing {
    (($out:ident, $p:ident, $s:ident, $m:ident) $($kernel:ident: $clause:expr;)*) => {
        millstream_macros::kernels! {
            // SAFETY: nothing is executed here.
            unsafe mod overflowing from "" {
                $(safe fn $kernel($out: &mut [u8], $p: Size, $s: Shape, $m: Name)
                    requires $clause;)*
            }
        }

        /// Launches every kernel with sides of 65,536, and returns the names of those whose clause
        /// held.
        fn held() -> Vec<&'static str> {
            let kernels = overflowing::load(&Device).expect("it loads");
            let size = Size { w: SIDE, h: SIDE };
            let shape = Shape {
                dims: [SIDE; 3],
                size,
                at: usize::MAX,
                sign: i32::MIN,
                byte: 255,
            };
            let mut held = Vec::new();
            $(
                let mut out = [0; 64];
                let config = LaunchConfig(1, 32);
                let launched = kernels.$kernel(&Stream, config, &mut out[..], size, shape, SIDE);
                match launched {
                    Ok(()) => held.push(stringify!($kernel)),
                    Err(error) => assert!(!error.values.is_empty(), "{error:?}"),
                }
            )*
            held
        }
    };
}

// Each of these clauses holds only if its arithmetic wraps around in the width of its operands.
refusing! {
    (out, p, s, m)
    fields: out.len() >= p.w * p.h;
    nested_fields: out.len() >= s.size.w * s.size.h;
    a_field_and_a_parameter: out.len() >= p.w * m;
    elements: out.len() >= s.dims[0] * s.dims[1];
    elements_of_a_constant: out.len() >= SIDES[0] * SIDES[1];
    constants: out.len() >= SIDE * SIDE;
    statics: out.len() >= LONG + 1;
    suffixed_literals: out.len() >= 4_294_967_295_u32 + 1_u32 + (s.dims[0] - s.dims[1]);
    bytes: out.len() >= s.byte + b'\x01';
    calls: out.len() >= big() * big();
    calls_with_arguments: out.len() >= twice(p.w) * twice(SIDE);
    methods: out.len() >= p.width() * p.width();
    references: out.len() >= reference(&p) * reference(&p);
    dereferences: out.len() >= *reference(&p) * *reference(&p);
    parentheses: out.len() >= ((p.w) * (p.h));
    differences: out.len() >= p.w - p.h - 1 + 4_294_967_296 || p.w - p.h - 1 >= 0;
    negations: out.len() >= -s.sign && -s.sign < 0;
    powers: out.len() >= p.w.pow(2);
    powers_of_powers: out.len() >= (p.w * p.h).pow(2).pow(2).pow(2);
    absolutes: s.sign.abs() < 0;
    multiples: out.len() >= (p.w * 65_535 + 65_535).next_multiple_of(p.w);
    powers_of_two: out.len() >= (s.dims[0] * 65_535).next_power_of_two();
    shifts: out.len() >= p.w << 16;
    shifts_too_far: out.len() >= p.w << p.h;
    branches: out.len() >= if p.w > 0 { p.w } else { 0 } * p.h;
    branches_that_multiply: out.len() >= if p.w > 0 { p.w * p.h } else { 0 };
    choices: out.len() >= match p.w { 0 => 1, _ => p.w } * p.h;
    blocks: out.len() >= { let w = p.w; let h = p.h; w * h };
    closures: [p, s.size].iter().all(|size| out.len() >= size.w * size.h);
    shadows: [p.w].into_iter().all(|n| out.len() >= n * n);
    largest: out.len() >= p.w.max(p.h) * p.w.min(p.h);
    mapped: out.len() >= [p].map(|size| size.w * size.h)[0];
    indices: SIDES[s.at + 1] <= SIDES[0];
    indices_past_the_end: [1, 2, 3][p.w] > 0;
    negative_indices: s.dims[p.w - 65_537] > 0;
    tuples: (p.w * p.h, 1) == (0, 1);
    arrays: [0, 1].contains(&(p.w * p.h));
    ranges: (0..p.w * p.h).is_empty();
    matched: matches!((p.w * p.h).abs_diff(0), x if x < 1);
    by_zero: p.w / (p.w - p.h) <= p.w || p.w % (p.w - p.h) == 0 || out.len() == 64;
    divisions: s.sign / -1 < 0;
    in_an_alternative: out.is_empty() || out.len() >= p.w * p.h;
    counted_in_floats: f64::from(p.w) > 1e9 || out.len() >= p.w * p.h;
}

#[test]
fn no_clause_wraps_around_without_overflow_checks() {
    assert_eq!(
        black_box(SIDE) * black_box(SIDE),
        0,
        "this crate is compiled without overflow checks"
    );
    assert_eq!(held(), Vec::<&str>::new());
}

millstream_macros::kernels! {
    // SAFETY: nothing is executed here.
    unsafe mod mixed from "" {
        safe fn all(out: &mut [u8], p: Size, s: Shape, n: i64, f: f32, secret: Secret)
            requires
                out.len() >= p.w * p.h,
                out.len() == p.area(),
                twice(p.w) == 2 * p.w && twice(3) == 6,
                p == Size { w: 8, h: 8 },
                s.dims == [2, 3, 4] && s.dims[n] == 4 && s.dims[n - 1] < 4,
                s.dims[..n - 1] == [2],
                [2, 4, 8].contains(&n) && (0..p.w).contains(&n) && SIDES.contains(&65_536),
                f.sqrt() < 2.0 && f64::from(f) * 2.0 > 1.5 && f * 2.0 > -f,
                s.sign.abs() == 5 && -s.sign == 5,
                s.sign.rem_euclid(3) == 1 && s.sign.div_euclid(3) == -2,
                p.w & 12 == 8 && p.w | 1 == 9 && p.w ^ 8 == 0 && p.w >> 2 == 2 && p.w << 1 == 16,
                s.sign >> 1 == -3,
                n.clamp(0, 1) == 1 && p.w.is_power_of_two() && p.w.is_multiple_of(4),
                p.w.next_power_of_two() == 8 && s.byte.next_multiple_of(16) == 16,
                matches!(s.size.w, 0..=8 if n > 1),
                cfg!(debug_assertions) == cfg!(debug_assertions),
                secret * secret == 49 && secret == Secret(7),
                grid.block.x.div_ceil(3) == 11,
                s.at.count_ones() + s.at.trailing_zeros() == 1 && s.at.saturating_sub(2) == 0,
                [p, s.size].iter().map(|size| size.w * size.h).max().is_some_and(|area| area == 64),
                { let sides = 2; sides * (p.w + p.h) } == 32;

        safe fn described(out: &mut [u8], p: Size, secret: Secret, n: u32)
            requires
                p.w < 100 || p.h < 100 && p.h + n > 3,
                n < 50 || valid(p, secret, &out),
                grid.blocks.x * grid.block.x >= out.len() || n == 7,
                out.len() >= p.width() * p.h.max(n) + SIDES[n - 7];
    }
}

/// A function that a clause calls with values that an error cannot show.
fn valid(size: Size, secret: Secret, _: &impl Sized) -> bool {
    size.w != 1 || secret.0 != 2
}

#[test]
fn operands_of_every_kind_mix() {
    let kernels = mixed::load(&Device).expect("it loads");
    let size = Size { w: 8, h: 8 };
    let shape = Shape {
        dims: [2, 3, 4],
        size,
        at: 1,
        sign: -5,
        byte: 3,
    };
    let launched: Result<()> = kernels.all(
        &Stream,
        LaunchConfig(1, 32),
        &mut [0; 64][..],
        size,
        shape,
        2,
        2.5,
        Secret(7),
    );
    assert_eq!(launched, Ok(()));
}

#[test]
fn an_error_names_the_operands_that_were_evaluated_and_their_values() {
    let kernels = mixed::load(&Device).expect("it loads");
    let error = |w, h, secret, n| -> Error {
        let launched = kernels.described(
            &Stream,
            LaunchConfig(1, 32),
            &mut [0; 64][..],
            Size { w, h },
            Secret(secret),
            n,
        );
        launched.expect_err("a clause that does not hold")
    };
    assert_eq!(error(100, 200, 0, 0).values, "p.w = 100, p.h = 200");
    assert_eq!(error(100, 1, 0, 2).values, "p.w = 100, p.h = 1, n = 2");
    // The value of a type without `Debug` is left out.
    assert_eq!(
        error(1, 2, 2, 50).values,
        "n = 50, out.len() = 64, p = Size { w: 1, h: 2 }"
    );
    assert_eq!(
        error(1, 2, 0, 7).values,
        "out.len() = 64, p.width() = 1, p.h = 2, n = 7, SIDES[n - 7] = 65536"
    );
    let Error {
        kernel,
        clause,
        values,
    } = error(1, 2, 0, 8);
    let expected = "grid.blocks.x * grid.block.x >= out.len() || n == 7";
    assert_eq!((kernel, clause), ("mixed::described", expected));
    let expected = "grid.blocks.x = 1, grid.block.x = 32, out.len() = 64, n = 8";
    assert_eq!(values, expected);
}
