//! A warp's registers, and the loops over lanes that all arithmetic uses.
//!
//! Each loop computes all 32 lanes, active or not, and then writes the lanes of the mask. The loops
//! have no branches, so that the compiler vectorises them.

use crate::ptx::ir::{Callee, Code, Slot};

/// The number of lanes of a warp.
pub(super) const LANES: usize = 32;

/// The mask of all lanes.
pub(super) const FULL: u32 = u32::MAX;

/// A 32-bit register of all lanes.
pub(super) type Words = [u32; LANES];

/// A 64-bit register of all lanes.
pub(super) type Doubles = [u64; LANES];

/// The three register files of a warp: 32-bit, 64-bit and predicates.
#[derive(Debug, Default)]
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
        let target = &mut self.words[d as usize];
        if mask == FULL {
            *target = *values;
        } else {
            for lane in 0..LANES {
                target[lane] = if mask & (1 << lane) != 0 {
                    values[lane]
                } else {
                    target[lane]
                };
            }
        }
    }

    #[inline(always)]
    pub(super) fn set_double(&mut self, d: Slot, mask: u32, values: &Doubles) {
        let target = &mut self.doubles[d as usize];
        if mask == FULL {
            *target = *values;
        } else {
            for lane in 0..LANES {
                target[lane] = if mask & (1 << lane) != 0 {
                    values[lane]
                } else {
                    target[lane]
                };
            }
        }
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

    /// Computes `d = f(a)`, all 32-bit.
    #[inline(always)]
    pub(super) fn w_w(&mut self, mask: u32, d: Slot, a: Slot, f: impl Fn(u32) -> u32) {
        let a = self.word(a);
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane]);
        }
        self.set_word(d, mask, &values);
    }

    /// Computes `d = f(a, b)`, all 32-bit.
    #[inline(always)]
    pub(super) fn w_ww(
        &mut self,
        mask: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        f: impl Fn(u32, u32) -> u32,
    ) {
        let (a, b) = (self.word(a), self.word(b));
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane], b[lane]);
        }
        self.set_word(d, mask, &values);
    }

    /// Computes `d = f(a, b, c)`, all 32-bit.
    #[inline(always)]
    pub(super) fn w_www(
        &mut self,
        mask: u32,
        d: Slot,
        [a, b, c]: [Slot; 3],
        f: impl Fn(u32, u32, u32) -> u32,
    ) {
        let (a, b, c) = (self.word(a), self.word(b), self.word(c));
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane], b[lane], c[lane]);
        }
        self.set_word(d, mask, &values);
    }

    /// Computes `d = f(a)`, all 64-bit.
    #[inline(always)]
    pub(super) fn d_d(&mut self, mask: u32, d: Slot, a: Slot, f: impl Fn(u64) -> u64) {
        let a = self.double(a);
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane]);
        }
        self.set_double(d, mask, &values);
    }

    /// Computes `d = f(a, b)`, all 64-bit.
    #[inline(always)]
    pub(super) fn d_dd(
        &mut self,
        mask: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        f: impl Fn(u64, u64) -> u64,
    ) {
        let (a, b) = (self.double(a), self.double(b));
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane], b[lane]);
        }
        self.set_double(d, mask, &values);
    }

    /// Computes `d = f(a, b, c)`, all 64-bit.
    #[inline(always)]
    pub(super) fn d_ddd(
        &mut self,
        mask: u32,
        d: Slot,
        [a, b, c]: [Slot; 3],
        f: impl Fn(u64, u64, u64) -> u64,
    ) {
        let (a, b, c) = (self.double(a), self.double(b), self.double(c));
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane], b[lane], c[lane]);
        }
        self.set_double(d, mask, &values);
    }

    /// Computes `d = f(a, b)`, where only `b` is 32-bit.
    #[inline(always)]
    pub(super) fn d_dw(
        &mut self,
        mask: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        f: impl Fn(u64, u32) -> u64,
    ) {
        let (a, b) = (self.double(a), self.word(b));
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane], b[lane]);
        }
        self.set_double(d, mask, &values);
    }

    /// Computes the 64-bit `d = f(a)` of a 32-bit operand.
    #[inline(always)]
    pub(super) fn d_w(&mut self, mask: u32, d: Slot, a: Slot, f: impl Fn(u32) -> u64) {
        let a = self.word(a);
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane]);
        }
        self.set_double(d, mask, &values);
    }

    /// Computes the 64-bit `d = f(a, b)` of 32-bit operands.
    #[inline(always)]
    pub(super) fn d_ww(
        &mut self,
        mask: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        f: impl Fn(u32, u32) -> u64,
    ) {
        let (a, b) = (self.word(a), self.word(b));
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane], b[lane]);
        }
        self.set_double(d, mask, &values);
    }

    /// Computes the 32-bit `d = f(a)` of a 64-bit operand.
    #[inline(always)]
    pub(super) fn w_d(&mut self, mask: u32, d: Slot, a: Slot, f: impl Fn(u64) -> u32) {
        let a = self.double(a);
        let mut values = [0; LANES];
        for lane in 0..LANES {
            values[lane] = f(a[lane]);
        }
        self.set_word(d, mask, &values);
    }

    /// Computes the predicate `d = f(a, b)` of 32-bit operands.
    #[inline(always)]
    pub(super) fn p_ww(
        &mut self,
        mask: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        f: impl Fn(u32, u32) -> bool,
    ) {
        let (a, b) = (self.word(a), self.word(b));
        let mut bits = 0;
        for lane in 0..LANES {
            bits |= if f(a[lane], b[lane]) { 1u32 << lane } else { 0 };
        }
        self.set_predicate(d, mask, bits);
    }

    /// Computes the predicate `d = f(a, b)` of 64-bit operands.
    #[inline(always)]
    pub(super) fn p_dd(
        &mut self,
        mask: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        f: impl Fn(u64, u64) -> bool,
    ) {
        let (a, b) = (self.double(a), self.double(b));
        let mut bits = 0;
        for lane in 0..LANES {
            bits |= if f(a[lane], b[lane]) { 1u32 << lane } else { 0 };
        }
        self.set_predicate(d, mask, bits);
    }
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
