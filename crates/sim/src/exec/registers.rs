//! A warp's registers, and the loops over lanes that all arithmetic uses.
//!
//! Each loop computes all 32 lanes, active or not, and then writes the lanes of the mask. The loops
//! have no branches, so that the compiler vectorises them.

use std::ops::{BitAnd, BitXor};

use crate::ptx::ir::{Callee, Code, Restart, Slot};

pub(super) const LANES: usize = 32;

pub(super) const FULL: u32 = u32::MAX;

pub(super) type Words = [u32; LANES];

pub(super) type Doubles = [u64; LANES];

/// The three register files of a warp: 32-bit, 64-bit and predicates.
#[derive(Debug, Default, Hash)]
pub(super) struct Registers {
    words: Vec<Words>,
    doubles: Vec<Doubles>,
    /// The predicate registers, with one bit per lane.
    predicates: Vec<u32>,
}

impl Registers {
    /// Allocates the registers that `code` uses, and sets them to 0.
    pub(super) fn reset(&mut self, code: &Code) {
        self.words.clear();
        self.words.resize(code.words as usize, [0; LANES]);
        self.doubles.clear();
        self.doubles.resize(code.doubles as usize, [0; LANES]);
        self.predicates.clear();
        self.predicates.resize(code.predicates as usize, 0);
    }

    /// Sets the registers to 0 that must not keep the values of the block before.
    pub(super) fn clear(&mut self, restart: &Restart) {
        let [words, doubles, predicates] = &restart.cleared;
        for slot in words {
            self.words[*slot as usize] = [0; LANES];
        }
        for slot in doubles {
            self.doubles[*slot as usize] = [0; LANES];
        }
        for slot in predicates {
            self.predicates[*slot as usize] = 0;
        }
    }

    /// Returns the bytes of the register files.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Words>() * self.words.capacity() + size_of::<Doubles>() * self.doubles.capacity()
    }

    /// Returns the sizes of the register files.
    #[inline(always)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        [self.words.len(), self.doubles.len(), self.predicates.len()]
    }

    /// Returns the starts of the register files.
    #[inline(always)]
    pub(super) fn pointers(&mut self) -> (*mut u32, *mut u64, *mut u32) {
        (
            self.words.as_mut_ptr().cast(),
            self.doubles.as_mut_ptr().cast(),
            self.predicates.as_mut_ptr(),
        )
    }

    #[inline(always)]
    pub(super) fn word(&self, slot: Slot) -> &Words {
        &self.words[slot as usize]
    }

    #[inline(always)]
    pub(super) fn double(&self, slot: Slot) -> &Doubles {
        &self.doubles[slot as usize]
    }

    #[inline(always)]
    pub(super) fn predicate(&self, slot: Slot) -> u32 {
        self.predicates[slot as usize]
    }

    #[inline(always)]
    pub(super) fn set_word(&mut self, d: Slot, mask: u32, values: &Words) {
        set_lanes(&mut self.words[d as usize], mask, values);
    }

    #[inline(always)]
    pub(super) fn set_double(&mut self, d: Slot, mask: u32, values: &Doubles) {
        set_lanes(&mut self.doubles[d as usize], mask, values);
    }

    #[inline(always)]
    pub(super) fn set_predicate(&mut self, d: Slot, mask: u32, bits: u32) {
        let target = &mut self.predicates[d as usize];
        *target = (*target & !mask) | (bits & mask);
    }

    /// Appends the values of one lane's registers in the callee's ranges to `kept`.
    pub(super) fn keep(&self, callee: &Callee, lane: usize, kept: &mut Vec<u64>) {
        let files = (&callee.words, &callee.doubles, &callee.predicates);
        kept.extend(files.0.clone().map(|slot| u64::from(self.word(slot)[lane])));
        kept.extend(files.1.clone().map(|slot| self.double(slot)[lane]));
        kept.extend(
            files
                .2
                .clone()
                .map(|slot| u64::from(self.predicate(slot) >> lane & 1)),
        );
    }

    /// Restores the registers that [`Self::keep`] appended last, and removes them from `kept`.
    pub(super) fn give_back(&mut self, callee: &Callee, lane: usize, kept: &mut Vec<u64>) {
        let files = (&callee.words, &callee.doubles, &callee.predicates);
        let start = kept.len() - files.0.len() - files.1.len() - files.2.len();
        let mut values = kept.drain(start..);
        for (slot, value) in files.0.clone().zip(values.by_ref().take(files.0.len())) {
            self.words[slot as usize][lane] = value as u32;
        }
        for (slot, value) in files.1.clone().zip(values.by_ref().take(files.1.len())) {
            self.doubles[slot as usize][lane] = value;
        }
        for (slot, value) in files.2.clone().zip(values) {
            self.set_predicate(slot, 1 << lane, (value as u32) << lane);
        }
    }

    /// Computes `d = f(a)`.
    #[inline(always)]
    pub(super) fn map1<A: Value, D: Bits>(
        &mut self,
        mask: u32,
        d: Slot,
        [a]: [Slot; 1],
        f: impl Fn(A) -> D,
    ) {
        let a = A::read(self, a);
        let mut values = [D::default(); LANES];
        for lane in 0..LANES {
            values[lane] = f(A::of(a[lane]));
        }
        D::write(self, d, mask, &values);
    }

    /// Computes `d = f(a, b)`.
    #[inline(always)]
    pub(super) fn map2<A: Value, B: Value, D: Bits>(
        &mut self,
        mask: u32,
        d: Slot,
        [a, b]: [Slot; 2],
        f: impl Fn(A, B) -> D,
    ) {
        let (a, b) = (A::read(self, a), B::read(self, b));
        let mut values = [D::default(); LANES];
        for lane in 0..LANES {
            values[lane] = f(A::of(a[lane]), B::of(b[lane]));
        }
        D::write(self, d, mask, &values);
    }

    /// Computes `d = f(a, b, c)`.
    #[inline(always)]
    pub(super) fn map3<A: Value, B: Value, C: Value, D: Bits>(
        &mut self,
        mask: u32,
        d: Slot,
        [a, b, c]: [Slot; 3],
        f: impl Fn(A, B, C) -> D,
    ) {
        let (a, b, c) = (A::read(self, a), B::read(self, b), C::read(self, c));
        let mut values = [D::default(); LANES];
        for lane in 0..LANES {
            values[lane] = f(A::of(a[lane]), B::of(b[lane]), C::of(c[lane]));
        }
        D::write(self, d, mask, &values);
    }

    /// Computes the predicate `d = f(a, b)`.
    #[inline(always)]
    pub(super) fn test2<A: Value>(
        &mut self,
        mask: u32,
        d: Slot,
        [a, b]: [Slot; 2],
        f: impl Fn(A, A) -> bool,
    ) {
        let (a, b) = (A::read(self, a), A::read(self, b));
        let mut bits = 0;
        for lane in 0..LANES {
            let holds = f(A::of(a[lane]), A::of(b[lane]));
            bits |= if holds { 1u32 << lane } else { 0 };
        }
        self.set_predicate(d, mask, bits);
    }
}

/// The values of a register file: its bits, or the floats of that size.
pub(super) trait Value: Copy {
    /// The bits of a lane.
    type Bits: Copy;

    fn read(registers: &Registers, slot: Slot) -> &[Self::Bits; LANES];

    fn of(bits: Self::Bits) -> Self;
}

/// The bits of a lane's register.
pub(super) trait Bits:
    Value<Bits = Self> + Default + BitAnd<Output = Self> + BitXor<Output = Self>
{
    /// Returns all bits for 1, and none for 0.
    fn all_if(bit: u32) -> Self;

    /// Writes the lanes of `mask`.
    fn write(registers: &mut Registers, d: Slot, mask: u32, values: &[Self; LANES]);

    /// Shifts a signed value right, by at most the width less 1.
    fn shift_right_signed(self, by: u32) -> Self;

    /// Returns the upper half of the product of signed values.
    fn mul_high_s(self, other: Self) -> Self;

    /// Returns the upper half of the product of unsigned values.
    fn mul_high_u(self, other: Self) -> Self;
}

/// Implements [`Value`] and [`Bits`] for a register file.
macro_rules! register_file {
    ($bits:ident, $float:ident, $read:ident, $write:ident, $signed:ident, $unsigned:ident) => {
        impl Value for $bits {
            type Bits = Self;

            #[inline(always)]
            fn read(registers: &Registers, slot: Slot) -> &[Self; LANES] {
                registers.$read(slot)
            }

            #[inline(always)]
            fn of(bits: Self) -> Self {
                bits
            }
        }

        impl Value for $float {
            type Bits = $bits;

            #[inline(always)]
            fn read(registers: &Registers, slot: Slot) -> &[$bits; LANES] {
                registers.$read(slot)
            }

            #[inline(always)]
            fn of(bits: $bits) -> Self {
                Self::from_bits(bits)
            }
        }

        impl Bits for $bits {
            #[inline(always)]
            fn all_if(bit: u32) -> Self {
                Self::from(bit).wrapping_neg()
            }

            #[inline(always)]
            fn write(registers: &mut Registers, d: Slot, mask: u32, values: &[Self; LANES]) {
                registers.$write(d, mask, values);
            }

            #[inline(always)]
            fn shift_right_signed(self, by: u32) -> Self {
                (self.cast_signed() >> by.min(Self::BITS - 1)).cast_unsigned()
            }

            #[inline(always)]
            fn mul_high_s(self, other: Self) -> Self {
                let (a, b) = (self.cast_signed(), other.cast_signed());
                ($signed::from(a) * $signed::from(b) >> Self::BITS) as Self
            }

            #[inline(always)]
            fn mul_high_u(self, other: Self) -> Self {
                ($unsigned::from(self) * $unsigned::from(other) >> Self::BITS) as Self
            }
        }
    };
}
register_file!(u32, f32, word, set_word, i64, u64);
register_file!(u64, f64, double, set_double, i128, u128);

/// Writes the lanes of `mask`, without a branch for each.
#[inline(always)]
fn set_lanes<T: Bits>(target: &mut [T; LANES], mask: u32, values: &[T; LANES]) {
    if mask == FULL {
        *target = *values;
    } else {
        *target = blend(mask, values, target);
    }
}

/// Returns the lanes of `mask` from `a`, and the others from `b`.
///
/// Bit operations, because the compiler turns a choice by the mask into 32 branches, which a
/// processor predicts badly.
#[inline(always)]
pub(super) fn blend<T: Bits>(mask: u32, a: &[T; LANES], b: &[T; LANES]) -> [T; LANES] {
    let mut blended = [T::default(); LANES];
    for lane in 0..LANES {
        blended[lane] = b[lane] ^ ((a[lane] ^ b[lane]) & T::all_if(mask >> lane & 1));
    }
    blended
}

/// Iterates over the lanes of a mask, lowest first.
#[inline(always)]
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lane
        })
    })
}
