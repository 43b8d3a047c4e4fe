//! Vector code of the operations on integers and predicates, and of loads from shared memory.
//!
//! Each function returns `None` for an operation that it has no code for, which ends a block.

use super::assembler::{
    ABS_D, ADD_D, AND, ANDN, BLEND_D, BLEND_PS, EQUAL_D, GREATER_D, LOAD, MAX_SD, MAX_UD, MIN_SD,
    MIN_UD, MUL_D, MUL_SDQ, MUL_UDQ, OR, Opcode, Operand, PERMUTE_D, PERMUTE_Q, R8, R11, SAR_D,
    SHIFT_D, SHIFT_Q, SHL_D, SHR_D, SHUFFLE_B, SHUFFLE_PS, SIGN_EXTEND_B, SIGN_EXTEND_W, STORE,
    STORE_HALF, STORE_MASKED, STORE_Q, SUB_D, UPPER_HALF, XOR, ZERO_EXTEND_B, ZERO_EXTEND_W,
};
use super::call::Place;
use super::loads::{WINDOW_BYTES, WINDOW_START, shared_load};
use super::values::{
    FloatState, INACTIVE, INACTIVE_HALVES, LEFT, RIGHT, RIGHT_SIGNED, SCRATCH, Values,
};
use super::{float, wide};
use crate::ptx::ir::{
    Access, Bin, Compare, FusedBase, Instr, Op, PredOp, Prmt, RegisterClass, Shift, Slot, Tri, Un,
    Word1, Word3,
};

use RegisterClass::{Double, Predicate, Word};

const S: u8 = SCRATCH[0];
const T: u8 = SCRATCH[1];

/// Emits an operation. `bases` are the address registers of the block's loads.
pub(super) fn operation(v: &mut Values<'_>, instr: &Instr, bases: &[FusedBase]) -> Option<()> {
    match instr.op {
        Op::Nop => Some(()),
        Op::Load(index) => {
            let access = &v.code.loads[index as usize];
            match shared_load(access) {
                Some(place) => load(v, access, place, bases),
                None => load_global(v, access),
            }
        }
        Op::Store(index) => store_global(v, index),
        Op::Un32 { f, d, a } => un32(v, f, d, a),
        Op::Word1 { f, d, a } => word1(v, f, d, a),
        Op::Bin32 { f, d, a, b } => bin32(v, f, d, a, b),
        Op::Shift32 { f, d, a, b } => {
            let op = match f {
                Shift::Shl => SHL_D,
                Shift::ShrU => SHR_D,
                Shift::ShrS => SAR_D,
            };
            v.binary(op, d, a, b)
        }
        Op::Tri32 { f, d, a, b, c } => tri32(v, f, d, [a, b, c]),
        Op::Word3 { f, d, a, b, c } => word3(v, f, d, [a, b, c]),
        Op::Lop3 { table, d, a, b, c } => lop3(v, table, d, [a, b, c]),
        Op::Prmt { mode, d, a, b, c } => prmt(v, mode, d, [a, b, c]),
        Op::Cmp32 { f, d, a, b } => cmp32(v, f, d, a, b),
        Op::Pred { f, d, a, b } => pred(v, f, d, a, b),
        Op::Select32 { d, a, b, p } => {
            let ((_, x), (_, y)) = (v.float(a), v.float(b));
            let (a, b) = if x.raw && y.raw {
                (v.float(a).0, v.float(b).0)
            } else {
                (v.word(a), v.word(b))
            };
            let p = v.predicate(p);
            let r = v.register();
            v.vector_with(BLEND_PS, r, b, a, p << 4);
            let float = FloatState {
                raw: x.raw && y.raw,
                flushed: x.flushed && y.flushed,
            };
            v.set(Word, d, [r; 2], float)
        }
        op => wide::operation(v, op),
    }
}

impl Values<'_> {
    /// Sets a 32-bit result.
    pub(super) fn set_word(&mut self, d: Slot, register: u8) -> Option<()> {
        self.set(Word, d, [register; 2], FloatState::default())
    }

    pub(super) fn set_double(&mut self, d: Slot, registers: [u8; 2]) -> Option<()> {
        self.set(Double, d, registers, FloatState::default())
    }

    pub(super) fn set_predicate(&mut self, d: Slot, register: u8) -> Option<()> {
        self.set(Predicate, d, [register; 2], FloatState::default())
    }

    /// Emits a 32-bit operation of one instruction.
    fn binary(&mut self, op: Opcode, d: Slot, a: Slot, b: Slot) -> Option<()> {
        let (a, b) = (self.word(a), self.word(b));
        let r = self.register();
        self.vector(op, r, a, b);
        self.set_word(d, r)
    }

    /// Inverts all bits of a register.
    pub(super) fn invert(&mut self, register: u8) {
        let ones = self.splat(u32::MAX);
        self.vector(XOR, register, register, ones);
    }

    /// Packs masks of 64-bit lanes into a mask of 32-bit lanes, or the low halves of 64-bit values;
    /// with `0xdd`, the high halves.
    pub(super) fn pack(&mut self, to: u8, from: [u8; 2], which: u8) {
        self.vector_with(SHUFFLE_PS, to, from[0], from[1], which);
        self.vector_with(PERMUTE_Q, to, 0, to, 0xd8);
    }

    /// Extends the upper four lanes of a 32-bit register to 64 bits.
    pub(super) fn extend_upper(&mut self, op: Opcode, to: u8, from: u8) {
        self.vector_with(UPPER_HALF, from, 0, to, 1);
        self.vector(op, to, 0, to);
    }

    /// Shifts by an immediate.
    pub(super) fn shift(&mut self, op: Opcode, digit: u8, to: u8, from: u8, by: u8) {
        self.vector_with(op, digit, to, from, by);
    }
}

/// Loads a 32-bit value of each lane from the window of the address register: see
/// [`Window`](super::call::Window).
fn load(
    v: &mut Values<'_>,
    access: &Access,
    (base, offset): (FusedBase, u32),
    bases: &[FusedBase],
) -> Option<()> {
    let base = bases
        .iter()
        .position(|known| (known.slot, known.double) == (base.slot, base.double))?;
    let at = base as i32 * WINDOW_BYTES;
    // It may store another value, which takes r11.
    let r = v.register();
    v.assembler.raw_with(&[0x4d, 0x8b, 0x98], at + WINDOW_START); // mov r11, [r8+…]
    v.vector(LOAD, S, 0, Operand::Memory(R8, at));
    v.vector(PERMUTE_D, r, S, Operand::Memory(R11, offset.cast_signed()));
    v.set_word(access.values[0], r)
}

/// Writes the address of the next access to global memory to r11.
fn next_address(v: &mut Values<'_>) {
    let at = v.accesses * size_of::<Place<'_>>() as i32;
    v.assembler.raw_with(&[0x4d, 0x8b, 0x99], at); // mov r11, [r9+…]
    v.accesses += 1;
}

/// Loads consecutive values.
fn load_global(v: &mut Values<'_>, access: &Access) -> Option<()> {
    let [first, second] = [0, 32].map(|at| Operand::Memory(R11, at));
    let slot = access.values[0];
    let r = v.register();
    if access.width == 8 {
        let high = v.register();
        next_address(v);
        v.vector(LOAD, r, 0, first);
        v.vector(LOAD, high, 0, second);
        return v.set_double(slot, [r, high]);
    }
    next_address(v);
    let op = match (access.width, access.sign_extend > 0) {
        (1, false) => ZERO_EXTEND_B,
        (1, true) => SIGN_EXTEND_B,
        (2, false) => ZERO_EXTEND_W,
        (2, true) => SIGN_EXTEND_W,
        _ => LOAD,
    };
    v.vector(op, r, 0, first);
    v.set_word(slot, r)
}

/// Stores consecutive values.
fn store_global(v: &mut Values<'_>, index: u32) -> Option<()> {
    let access = &v.code.stores[index as usize];
    let (slot, memory) = (access.values[0], Operand::Memory(R11, 0));
    if access.width == 8 {
        let [low, high] = v.double(slot);
        next_address(v);
        store_active(v, low, INACTIVE_HALVES[0], memory);
        store_active(v, high, INACTIVE_HALVES[1], Operand::Memory(R11, 32));
        return Some(());
    }
    let value = v.word(slot);
    next_address(v);
    if access.width == 4 {
        store_active(v, value, INACTIVE, memory);
        return Some(());
    }
    // The bytes of each half of the register go to its beginning, the halves behind each other.
    let bytes = if access.width == 1 {
        [0x0c08_0400, 0, 0, 0]
    } else {
        [0x0504_0100, 0x0d0c_0908, 0, 0]
    };
    let control = v
        .assembler
        .constant(std::array::from_fn(|at| bytes[at % 4]));
    v.vector(SHUFFLE_B, S, value, control);
    if access.width == 1 {
        let halves = v.assembler.constant([0, 4, 0, 0, 0, 0, 0, 0]);
        v.vector(LOAD, T, 0, halves);
        v.vector(PERMUTE_D, S, T, S);
        v.vector(STORE_Q, S, 0, memory);
    } else {
        v.vector_with(PERMUTE_Q, S, 0, S, 8);
        v.vector(STORE_HALF, S, 0, memory);
    }
    Some(())
}

/// Stores the lanes that are active.
fn store_active(v: &mut Values<'_>, value: u8, inactive: u8, memory: Operand) {
    if v.masked {
        let ones = v.splat(u32::MAX);
        v.vector(XOR, S, inactive, ones);
        v.vector(STORE_MASKED, value, S, memory);
    } else {
        v.vector(STORE, value, 0, memory);
    }
}

fn un32(v: &mut Values<'_>, f: Un, d: Slot, a: Slot) -> Option<()> {
    if f == Un::Move {
        let (a, float) = v.float(a);
        let r = v.register();
        v.copy(r, a);
        return v.set(Word, d, [r; 2], float);
    }
    let a = v.word(a);
    let r = v.register();
    match f {
        Un::Neg => {
            v.vector(XOR, S, S, S);
            v.vector(SUB_D, r, S, a);
        }
        Un::Abs => v.vector(ABS_D, r, 0, a),
        Un::Not => {
            let ones = v.splat(u32::MAX);
            v.vector(XOR, r, a, ones);
        }
        Un::Cnot => {
            v.vector(XOR, S, S, S);
            v.vector(EQUAL_D, r, a, S);
            v.shift(SHIFT_D, RIGHT, r, r, 31);
        }
        Un::Move | Un::Brev => return None,
    }
    v.set_word(d, r)
}

fn word1(v: &mut Values<'_>, f: Word1, d: Slot, a: Slot) -> Option<()> {
    let masked = |v: &mut Values<'_>, mask: u32| {
        let (a, r) = (v.word(a), v.register());
        let mask = v.splat(mask);
        v.vector(AND, r, a, mask);
        v.set_word(d, r)
    };
    let extended = |v: &mut Values<'_>, by: u8| {
        let (a, r) = (v.word(a), v.register());
        v.shift(SHIFT_D, LEFT, r, a, by);
        v.shift(SHIFT_D, RIGHT_SIGNED, r, r, by);
        v.set_word(d, r)
    };
    match f {
        Word1::Zext8 => masked(v, 0xff),
        Word1::Zext16 => masked(v, 0xffff),
        Word1::Sext8 => extended(v, 24),
        Word1::Sext16 => extended(v, 16),
        Word1::High16 => {
            let (a, r) = (v.word(a), v.register());
            v.shift(SHIFT_D, RIGHT, r, a, 16);
            v.set_word(d, r)
        }
        f => float::word1(v, f, d, a),
    }
}

fn bin32(v: &mut Values<'_>, f: Bin, d: Slot, a: Slot, b: Slot) -> Option<()> {
    let op = match f {
        Bin::Add => ADD_D,
        Bin::Sub => SUB_D,
        Bin::Mul => MUL_D,
        Bin::MinS => MIN_SD,
        Bin::MinU => MIN_UD,
        Bin::MaxS => MAX_SD,
        Bin::MaxU => MAX_UD,
        Bin::And => AND,
        Bin::Or => OR,
        Bin::Xor => XOR,
        Bin::MulHighS | Bin::MulHighU | Bin::CopySign | Bin::Pack16 => {
            let (a, b) = (v.word(a), v.word(b));
            let r = v.register();
            if matches!(f, Bin::MulHighS | Bin::MulHighU) {
                multiply_high(v, f == Bin::MulHighS, r, a, b);
                return v.set_word(d, r);
            }
            let (of_a, of_b) = (
                v.splat([0xffff, 1 << 31][usize::from(f == Bin::CopySign)]),
                v.splat(!(1 << 31)),
            );
            v.vector(AND, S, a, of_a);
            if f == Bin::CopySign {
                v.vector(AND, r, b, of_b);
            } else {
                v.shift(SHIFT_D, LEFT, r, b, 16);
            }
            v.vector(OR, r, r, S);
            return v.set_word(d, r);
        }
        Bin::DivS | Bin::DivU | Bin::RemS | Bin::RemU | Bin::AddSat | Bin::SubSat => return None,
    };
    v.binary(op, d, a, b)
}

/// Computes the upper halves of the products of 32-bit lanes.
fn multiply_high(v: &mut Values<'_>, signed: bool, to: u8, a: u8, b: u8) {
    let op = if signed { MUL_SDQ } else { MUL_UDQ };
    v.shift(SHIFT_Q, RIGHT, S, a, 32);
    v.shift(SHIFT_Q, RIGHT, T, b, 32);
    v.vector(op, S, S, T);
    v.vector(op, T, a, b);
    v.shift(SHIFT_Q, RIGHT, T, T, 32);
    v.vector_with(BLEND_D, to, T, S, 0xaa);
}

fn tri32(v: &mut Values<'_>, f: Tri, d: Slot, abc: [Slot; 3]) -> Option<()> {
    let [a, b, c] = abc.map(|slot| v.word(slot));
    let r = v.register();
    match f {
        Tri::Mad => v.vector(MUL_D, r, a, b),
        Tri::MadHighS | Tri::MadHighU => multiply_high(v, f == Tri::MadHighS, r, a, b),
        Tri::SadS | Tri::SadU => {
            let [max, min] = match f {
                Tri::SadS => [MAX_SD, MIN_SD],
                _ => [MAX_UD, MIN_UD],
            };
            v.vector(max, r, a, b);
            v.vector(min, S, a, b);
            v.vector(SUB_D, r, r, S);
        }
    }
    v.vector(ADD_D, r, r, c);
    v.set_word(d, r)
}

fn word3(v: &mut Values<'_>, f: Word3, d: Slot, abc: [Slot; 3]) -> Option<()> {
    use Word3::{BfeS, BfeU, ShiftLeftClamp, ShiftLeftWrap, ShiftRightClamp, ShiftRightWrap};
    if !matches!(
        f,
        BfeS | BfeU | ShiftLeftClamp | ShiftLeftWrap | ShiftRightClamp | ShiftRightWrap
    ) {
        return None;
    }
    let [a, b, c] = abc.map(|slot| v.word(slot));
    let r = v.register();
    let (low_byte, width) = (v.splat(0xff), v.splat(32));
    match f {
        BfeU => {
            v.vector(AND, S, b, low_byte);
            v.vector(SHR_D, r, a, S);
            // Clears the bits from the length on.
            v.vector(AND, S, c, low_byte);
            v.vector(EQUAL_D, T, T, T);
            v.vector(SHL_D, T, T, S);
            v.vector(ANDN, r, T, r);
        }
        BfeS => {
            v.vector(AND, S, b, low_byte);
            v.vector(SAR_D, r, a, S);
            // Moves the field's sign to the top and back.
            v.vector(AND, S, c, low_byte);
            v.vector(MIN_UD, S, S, width);
            v.vector(LOAD, T, 0, width);
            v.vector(SUB_D, S, T, S);
            v.vector(SHL_D, r, r, S);
            v.vector(SAR_D, r, r, S);
        }
        _ => {
            if matches!(f, ShiftLeftWrap | ShiftRightWrap) {
                let low_bits = v.splat(31);
                v.vector(AND, S, c, low_bits);
            } else {
                v.vector(MIN_UD, S, c, width);
            }
            v.vector(LOAD, T, 0, width);
            v.vector(SUB_D, T, T, S);
            let (left, right) = if matches!(f, ShiftLeftClamp | ShiftLeftWrap) {
                (S, T)
            } else {
                (T, S)
            };
            v.vector(SHL_D, left, b, left);
            v.vector(SHR_D, right, a, right);
            v.vector(OR, r, S, T);
        }
    }
    v.set_word(d, r)
}

/// Emits a function of two registers by its truth table: its result for the bits b, c is bit
/// `2b + c`.
fn logic(v: &mut Values<'_>, table: u8, to: u8, b: u8, c: u8) {
    match table {
        0 => v.vector(XOR, to, to, to),
        1 => v.vector(OR, to, b, c),
        2 | 13 => v.vector(ANDN, to, b, c),
        3 | 12 => v.copy(to, b),
        4 | 11 => v.vector(ANDN, to, c, b),
        5 | 10 => v.copy(to, c),
        6 | 9 => v.vector(XOR, to, b, c),
        7 | 8 => v.vector(AND, to, b, c),
        14 => v.vector(OR, to, b, c),
        _ => v.vector(EQUAL_D, to, to, to),
    }
    if matches!(table, 1 | 3 | 5 | 7 | 9 | 11 | 13) {
        v.invert(to);
    }
}

fn lop3(v: &mut Values<'_>, table: u8, d: Slot, abc: [Slot; 3]) -> Option<()> {
    let [a, b, c] = abc.map(|slot| v.word(slot));
    let r = v.register();
    let (low, high) = (table & 15, table >> 4);
    // Where `a` is set, the result is `high`: `low ^ (a & (low ^ high))`.
    logic(v, low ^ high, S, b, c);
    v.vector(AND, S, S, a);
    logic(v, low, r, b, c);
    v.vector(XOR, r, r, S);
    v.set_word(d, r)
}

/// Permutes bytes by a constant selector without signs.
fn prmt(v: &mut Values<'_>, mode: Prmt, d: Slot, [a, b, c]: [Slot; 3]) -> Option<()> {
    let selector = v.constant_word(c)?;
    if mode != Prmt::Index || selector & 0x8888 != 0 {
        return None;
    }
    let (a, b) = (v.word(a), v.word(b));
    let r = v.register();
    for (to, from, first) in [(S, a, 0), (r, b, 4)] {
        let lanes = std::array::from_fn(|lane| {
            let in_lane = 4 * (lane as u32 % 4);
            (0..4).fold(0, |bytes, at| {
                let pick = selector >> (4 * at) & 7;
                let byte = if pick & 4 == first {
                    in_lane + (pick & 3)
                } else {
                    0x80
                };
                bytes | byte << (8 * at)
            })
        });
        let control = v.assembler.constant(lanes);
        v.vector(SHUFFLE_B, to, from, control);
    }
    v.vector(OR, r, r, S);
    v.set_word(d, r)
}

fn cmp32(v: &mut Values<'_>, f: Compare, d: Slot, a: Slot, b: Slot) -> Option<()> {
    let (a, b) = (v.word(a), v.word(b));
    let r = v.register();
    match f {
        Compare::Eq | Compare::Ne => v.vector(EQUAL_D, r, a, b),
        Compare::LtS => v.vector(GREATER_D, r, b, a),
        Compare::LeS => v.vector(GREATER_D, r, a, b),
        Compare::LtU => {
            v.vector(MAX_UD, r, a, b);
            v.vector(EQUAL_D, r, r, a);
        }
        Compare::LeU => {
            v.vector(MIN_UD, r, a, b);
            v.vector(EQUAL_D, r, r, a);
        }
    }
    if matches!(f, Compare::Ne | Compare::LeS | Compare::LtU) {
        v.invert(r);
    }
    v.set_predicate(d, r)
}

fn pred(v: &mut Values<'_>, f: PredOp, d: Slot, a: Slot, b: Slot) -> Option<()> {
    let (a, b) = (v.predicate(a), v.predicate(b));
    let r = v.register();
    let table = match f {
        PredOp::Move => 12,
        PredOp::Not => 3,
        PredOp::And => 8,
        PredOp::Or => 14,
        PredOp::Xor => 6,
        PredOp::NotAnd => 2,
        PredOp::NotOr => 11,
        PredOp::NotXor => 9,
    };
    logic(v, table, r, a, b);
    v.set_predicate(d, r)
}
