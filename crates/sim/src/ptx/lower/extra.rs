//! Lowering of bit masks, packed integers, `elect` and hints.

use super::lowerer::{Lowerer, add};
use super::memory::window;
use super::mnemonic::Mnemonic;
use crate::ptx::ir::{
    AccessSpace, Bin, ExchangeOp, Extra, Op, Packed, PackedOp, RegisterClass, Slot,
};
use millstream_ptx::PtxError;
use millstream_ptx::Type;

impl<'a> Lowerer<'a> {
    pub(super) fn emit_extra(&mut self, f: Extra, d: Slot, [a, b, c]: [Slot; 3]) {
        let f = add(&mut self.code.extras, f);
        self.emit(Op::Extra { f, d, a, b, c });
    }

    /// Lowers `szext`, `bmsk`, `fns` and `elect`.
    pub(super) fn extra(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        match m.base {
            "elect" => self.elect(m),
            "fns" => {
                let ty = m.ty_of(&[Type::B32])?;
                let [d, a, b, c] = m.operands()?;
                let [a, b, c] = self.sources(m, [a, b, c], ty)?;
                let d = self.target(m, d, ty)?;
                let f = Extra::FindNth;
                self.emit_extra(f, d, [a, b, c]);
                Ok(())
            }
            base => {
                let ty = m.ty_of(&[Type::B32, Type::U32, Type::S32])?;
                let wrap = m.one_of(&[("wrap", true), ("clamp", false)])?;
                let [d, a, b] = m.operands()?;
                let (a, b) = (self.source(m, a, ty)?, self.source(m, b, Type::U32)?);
                let d = self.target(m, d, ty)?;
                let f = if base == "bmsk" {
                    Extra::BitMask { wrap }
                } else {
                    let signed = ty.is_signed();
                    Extra::Extend { signed, wrap }
                };
                self.emit_extra(f, d, [a, b, b]);
                Ok(())
            }
        }
    }

    /// Lowers `elect.sync`, which elects the lowest participating lane.
    fn elect(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if !m.take("sync") {
            return Err(m.unsupported());
        }
        let [target, mask] = m.operands()?;
        let members = self.source(m, mask, Type::B32)?;
        let (d, p) = self.result_pair(m, target)?;
        self.emit_exchange(
            ExchangeOp::Elect,
            members,
            (d, p),
            [members, members, members],
        );
        Ok(())
    }

    /// Lowers `add`, `min` and `max` of two packed 16-bit integers, and `min` and `max` with
    /// `.relu`, which replaces negative results by 0.
    pub(super) fn packed_integer(
        &mut self,
        m: &mut Mnemonic<'a>,
        ty: Type,
    ) -> Result<(), PtxError> {
        let relu = m.base != "add" && ty.is_signed() && m.take("relu");
        let (f, word) = match m.base {
            "add" => (PackedOp::Add, Bin::Add),
            "min" => (PackedOp::Min, Bin::MinS),
            "max" => (PackedOp::Max, Bin::MaxS),
            _ => return Err(m.unsupported()),
        };
        let [d, a, b] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], Type::B32)?;
        let d = self.target(m, d, Type::B32)?;
        if ty == Type::S32 {
            self.emit(Op::bin32(word, d, a, b));
            let zero = self.constant(RegisterClass::Word, 0)?;
            self.emit(Op::bin32(Bin::MaxS, d, d, zero));
            return Ok(());
        }
        let f = Extra::Packed(Packed {
            relu,
            ..Packed::new(f, 2, [ty; 3])
        });
        self.emit_extra(f, d, [a, b, b]);
        Ok(())
    }

    /// Lowers `prefetch`, `prefetchu`, `applypriority` and `discard` to no operation: they are
    /// hints.
    pub(super) fn prefetch(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let space = window(m).map_or(AccessSpace::Generic, AccessSpace::Is);
        m.ignore(&[
            "L1",
            "L2",
            "L2::evict_last",
            "L2::evict_normal",
            "tensormap",
        ]);
        m.finish()?;
        let [address, ..] = m.operands else {
            return Err(m.operand_count("1"));
        };
        self.address(m, address, space)?;
        self.emit(Op::Nop);
        Ok(())
    }

    /// Lowers `createpolicy` to a constant, because a cache policy is a hint.
    pub(super) fn create_policy(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let [d, ..] = m.operands else {
            return Err(m.operand_count("2 or more"));
        };
        let a = self.constant(RegisterClass::Double, 0)?;
        let d = self.target(m, d, Type::B64)?;
        self.emit_move(RegisterClass::Double, d, a);
        Ok(())
    }

    /// Lowers `pmevent` and `griddepcontrol` to no operation: a kernel starts only after the
    /// kernels before it have ended.
    pub(super) fn hint(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.ignore(&["mask", "launch_dependents", "wait"]);
        m.finish()?;
        self.emit(Op::Nop);
        Ok(())
    }
}
