//! Lowering of warp-wide exchanges.

use super::{
    lowerer::{Lowerer, add},
    mnemonic::Mnemonic,
};
use crate::ptx::ir::{Exchange, ExchangeOp, Op, RegisterClass, Slot};
use millstream_ptx::{PtxError, Type, ast::Operand};

impl<'a> Lowerer<'a> {
    /// Emits an exchange with the results `d` and `p` and the operands `a`, `b` and `c`.
    pub(super) fn emit_exchange(
        &mut self,
        f: ExchangeOp,
        members: Slot,
        (d, p): (Slot, Option<Slot>),
        [a, b, c]: [Slot; 3],
    ) {
        let exchange = Exchange {
            f,
            members,
            d,
            p,
            a,
            b,
            c,
        };
        let index = add(&mut self.code.exchanges, exchange);
        self.emit(Op::Exchange(index));
    }

    /// Returns the member mask: the last operand or, for instructions without `.sync`, the active
    /// mask.
    fn members(
        &mut self,
        m: &Mnemonic<'a>,
        mask: Option<&'a Operand<'a>>,
    ) -> Result<Slot, PtxError> {
        match mask {
            Some(mask) => self.source(m, mask, Type::B32),
            None => {
                let d = self.temporary(RegisterClass::Word)?;
                self.emit(Op::ActiveMask { d });
                Ok(d)
            }
        }
    }

    /// Splits the member mask off the end of the operands, if there is one.
    fn split_members(m: &Mnemonic<'a>, sync: bool) -> (&'a [Operand<'a>], Option<&'a Operand<'a>>) {
        match m.operands {
            [rest @ .., mask] if sync => (rest, Some(mask)),
            all => (all, None),
        }
    }

    pub(super) fn shuffle(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let sync = m.take("sync");
        let ty = m.ty_of(&[Type::B32])?;
        let f = m.one_of(&[
            ("up", ExchangeOp::ShuffleUp),
            ("down", ExchangeOp::ShuffleDown),
            ("bfly", ExchangeOp::ShuffleButterfly),
            ("idx", ExchangeOp::ShuffleIndex),
        ])?;
        m.finish()?;
        let (operands, mask) = Self::split_members(m, sync);
        let [target, a, b, c] = operands else {
            return Err(m.operand_count(if sync { "5" } else { "4" }));
        };
        let [a, b, c] = self.sources(m, [a, b, c], ty)?;
        let members = self.members(m, mask)?;
        let (d, p) = self.result_pair(m, target)?;
        self.emit_exchange(f, members, (d, p), [a, b, c]);
        Ok(())
    }

    /// Resolves the target operand `d` or `d|p`.
    pub(super) fn result_pair(
        &mut self,
        m: &Mnemonic<'a>,
        target: &'a Operand<'a>,
    ) -> Result<(Slot, Option<Slot>), PtxError> {
        match target {
            Operand::Pair(d, p) => {
                let d = if *d == "_" {
                    self.temporary(RegisterClass::Word)?
                } else {
                    self.word(m, target, d)?
                };
                let p = if *p == "_" {
                    None
                } else {
                    Some(self.predicate(p)?)
                };
                Ok((d, p))
            }
            _ => Ok((self.target(m, target, Type::B32)?, None)),
        }
    }

    /// Resolves the name of a 32-bit register.
    fn word(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
        name: &'a str,
    ) -> Result<Slot, PtxError> {
        match self.resolve(name)? {
            super::Symbol::Register(register)
                if register.ty.bytes() == 4
                    && RegisterClass::of(register.ty) == RegisterClass::Word =>
            {
                Ok(register.slot)
            }
            _ => Err(m.mismatch(operand, "expected a 32-bit register")),
        }
    }

    pub(super) fn vote(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let sync = m.take("sync");
        let f = m.one_of(&[
            ("all", ExchangeOp::VoteAll),
            ("any", ExchangeOp::VoteAny),
            ("uni", ExchangeOp::VoteUniform),
            ("ballot", ExchangeOp::VoteBallot),
        ])?;
        let ballot = f == ExchangeOp::VoteBallot;
        let ty = m.ty_of(&[if ballot { Type::B32 } else { Type::Pred }])?;
        m.finish()?;
        let (operands, mask) = Self::split_members(m, sync);
        let [d, a] = operands else {
            return Err(m.operand_count(if sync { "3" } else { "2" }));
        };
        let a = self.source(m, a, Type::Pred)?;
        let members = self.members(m, mask)?;
        let d = self.target(m, d, ty)?;
        self.emit_exchange(f, members, (d, None), [a, 0, 0]);
        Ok(())
    }

    pub(super) fn match_lanes(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32, Type::B64])?;
        let double = ty == Type::B64;
        let all = m.take_one(&[("all", true), ("any", false)]);
        let (Some(all), true) = (all, m.take("sync")) else {
            return Err(m.unsupported());
        };
        let f = match (all, double) {
            (true, true) => ExchangeOp::MatchAll64,
            (true, false) => ExchangeOp::MatchAll32,
            (false, true) => ExchangeOp::MatchAny64,
            (false, false) => ExchangeOp::MatchAny32,
        };
        let [target, a, mask] = m.operands()?;
        let a = self.source(m, a, ty)?;
        let members = self.members(m, Some(mask))?;
        let (d, p) = self.result_pair(m, target)?;
        self.emit_exchange(f, members, (d, p), [a, 0, 0]);
        Ok(())
    }

    /// Lowers `redux.sync`.
    pub(super) fn reduce(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U32, Type::S32, Type::B32])?;
        if !m.take("sync") {
            return Err(m.unsupported());
        }
        let signed = usize::from(ty.is_signed());
        let operations = [
            ("add", ExchangeOp::ReduceAdd),
            (
                "min",
                [ExchangeOp::ReduceMinU, ExchangeOp::ReduceMinS][signed],
            ),
            (
                "max",
                [ExchangeOp::ReduceMaxU, ExchangeOp::ReduceMaxS][signed],
            ),
            ("and", ExchangeOp::ReduceAnd),
            ("or", ExchangeOp::ReduceOr),
            ("xor", ExchangeOp::ReduceXor),
        ];
        let f = m.one_of(&operations)?;
        let [d, a, mask] = m.operands()?;
        let a = self.source(m, a, ty)?;
        let members = self.members(m, Some(mask))?;
        let d = self.target(m, d, ty)?;
        self.emit_exchange(f, members, (d, None), [a, 0, 0]);
        Ok(())
    }

    /// Lowers `bar.warp.sync`.
    pub(super) fn warp_barrier(&mut self, m: &Mnemonic<'a>) -> Result<(), PtxError> {
        let [mask] = m.operands()?;
        let members = self.members(m, Some(mask))?;
        let d = self.temporary(RegisterClass::Word)?;
        self.emit_exchange(ExchangeOp::Barrier, members, (d, None), [0, 0, 0]);
        Ok(())
    }

    pub(super) fn active_mask(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32])?;
        let [d] = m.operands()?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::ActiveMask { d });
        Ok(())
    }
}
