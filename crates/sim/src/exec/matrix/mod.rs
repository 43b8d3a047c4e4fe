//! Instructions on matrices in the registers of a warp: products and rearrangements.

mod dispatch;
mod dot;

pub(super) use dispatch::run;

use super::float;
use super::registers::{LANES, Registers};
use crate::ptx::ir::{Element, Fragment, MatrixOp, Multiply, Rearrange, RegisterClass};
use dot::{Rule, Term, decode, dot};

/// The maximum number of elements of an operand: 32 times 16.
const ELEMENTS_MAX: usize = 512;

type Matrix<T> = [T; ELEMENTS_MAX];

#[inline(always)]
fn execute(r: &mut Registers, op: &MatrixOp, mask: u32) {
    match op {
        MatrixOp::Rearrange(of) => rearrange(r, of, mask),
        MatrixOp::Multiply(of) => match of.a.element {
            Element::F64 => doubles(r, of, mask),
            Element::S8 | Element::U8 => integers(r, of, mask),
            _ => floats(r, of, mask),
        },
    }
}

fn rearrange(r: &mut Registers, of: &Rearrange, mask: u32) {
    let mut values = [[0; LANES]; 4];
    of.each(|[to, to_lane, to_half], [from, lane, half]| {
        let value = r.word(of.a[from])[lane] >> (16 * half) & 0xffff;
        values[to][to_lane] |= value << (16 * to_half);
    });
    for (d, values) in of.results().iter().zip(&values) {
        r.set_word(*d, mask, values);
    }
}

/// Reads the elements of a fragment, by matrix, outer and inner dimension.
#[inline(always)]
fn gather<T>(r: &Registers, of: &Fragment, elements: &mut Matrix<T>, decode: impl Fn(u64) -> T) {
    let (packed, bits) = (of.element.packed(), 8 * of.element.bytes());
    let starts = of.lane_indices();
    for x in 0..of.elements() {
        let slot = of.slots[x / packed];
        let shift = bits * (x % packed);
        let distance = of.index_distance(x);
        if of.element.class() == RegisterClass::Double {
            let values = r.double(slot);
            for lane in 0..LANES {
                elements[starts[lane] + distance] = decode(values[lane]);
            }
        } else {
            let values = r.word(slot);
            for lane in 0..LANES {
                elements[starts[lane] + distance] = decode(u64::from(values[lane] >> shift));
            }
        }
    }
}

/// Writes the elements of a fragment.
#[inline(always)]
fn scatter(r: &mut Registers, of: &Fragment, elements: &Matrix<u64>, mask: u32) {
    let (packed, bits) = (of.element.packed(), 8 * of.element.bytes());
    let starts = of.lane_indices();
    for (register, slot) in of.slots.iter().enumerate() {
        let mut values = [0; LANES];
        for part in 0..packed {
            let distance = of.index_distance(register * packed + part);
            for lane in 0..LANES {
                let element = elements[starts[lane] + distance];
                values[lane] |= element << (bits * part);
            }
        }
        if of.element.class() == RegisterClass::Double {
            r.set_double(*slot, mask, &values);
        } else {
            r.set_word(*slot, mask, &values.map(|value| value as u32));
        }
    }
}

/// Computes each element of `D` from a row of `A`, a column of `B` and the element of `C`, and
/// writes them.
#[inline(always)]
fn multiply<A, C: Copy>(
    r: &mut Registers,
    of: &Multiply,
    [a, b]: [&Matrix<A>; 2],
    c: &Matrix<C>,
    mask: u32,
    f: impl Fn(&[A], &[A], C) -> u64,
) {
    let (rows, columns, length) = (of.a.outer, of.b.outer, of.a.inner);
    let mut d = [0; ELEMENTS_MAX];
    for row in 0..of.a.matrices() * rows {
        let first = row / rows * columns;
        let x = &a[row * length..][..length];
        for column in 0..columns {
            let y = &b[(first + column) * length..][..length];
            let at = row * columns + column;
            d[at] = f(x, y, c[at]);
        }
    }
    scatter(r, &of.d, &d, mask);
}

#[inline(always)]
fn doubles(r: &mut Registers, of: &Multiply, mask: u32) {
    let (mut a, mut b, mut c) = ([0; ELEMENTS_MAX], [0; ELEMENTS_MAX], [0; ELEMENTS_MAX]);
    gather(r, &of.a, &mut a, |bits| bits);
    gather(r, &of.b, &mut b, |bits| bits);
    gather(r, &of.c, &mut c, |bits| bits);
    multiply(r, of, [&a, &b], &c, mask, |x, y, c| {
        let mut sum = c;
        for k in 0..x.len() {
            sum = float::double_fma(x[k], y[k], sum, of.round);
        }
        sum
    });
}

#[inline(always)]
fn integers(r: &mut Registers, of: &Multiply, mask: u32) {
    let (mut a, mut b, mut c) = ([0; ELEMENTS_MAX], [0; ELEMENTS_MAX], [0; ELEMENTS_MAX]);
    for (from, to) in [(&of.a, &mut a), (&of.b, &mut b)] {
        let signed = from.element == Element::S8;
        gather(r, from, to, |bits| {
            if signed {
                i32::from(bits as i8)
            } else {
                i32::from(bits as u8)
            }
        });
    }
    gather(r, &of.c, &mut c, |bits| (bits as u32).cast_signed());
    multiply(r, of, [&a, &b], &c, mask, |x, y, c| {
        let mut sum = 0;
        for k in 0..x.len() {
            sum += x[k] * y[k];
        }
        let sum = if of.saturate {
            c.saturating_add(sum)
        } else {
            c.wrapping_add(sum)
        };
        sum.cast_unsigned().into()
    });
}

#[inline(always)]
fn floats(r: &mut Registers, of: &Multiply, mask: u32) {
    let rule = Rule::of(of);
    let zeros = [Term::default(); ELEMENTS_MAX];
    let (mut a, mut b, mut c) = (zeros, zeros, [0; ELEMENTS_MAX]);
    for (from, to) in [(&of.a, &mut a), (&of.b, &mut b)] {
        let format = dot::format(from.element);
        gather(r, from, to, |bits| decode(bits as u32, format));
        if rule.adds == dot::Adds::Halves {
            *to = divide(to, of.a.inner);
        }
    }
    gather(r, &of.c, &mut c, |bits| bits as u32);
    multiply(r, of, [&a, &b], &c, mask, |x, y, c| {
        dot(&rule, x, y, c).into()
    });
}

/// Moves the first two of each four elements of the inner dimension before the others.
fn divide(terms: &Matrix<Term>, inner: usize) -> Matrix<Term> {
    let mut divided = [Term::default(); ELEMENTS_MAX];
    for (index, term) in terms.iter().enumerate() {
        let (outer, k) = (index / inner, index % inner);
        let half = k / 2 % 2;
        divided[outer * inner + half * inner / 2 + k / 4 * 2 + k % 2] = *term;
    }
    divided
}
