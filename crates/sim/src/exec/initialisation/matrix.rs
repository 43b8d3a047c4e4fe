//! Undefined bits in matrices. A rearrangement moves them; a sum is undefined as a whole if a bit
//! of its row of `A`, its column of `B` or its element of `C` is.

use super::shadow::{Register, Shadow};
use super::{Step, Word};
use crate::exec::registers::{LANES, lanes};
use crate::ptx::ir::{Fragment, MatrixOp, Multiply, Rearrange};

impl Step<'_, '_> {
    /// Propagates shadows through an operation on matrices.
    pub(super) fn matrix(&mut self, op: &MatrixOp) {
        let mut marked = 0;
        op.operands(&mut |class, slot| marked |= self.own.marked((class, slot), u32::MAX));
        let results = match op {
            _ if marked == 0 => Vec::new(),
            MatrixOp::Rearrange(of) => self.rearranged(of),
            MatrixOp::Multiply(of) => self.multiplied(of),
        };
        op.results(&mut |class, slot| {
            for lane in lanes(self.own.marked((class, slot), self.mask)) {
                self.own.set((class, slot), lane, Shadow::default());
            }
        });
        for (register, lane, shadow) in results {
            if self.mask >> lane & 1 == 1 {
                self.own.set(register, lane, shadow);
            }
        }
    }

    fn rearranged(&self, of: &Rearrange) -> Vec<(Register, usize, Shadow)> {
        let mut moved = vec![[Shadow::default(); LANES]; of.results().len()];
        of.each(|[to, to_lane, to_half], [from, lane, half]| {
            let shadow = self.own.get((Word, of.a[from]), lane);
            let bits = (shadow.bits >> (16 * half) & 0xffff) << (16 * to_half);
            if bits != 0 {
                let known = &mut moved[to][to_lane];
                *known = shadow.number(known.bits | bits);
            }
        });
        let registers = of.results().iter().zip(moved);
        let shadows = registers.flat_map(|(slot, moved)| {
            let lanes = moved.into_iter().enumerate();
            lanes.map(move |(lane, shadow)| ((Word, *slot), lane, shadow))
        });
        shadows.collect()
    }

    fn multiplied(&self, of: &Multiply) -> Vec<(Register, usize, Shadow)> {
        // The shadows of groups of adjacent elements.
        let of_groups = |from: &Fragment, group: usize| {
            let groups = from.matrices() * from.outer * from.inner / group;
            let mut found = vec![Shadow::default(); groups];
            each_element(from, |lane, index, bits, register| {
                let shadow = self.own.get(register, lane);
                if shadow.bits & bits != 0 {
                    found[index / group] = shadow;
                }
            });
            found
        };
        let [rows, columns] = [&of.a, &of.b].map(|from| of_groups(from, from.inner));
        let sums = of_groups(&of.c, 1);
        let mut results = Vec::new();
        each_element(&of.d, |lane, index, bits, register| {
            let row = index / of.d.inner;
            let column = row / of.d.outer * of.b.outer + index % of.d.inner;
            let all = [sums[index], rows[row], columns[column]];
            if let Some(shadow) = all.iter().find(|shadow| shadow.bits != 0) {
                results.push((register, lane, shadow.number(bits)));
            }
        });
        results
    }
}

/// Calls `f` with the lane of each element of a fragment, its index in the matrix, its bits in the
/// register, and the register.
fn each_element(of: &Fragment, mut f: impl FnMut(usize, usize, u64, Register)) {
    let (packed, bits) = (of.element.packed(), 8 * of.element.bytes() as u32);
    for x in 0..of.elements() {
        let mask = u64::MAX >> (64 - bits) << (bits * (x % packed) as u32);
        let register = (of.element.class(), of.slots[x / packed]);
        for (lane, start) in of.lane_indices().into_iter().enumerate() {
            f(lane, start + of.index_distance(x), mask, register);
        }
    }
}
