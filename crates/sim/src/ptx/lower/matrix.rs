//! Lowering of `mma`, and what all instructions on matrices share: the check of the target, and
//! fragments.
//!
//! An instruction on matrices begins with an exchange that waits for all lanes of the warp.
//! Accesses to memory are ordinary loads and stores.

use smallvec::SmallVec;

use super::lowerer::{Lowerer, add};
use super::mnemonic::Mnemonic;
use crate::ptx::ir::{
    Element, ExchangeOp, Fragment, Layout, MatrixOp, Multiply, Op, RegisterClass, Round,
};
use millstream_ptx::ast::Operand;
use millstream_ptx::{PtxError, Type};

use Element::{Bf16, E4m3, E5m2, F16, F32, F64, S8, S32, Tf32, U8};

/// The types of elements by their names.
pub(super) const ELEMENTS: [(&str, Element); 10] = [
    ("f16", F16),
    ("bf16", Bf16),
    ("tf32", Tf32),
    ("e4m3", E4m3),
    ("e5m2", E5m2),
    ("s8", S8),
    ("u8", U8),
    ("f32", F32),
    ("s32", S32),
    ("f64", F64),
];

/// The layouts of a matrix in memory: whether its columns are contiguous.
pub(super) const COLUMNS: [(&str, bool); 2] = [("row", false), ("col", true)];

/// The first target and version of PTX that have an instruction, and the reason to refuse it for
/// older ones.
#[derive(Clone, Copy)]
pub(super) struct Since {
    pub(super) target: u32,
    pub(super) version: (u32, u32),
    pub(super) reason: &'static str,
}

/// Returns the [`Since`] of a target and a version.
macro_rules! since {
    ($target:literal, $major:literal, $minor:literal) => {
        Since {
            target: $target,
            version: ($major, $minor),
            reason: concat!(
                "the instruction needs the target sm_",
                $target,
                " and PTX ISA ",
                $major,
                ".",
                $minor,
                ", and the module names an older one"
            ),
        }
    };
}
pub(super) use since;

/// The shapes of `mma`: rows, columns, and the length of a sum.
const SHAPES: [(&str, [usize; 3]); 7] = [
    ("m8n8k4", [8, 8, 4]),
    ("m8n8k16", [8, 8, 16]),
    ("m16n8k4", [16, 8, 4]),
    ("m16n8k8", [16, 8, 8]),
    ("m16n8k16", [16, 8, 16]),
    ("m16n8k32", [16, 8, 32]),
    ("m16n8k64", [16, 8, 64]),
];

/// Returns whether two elements can be multiplied: those of 8 bits are mixed.
pub(super) fn pairs(a: Element, b: Element) -> bool {
    let is = |of: [Element; 2]| of.contains(&a) && of.contains(&b);
    a == b && !matches!(a, F32 | S32) || is([S8, U8]) || is([E4m3, E5m2])
}

/// Returns the first target of an `mma` with these elements of `D`, `A`, `B` and `C`.
fn mma_since([m, n, k]: [usize; 3], [d, a, b, c]: [Element; 4]) -> Option<Since> {
    if !pairs(a, b) {
        return None;
    }
    let sums = match a {
        F16 => matches!((d, c), (F16, F16) | (F32, F32)) || k == 4 && (d, c) == (F32, F16),
        E4m3 | E5m2 => matches!((d, c), (F16, F16) | (F32, F32)),
        S8 | U8 => (d, c) == (S32, S32),
        F64 => (d, c) == (F64, F64),
        _ => (d, c) == (F32, F32),
    };
    let since = match (a, m, n, k) {
        (F16, 8, 8, 4) => since!(70, 6, 4),
        (F16, 16, 8, 8) => since!(75, 6, 5),
        (S8 | U8, 8, 8, 16) => since!(75, 6, 5),
        (F16 | Bf16, 16, 8, 16) | (Bf16, 16, 8, 8) => since!(80, 7, 0),
        (Tf32, 16, 8, 4 | 8) | (S8 | U8, 16, 8, 16 | 32) => since!(80, 7, 0),
        (F64, 8, 8, 4) => since!(80, 7, 0),
        (F64, 16, 8, 4 | 8 | 16) => since!(90, 7, 8),
        (E4m3 | E5m2, 16, 8, 32) if d == F32 => since!(89, 8, 4),
        (E4m3 | E5m2, 16, 8, 16 | 32) => since!(89, 8, 7),
        _ => return None,
    };
    sums.then_some(since)
}

/// Returns a fragment without registers, with tiles of up to `rows` times 8 elements of the outer
/// dimension and runs of `run` elements.
fn tiles(element: Element, [rows, run]: [usize; 2], [outer, inner]: [usize; 2]) -> Fragment {
    let layout = Layout::Tiles {
        rows: rows.min(outer / 8) as u8,
        run: run as u8,
    };
    Fragment {
        element,
        layout,
        outer,
        inner,
        slots: SmallVec::new(),
    }
}

/// Returns a fragment of an operand.
pub(super) fn operand(element: Element, rows: usize, extents: [usize; 2]) -> Fragment {
    tiles(element, [rows, element.packed()], extents)
}

/// Returns a fragment of sums.
pub(super) fn sums(element: Element, extents: [usize; 2]) -> Fragment {
    tiles(element, [2, 2], extents)
}

impl<'a> Lowerer<'a> {
    /// Takes `.sync` and `.aligned`, which the instruction must have.
    pub(super) fn sync_aligned(m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if m.take("sync") && m.take("aligned") {
            Ok(())
        } else {
            Err(m.unsupported())
        }
    }

    /// Refuses an instruction that is newer than the module's target or version.
    pub(super) fn check_since(&self, m: &Mnemonic<'a>, since: Since) -> Result<(), PtxError> {
        let header = &self.module.header;
        let is_old = header.target_number().is_some_and(|own| own < since.target);
        if is_old || header.is_before(since.version.0, since.version.1) {
            Err(m.refuse(since.reason))
        } else {
            Ok(())
        }
    }

    /// Emits the start of an instruction that all lanes execute together.
    pub(super) fn together(&mut self, name: &'static str) -> Result<(), PtxError> {
        let members = self.constant(RegisterClass::Word, u32::MAX.into())?;
        let d = self.temporary(RegisterClass::Word)?;
        self.emit_exchange(ExchangeOp::Together(name), members, (d, None), [0; 3]);
        Ok(())
    }

    pub(super) fn emit_matrix(&mut self, op: MatrixOp) {
        let index = add(&mut self.code.matrices, op);
        self.emit(Op::Matrix(index));
    }

    /// Adds the registers of an operand, `count` of them, to a fragment.
    pub(super) fn fill(
        &mut self,
        m: &Mnemonic<'a>,
        (operand, written): (&'a Operand<'a>, bool),
        fragment: &mut Fragment,
        count: usize,
    ) -> Result<(), PtxError> {
        let ty = match fragment.element {
            F32 => Type::F32,
            S32 => Type::S32,
            F64 => Type::F64,
            _ => Type::B32,
        };
        for register in Self::values(m, operand, count)? {
            fragment.slots.push(if written {
                self.target(m, register, ty)?
            } else {
                self.source(m, register, ty)?
            });
        }
        Ok(())
    }

    /// Lowers `mma`.
    pub(super) fn mma(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        Self::sync_aligned(m)?;
        let shape = m.one_of(&SHAPES)?;
        let columns = m.take_all(&COLUMNS);
        let saturate = m.take("satfinite");
        let round = m.round();
        let elements = m.take_all(&ELEMENTS);
        let (&[a_columns, b_columns], &[d, a, b, c]) = (&columns[..], &elements[..]) else {
            return Err(m.unsupported());
        };
        let operands: &[_; 4] = m.operands()?;
        let since = mma_since(shape, [d, a, b, c]).ok_or_else(|| m.unsupported())?;
        let quads = shape == [8, 8, 4] && a == F16;
        let fits = quads || (a_columns, b_columns) == (false, true);
        if !fits || saturate && d != S32 || round.is_some() && d != F64 {
            return Err(m.unsupported());
        }
        self.check_since(m, since)?;
        let [rows, columns, length] = shape;
        let mut of = Multiply {
            a: operand(a, 2, [rows, length]),
            b: operand(b, 1, [columns, length]),
            c: sums(c, [rows, columns]),
            d: sums(d, [rows, columns]),
            saturate,
            round: round.unwrap_or(Round::Nearest),
        };
        if quads {
            let along = [Layout::QuadRows, Layout::QuadColumns];
            of.a.layout = along[usize::from(a_columns)];
            of.b.layout = along[usize::from(!b_columns)];
            for sum in [&mut of.c, &mut of.d] {
                sum.layout = match sum.element {
                    F16 => Layout::QuadRows,
                    _ => Layout::QuadSums,
                };
            }
        }
        let fragments = [&mut of.d, &mut of.a, &mut of.b, &mut of.c];
        for (index, (fragment, operand)) in fragments.into_iter().zip(operands).enumerate() {
            let count = fragment.registers();
            self.fill(m, (operand, index == 0), fragment, count)?;
        }
        self.emit_multiply("mma.sync", of)
    }

    /// Emits a product, which counts as the thread instructions that a multiprocessor of an H200
    /// could execute in the same time.
    pub(super) fn emit_multiply(
        &mut self,
        name: &'static str,
        of: Multiply,
    ) -> Result<(), PtxError> {
        let products = of.a.matrices() * of.a.outer * of.b.outer * of.a.inner;
        let products_per_warp_instruction = match of.a.element {
            F64 => 32,
            Tf32 => 256,
            F16 | Bf16 => 512,
            _ => 1024,
        };
        self.together(name)?;
        self.counted = (products / products_per_warp_instruction).saturating_sub(1) as u32;
        self.emit_matrix(MatrixOp::Multiply(Box::new(of)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_of_a_matrix_is_in_one_register_of_one_lane() {
        let mut fragments = vec![
            sums(F16, [16, 16]),
            sums(F32, [32, 8]),
            sums(S32, [8, 8]),
            sums(F64, [16, 8]),
        ];
        for (element, inner) in [(F16, 16), (Bf16, 8), (Tf32, 4), (S8, 32), (F64, 16)] {
            for (rows, outer) in [(1, 8), (1, 16), (2, 16), (2, 32)] {
                fragments.push(operand(element, rows, [outer, inner]));
            }
        }
        for (layout, inner) in [
            (Layout::QuadRows, 4),
            (Layout::QuadRows, 8),
            (Layout::QuadColumns, 4),
            (Layout::QuadSums, 8),
        ] {
            let quads = operand(F16, 1, [8, inner]);
            fragments.push(Fragment { layout, ..quads });
        }
        for of in fragments {
            let distances = (0..of.elements()).map(|x| of.index_distance(x));
            let indices = distances.flat_map(|x| of.lane_indices().map(|lane| lane + x));
            let mut found: Vec<_> = indices.collect();
            found.sort_unstable();
            let all = of.matrices() * of.outer * of.inner;
            assert_eq!(found, (0..all).collect::<Vec<_>>(), "{of:?}");
        }
    }
}
