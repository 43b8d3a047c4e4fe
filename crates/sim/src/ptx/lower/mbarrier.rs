//! Lowering of operations on barrier objects in shared memory.

use super::{
    lowerer::{Lowerer, add},
    mnemonic::Mnemonic,
};
use crate::ptx::ir::{
    AccessSpace, Bin, Mbarrier, MbarrierOp, Narrow, Op, PENDING_MASK, RegisterClass, Slot, Window,
};
use millstream_ptx::{PtxError, Type, ast::Operand};

impl<'a> Lowerer<'a> {
    pub(super) fn mbarrier(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.ty_of(&[Type::B64])?;
        if m.take("pending_count") {
            return self.pending_count(m);
        }
        let operations = [
            ("init", MbarrierOp::Init),
            ("inval", MbarrierOp::Invalidate),
            ("complete_tx", MbarrierOp::Complete),
            ("arrive", ARRIVE),
            ("arrive_drop", ARRIVE),
            ("test_wait", MbarrierOp::Wait { parity: false }),
            ("try_wait", MbarrierOp::Wait { parity: false }),
            // After the arrivals, of which `expect_tx` may be a modifier.
            ("expect_tx", MbarrierOp::Expect),
        ];
        let (drop, may_block) = (m.has("arrive_drop"), m.has("try_wait"));
        let f = match m.one_of(&operations)? {
            MbarrierOp::Arrive { .. } => MbarrierOp::Arrive {
                drop,
                incomplete: m.take("noComplete"),
                expects: m.take("expect_tx"),
            },
            MbarrierOp::Wait { .. } => MbarrierOp::Wait {
                parity: m.take("parity"),
            },
            f => f,
        };
        let orders = self.mbarrier_order(m, f)?;
        let space = self.mbarrier_space(m, f);
        m.finish()?;
        match f {
            MbarrierOp::Arrive {
                incomplete,
                expects,
                ..
            } => {
                let (state, target, count) = match m.operands {
                    [state, target] if !(incomplete || expects) => (state, target, None),
                    [state, target, count] => (state, target, Some(count)),
                    _ => return Err(m.operand_count("2 or 3")),
                };
                let state = match state {
                    Operand::Name("_") => None,
                    state => Some(self.target(m, state, Type::B64)?),
                };
                let count = match count {
                    Some(count) => self.source(m, count, Type::U32)?,
                    None => self.constant(RegisterClass::Word, 1)?,
                };
                self.emit_mbarrier(m, f, (target, space), (count, state, 0), orders)
            }
            MbarrierOp::Wait { parity } => {
                let (answer, target, phase, limit) = match m.operands {
                    [answer, target, phase] => (answer, target, phase, None),
                    [answer, target, phase, limit] if may_block => {
                        (answer, target, phase, Some(limit))
                    }
                    _ => return Err(m.operand_count(if may_block { "3 or 4" } else { "3" })),
                };
                // The time limit of a wait is only a hint.
                if let Some(limit) = limit {
                    self.source(m, limit, Type::U32)?;
                }
                let zero = self.constant(RegisterClass::Word, 0)?;
                let (count, state) = if parity {
                    (self.source(m, phase, Type::U32)?, None)
                } else {
                    (zero, Some(self.source(m, phase, Type::B64)?))
                };
                let answer = self.target(m, answer, Type::Pred)?;
                self.emit_mbarrier(m, f, (target, space), (count, state, answer), orders)
            }
            MbarrierOp::Invalidate => {
                let [target] = m.operands()?;
                let count = self.constant(RegisterClass::Word, 0)?;
                self.emit_mbarrier(m, f, (target, space), (count, None, 0), orders)
            }
            MbarrierOp::Init | MbarrierOp::Expect | MbarrierOp::Complete => {
                let [target, count] = m.operands()?;
                let count = self.source(m, count, Type::U32)?;
                self.emit_mbarrier(m, f, (target, space), (count, None, 0), orders)
            }
        }
    }

    /// Takes the memory order and its scope, and returns whether the operation orders accesses.
    ///
    /// The default order is release for arrivals and acquire for waits.
    fn mbarrier_order(&self, m: &mut Mnemonic<'a>, f: MbarrierOp) -> Result<bool, PtxError> {
        let order = match f {
            MbarrierOp::Arrive { .. } => Some("release"),
            MbarrierOp::Wait { .. } => Some("acquire"),
            _ => None,
        };
        let said = order.is_some_and(|order| m.take(order));
        let relaxed = !matches!(f, MbarrierOp::Init | MbarrierOp::Invalidate) && m.take("relaxed");
        let scope = (said || relaxed) && (m.take("cta") || m.take("cluster"));
        if said && relaxed || (said || relaxed) && !scope {
            return Err(m.unsupported());
        }
        Ok(order.is_some() && !relaxed)
    }

    /// Takes the state space. A cluster has one block, which arrivals may address as a remote
    /// block.
    fn mbarrier_space(&self, m: &mut Mnemonic<'a>, f: MbarrierOp) -> AccessSpace {
        let remote = matches!(
            f,
            MbarrierOp::Arrive { .. } | MbarrierOp::Expect | MbarrierOp::Complete
        );
        let shared =
            m.take("shared") || m.take("shared::cta") || remote && m.take("shared::cluster");
        if shared {
            AccessSpace::Is(Window::Shared)
        } else {
            AccessSpace::Generic
        }
    }

    fn emit_mbarrier(
        &mut self,
        m: &Mnemonic<'a>,
        f: MbarrierOp,
        (target, space): (&'a Operand<'a>, AccessSpace),
        (count, state, answer): (Slot, Option<Slot>, Slot),
        orders: bool,
    ) -> Result<(), PtxError> {
        let (address, space) = self.address(m, target, space)?;
        if !matches!(
            space,
            AccessSpace::Generic | AccessSpace::Is(Window::Shared)
        ) {
            return Err(m.mismatch(target, "a barrier object must lie in shared memory"));
        }
        let index = add(
            &mut self.code.mbarriers,
            Mbarrier {
                f,
                space,
                address,
                count,
                state,
                answer,
                orders,
            },
        );
        self.emit(Op::Mbarrier(index));
        Ok(())
    }

    /// Lowers `mbarrier.pending_count`: the number of arrivals that the phase waited for before the
    /// arrival that returned the state.
    fn pending_count(&mut self, m: &Mnemonic<'a>) -> Result<(), PtxError> {
        let [d, state] = m.operands()?;
        let a = self.source(m, state, Type::B64)?;
        let d = self.target(m, d, Type::U32)?;
        let b = self.constant(RegisterClass::Double, PENDING_MASK)?;
        let pending = self.temporary(RegisterClass::Double)?;
        self.emit(Op::bin64(Bin::And, pending, a, b));
        self.emit(Op::narrow(Narrow::Low, d, pending));
        Ok(())
    }
}

const ARRIVE: MbarrierOp = MbarrierOp::Arrive {
    drop: false,
    incomplete: false,
    expects: false,
};
