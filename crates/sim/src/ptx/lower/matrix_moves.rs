//! Lowering of `ldmatrix`, `stmatrix` and `movmatrix`.
//!
//! The lanes that give the addresses of rows load or store them, and a rearrangement of the
//! registers of all lanes does the rest.

use super::lowerer::Lowerer;
use super::matrix::{Since, since};
use super::mnemonic::Mnemonic;
use crate::ptx::ir::{
    AccessSpace, Address, AddressBase, Bin, Compare, Form, GUARD_NEGATED, MatrixOp, NO_GUARD, Op,
    PredOp, Rearrange, RegisterClass, Slot, SpecialRegister, Window,
};
use millstream_ptx::ast::Operand;
use millstream_ptx::{PtxError, Type};

impl<'a> Lowerer<'a> {
    pub(super) fn move_matrix(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        Self::sync_aligned(m)?;
        let transpose = m.take("trans");
        let moves = m.base == "movmatrix";
        let matrices = if moves {
            1
        } else {
            m.one_of(&[("x1", 1), ("x2", 2), ("x4", 4)])?
        };
        if !(m.take("m8n8") && m.take("b16")) || moves && !transpose {
            return Err(m.unsupported());
        }
        let shared = !moves && (m.take("shared") || m.take("shared::cta"));
        let &[first, second] = &m.operands::<2>()?.each_ref();
        let (from, to) = match m.base {
            "ldmatrix" => (Form::Rows, Form::Fragment),
            "stmatrix" => (Form::Fragment, Form::Rows),
            _ => (Form::Fragment, Form::Fragment),
        };
        let mut of = Rearrange {
            matrices,
            transpose,
            from,
            to,
            a: [0; 4],
            d: [0; 4],
        };
        match m.base {
            "ldmatrix" => {
                self.check_since(m, since!(75, 6, 5))?;
                let address = self.row_address(m, second, shared)?;
                for (d, operand) in of.d.iter_mut().zip(Self::values(m, first, matrices)?) {
                    *d = self.target(m, operand, Type::B32)?;
                }
                of.a = self.temporaries(RegisterClass::Word)?;
                self.together("ldmatrix.sync")?;
                let guard = self.guard;
                self.guard_rows(matrices)?;
                self.load_slots((AccessSpace::Is(Window::Shared), address), 4, &of.a)?;
                self.guard = guard;
                self.emit_matrix(MatrixOp::Rearrange(of));
            }
            "stmatrix" => {
                self.check_since(m, since!(90, 7, 8))?;
                let address = self.row_address(m, first, shared)?;
                for (a, operand) in of.a.iter_mut().zip(Self::values(m, second, matrices)?) {
                    *a = self.source(m, operand, Type::B32)?;
                }
                of.d = self.temporaries(RegisterClass::Word)?;
                self.together("stmatrix.sync")?;
                self.emit_matrix(MatrixOp::Rearrange(of));
                let guard = self.guard;
                self.guard_rows(matrices)?;
                self.store_slots((AccessSpace::Is(Window::Shared), address), 4, &of.d);
                self.guard = guard;
            }
            _ => {
                self.check_since(m, since!(75, 7, 8))?;
                of.d[0] = self.target(m, first, Type::B32)?;
                of.a[0] = self.source(m, second, Type::B32)?;
                self.together("movmatrix.sync")?;
                self.emit_matrix(MatrixOp::Rearrange(of));
            }
        }
        Ok(())
    }

    /// Returns the address of a row in shared memory, which a generic one is converted to.
    fn row_address(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &'a Operand<'a>,
        shared: bool,
    ) -> Result<Address, PtxError> {
        let space = if shared {
            AccessSpace::Is(Window::Shared)
        } else {
            AccessSpace::Generic
        };
        match self.address(m, operand, space)? {
            (address, AccessSpace::Is(Window::Shared)) => Ok(address),
            (
                Address {
                    base: AddressBase::Double(a),
                    offset,
                },
                AccessSpace::Generic,
            ) => {
                let start = Window::SHARED.wrapping_neg();
                let b = self.constant(RegisterClass::Double, start)?;
                let d = self.temporary(RegisterClass::Double)?;
                self.emit(Op::bin64(Bin::Add, d, a, b));
                let base = AddressBase::Offset(d);
                Ok(Address { base, offset })
            }
            _ => Err(m.mismatch(operand, "expected an address in shared memory")),
        }
    }

    /// Restricts the guard to the lanes that give addresses of rows.
    fn guard_rows(&mut self, matrices: usize) -> Result<(), PtxError> {
        if matrices == 4 {
            return Ok(());
        }
        let lane = self.special(RegisterClass::Word, SpecialRegister::LaneId)?;
        let end = self.constant(RegisterClass::Word, 8 * matrices as u64)?;
        let p: Slot = self.temporary(RegisterClass::Predicate)?;
        let given = std::mem::replace(&mut self.guard, NO_GUARD);
        self.emit(Op::cmp32(Compare::LtU, p, lane, end));
        if given != NO_GUARD {
            let f = if given & GUARD_NEGATED == 0 {
                PredOp::And
            } else {
                PredOp::NotAnd
            };
            self.emit(Op::pred(f, p, given & !GUARD_NEGATED, p));
        }
        self.guard = p;
        Ok(())
    }
}
