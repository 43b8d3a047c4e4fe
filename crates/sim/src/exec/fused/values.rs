//! The values of a fused block in vector registers: eight lanes of each PTX register.
//!
//! A PTX register is loaded from the warp's register file when it is first read, and stored when
//! the block ends, unless no other code reads it. If all vector registers are in use, the value
//! that is read last of all is stored early. A 32-bit register takes one vector register, a 64-bit
//! one two, a predicate one with all bits of a lane set or cleared.

use super::assembler::{
    AND, Assembler, BLEND_PS, BROADCAST_B, COMPARE_PS, EQUAL_D, LOAD, MASK_PS, MOVE, Opcode,
    Operand, R11, RDI, RDX, RSI, SIGN_EXTEND, STORE, UPPER_HALF,
};
use super::live::{LiveRegisters, register_reads, register_result};
use super::rare::Rare;
use crate::exec::float_bits::NAN_32;
use crate::ptx::ir::{Code, GUARD_NEGATED, InitialValue, Instr, NO_GUARD, RegisterClass, Slot};

/// The number of vector registers that hold values; the others are scratch registers and masks.
const VALUE_REGISTERS: u8 = 11;

/// Scratch registers of a single operation.
pub(super) const SCRATCH: [u8; 2] = [11, 12];

/// In code for partial masks, the inactive lanes: of the 32-bit values, and of each half of the
/// 64-bit values.
pub(super) const INACTIVE: u8 = 15;
pub(super) const INACTIVE_HALVES: [u8; 2] = [14, 13];

/// The general registers that collect predicates: rbx, r12, r13 and r14. A predicate that were
/// stored for eight lanes at a time could not be loaded as a whole soon after.
pub(super) const COLLECTORS: [u8; 4] = [3, 12, 13, 14];

/// The digits that select the operation of a shift by an immediate.
pub(super) const LEFT: u8 = 6;
pub(super) const RIGHT: u8 = 2;
pub(super) const RIGHT_SIGNED: u8 = 4;

/// The bit of each lane, as a constant.
pub(super) const LANE_BITS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// The properties of the float in a 32-bit register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloatState {
    /// True if a NaN may have a payload: it must be made canonical before its bits are used.
    pub(super) raw: bool,
    /// True if it is never subnormal.
    pub(super) flushed: bool,
}

/// A PTX register that is in vector registers.
#[derive(Clone, Copy, Debug)]
struct Value {
    class: RegisterClass,
    slot: Slot,
    /// The vector registers; both are the same unless the value has 64 bits.
    registers: [u8; 2],
    /// True if the register file does not have the value yet.
    dirty: bool,
    float: FloatState,
}

/// The next event in the block that concerns a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NextUse {
    Read(usize),
    End,
    Overwritten,
}

/// The state of code generation in a block.
pub(super) struct Values<'c> {
    pub(super) assembler: &'c mut Assembler,
    pub(super) code: &'c Code,
    instrs: &'c [Instr],
    live: &'c LiveRegisters,
    /// True in code for partial masks.
    pub(super) masked: bool,
    /// The index of the operation in the block.
    at: usize,
    values: Vec<Value>,
    /// The vector registers that the operation uses, one bit each.
    pinned: u16,
    /// The jumps to code for rare operands, which follows the function.
    pub(super) rare: Vec<Rare>,
    /// The predicates that the function collects in general registers: see [`COLLECTORS`].
    collected: &'c [Slot],
    /// The number of accesses to global memory so far.
    pub(super) accesses: i32,
    /// In code that must not store anything: whether it would have to.
    pub(super) refused: Option<bool>,
}

impl<'c> Values<'c> {
    pub(super) fn new(
        assembler: &'c mut Assembler,
        code: &'c Code,
        instrs: &'c [Instr],
        live: &'c LiveRegisters,
        collected: &'c [Slot],
        masked: bool,
    ) -> Self {
        Self {
            assembler,
            code,
            instrs,
            live,
            masked,
            at: 0,
            values: Vec::new(),
            pinned: 0,
            rare: Vec::new(),
            collected,
            accesses: 0,
            refused: None,
        }
    }

    /// Begins the operation with this index.
    pub(super) fn begin(&mut self, at: usize) {
        self.at = at;
        self.pinned = 0;
    }

    pub(super) fn vector(&mut self, op: Opcode, reg: u8, second: u8, last: impl Into<Operand>) {
        self.assembler.vector(op, reg, second, last);
    }

    pub(super) fn vector_with(
        &mut self,
        op: Opcode,
        reg: u8,
        second: u8,
        last: impl Into<Operand>,
        immediate: u8,
    ) {
        self.assembler.vector_with(op, reg, second, last, immediate);
    }

    /// Returns a constant with `bits` in each 32-bit lane.
    pub(super) fn splat(&mut self, bits: u32) -> Operand {
        self.assembler.constant([bits; 8])
    }

    /// Returns a constant with `bits` in each 64-bit lane.
    pub(super) fn splat_double(&mut self, bits: u64) -> Operand {
        let halves = [bits as u32, (bits >> 32) as u32];
        self.assembler
            .constant(std::array::from_fn(|lane| halves[lane % 2]))
    }

    /// Returns a vector register for the operation.
    pub(super) fn register(&mut self) -> u8 {
        let used = self.values.iter().fold(self.pinned, |used, value| {
            used | 1 << value.registers[0] | 1 << value.registers[1]
        });
        let free = (0..VALUE_REGISTERS).find(|register| used >> register & 1 == 0);
        let register = free.unwrap_or_else(|| self.evict());
        self.pinned |= 1 << register;
        register
    }

    /// Frees the registers of the value that is needed last, and returns one of them.
    fn evict(&mut self) -> u8 {
        let pinned = self.pinned;
        let is_free =
            |value: &Value| (1 << value.registers[0] | 1 << value.registers[1]) & pinned == 0;
        let candidates = self.values.iter().enumerate();
        let last = candidates
            .filter(|(_, value)| is_free(value))
            .map(|(index, value)| (self.next_use(value.class, value.slot), index))
            .max();
        let (_, index) = last.expect("an operation uses at most all vector registers");
        self.store(index);
        self.values.swap_remove(index).registers[0]
    }

    /// Returns the next use of a register, from the current operation on.
    fn next_use(&self, class: RegisterClass, slot: Slot) -> NextUse {
        for (at, instr) in self.instrs.iter().enumerate().skip(self.at) {
            let mut reads = false;
            register_reads(self.code, instr, &mut |read_class, read| {
                reads |= (read_class, read) == (class, slot);
            });
            let writes = register_result(self.code, instr.op) == Some((class, slot));
            // A guarded write keeps the lanes without the guard.
            if reads || writes && instr.guard != NO_GUARD {
                return NextUse::Read(at);
            }
            if writes {
                return NextUse::Overwritten;
            }
        }
        NextUse::End
    }

    /// Stores a value if its register is needed later.
    fn store(&mut self, index: usize) {
        let value = self.values[index];
        let needed = match self.next_use(value.class, value.slot) {
            NextUse::Read(_) => true,
            NextUse::End => self.refused.is_none() && self.live.has(value.class, value.slot),
            NextUse::Overwritten => false,
        };
        if !value.dirty || !needed {
            return;
        }
        if self.refused.is_some() {
            self.refused = Some(true);
            return;
        }
        self.canonicalise(index);
        self.values[index].dirty = false;
        let memory = place(value.class, value.slot);
        match value.class {
            RegisterClass::Word => self.store_vector(value.registers[0], INACTIVE, memory[0]),
            RegisterClass::Double => {
                for half in 0..2 {
                    self.store_vector(value.registers[half], INACTIVE_HALVES[half], memory[half]);
                }
            }
            RegisterClass::Predicate => {
                self.vector(MASK_PS, R11, 0, value.registers[0]);
                let at = (value.slot * 4).cast_signed();
                if self.masked {
                    // Replaces the bits of the chunk's mask, which r10 has.
                    self.assembler.raw_with(&[0x44, 0x32, 0x9a], at); // xor r11b, [rdx+at]
                    self.assembler.raw(&[0x45, 0x21, 0xd3]); // and r11d, r10d
                    self.assembler.raw_with(&[0x44, 0x30, 0x9a], at); // xor [rdx+at], r11b
                } else {
                    self.assembler.raw_with(&[0x44, 0x88, 0x9a], at); // mov [rdx+at], r11b
                }
            }
        }
    }

    fn store_vector(&mut self, register: u8, inactive: u8, memory: Operand) {
        if self.masked {
            self.vector_with(BLEND_PS, register, register, memory, inactive << 4);
        }
        self.vector(STORE, register, 0, memory);
    }

    /// Stores all values that are needed behind the block.
    pub(super) fn finish(&mut self) {
        self.at = self.instrs.len();
        for (slot, collector) in self.collected.iter().zip(COLLECTORS) {
            let is_it = |value: &Value| {
                (value.class, value.slot) == (RegisterClass::Predicate, *slot) && value.dirty
            };
            if let Some(index) = self.values.iter().position(is_it) {
                self.values[index].dirty = false;
                self.vector(MASK_PS, R11, 0, self.values[index].registers[0]);
            } else {
                // movzx r11d, byte [rdx+…]
                let at = (slot * 4).cast_signed();
                self.assembler.raw_with(&[0x44, 0x0f, 0xb6, 0x9a], at);
            }
            self.assembler.raw(&[0x41, 0xc1, 0xe3, 24]); // shl r11d, 24
            let rex = 0x44 | u8::from(collector > 7);
            self.assembler.raw(&[rex, 0x09, 0xd8 | collector & 7]); // or collector, r11d
        }
        for index in 0..self.values.len() {
            self.store(index);
        }
    }

    /// Returns the index of a register's value, loaded if necessary.
    fn find(&mut self, class: RegisterClass, slot: Slot) -> usize {
        let is_it = |value: &Value| (value.class, value.slot) == (class, slot);
        if let Some(index) = self.values.iter().position(is_it) {
            let registers = self.values[index].registers;
            self.pinned |= 1 << registers[0] | 1 << registers[1];
            return index;
        }
        let memory = place(class, slot);
        let first = self.register();
        let mut registers = [first; 2];
        match class {
            RegisterClass::Word => self.vector(LOAD, first, 0, memory[0]),
            RegisterClass::Double => {
                registers[1] = self.register();
                for half in 0..2 {
                    self.vector(LOAD, registers[half], 0, memory[half]);
                }
            }
            RegisterClass::Predicate => self.expand(first, memory[0]),
        }
        self.values.push(Value {
            class,
            slot,
            registers,
            dirty: false,
            float: FloatState::default(),
        });
        self.values.len() - 1
    }

    /// Sets each lane of a register to its bit of a byte.
    pub(super) fn expand(&mut self, register: u8, byte: impl Into<Operand>) {
        let bits = self.assembler.constant(LANE_BITS);
        self.vector(BROADCAST_B, register, 0, byte);
        self.vector(AND, register, register, bits);
        self.vector(EQUAL_D, register, register, bits);
    }

    /// Makes the NaNs of a 32-bit value canonical.
    fn canonicalise(&mut self, index: usize) {
        if std::mem::take(&mut self.values[index].float.raw) {
            let register = self.values[index].registers[0];
            self.canonical(register);
        }
    }

    /// Replaces the NaNs of a register by the canonical one.
    pub(super) fn canonical(&mut self, register: u8) {
        let nan = self.splat(NAN_32);
        self.vector_with(COMPARE_PS, SCRATCH[0], register, register, 3);
        self.vector_with(BLEND_PS, register, register, nan, SCRATCH[0] << 4);
    }

    /// Returns the bits of a 32-bit register.
    pub(super) fn word(&mut self, slot: Slot) -> u8 {
        let index = self.find(RegisterClass::Word, slot);
        self.canonicalise(index);
        self.values[index].registers[0]
    }

    /// Returns a 32-bit register as a float, whose NaNs may not be canonical.
    pub(super) fn float(&mut self, slot: Slot) -> (u8, FloatState) {
        let index = self.find(RegisterClass::Word, slot);
        (self.values[index].registers[0], self.values[index].float)
    }

    pub(super) fn double(&mut self, slot: Slot) -> [u8; 2] {
        let index = self.find(RegisterClass::Double, slot);
        self.values[index].registers
    }

    pub(super) fn predicate(&mut self, slot: Slot) -> u8 {
        let index = self.find(RegisterClass::Predicate, slot);
        self.values[index].registers[0]
    }

    /// Returns a new pair of registers for a 64-bit result.
    pub(super) fn register_pair(&mut self) -> [u8; 2] {
        [self.register(), self.register()]
    }

    /// Sets the result of the operation, in the lanes of its guard.
    pub(super) fn set(
        &mut self,
        class: RegisterClass,
        slot: Slot,
        registers: [u8; 2],
        mut float: FloatState,
    ) -> Option<()> {
        let guard = self.instrs[self.at].guard;
        if guard != NO_GUARD {
            if std::mem::take(&mut float.raw) {
                self.canonical(registers[0]);
            }
            float.flushed = false;
            // The operands are not needed any more.
            self.pinned = 1 << registers[0] | 1 << registers[1];
            let index = self.find(class, slot);
            self.canonicalise(index);
            let old = self.values[index].registers;
            let predicate = self.predicate(guard & !GUARD_NEGATED);
            let masks = match class {
                RegisterClass::Double => {
                    self.widen_mask(predicate);
                    SCRATCH
                }
                _ => [predicate; 2],
            };
            let halves = if class == RegisterClass::Double { 2 } else { 1 };
            for half in 0..halves {
                let (new, old) = (registers[half], old[half]);
                let (clear, set) = if guard & GUARD_NEGATED == 0 {
                    (old, new)
                } else {
                    (new, old)
                };
                self.vector_with(BLEND_PS, new, clear, set, masks[half] << 4);
            }
        }
        self.values
            .retain(|value| (value.class, value.slot) != (class, slot));
        self.values.push(Value {
            class,
            slot,
            registers,
            dirty: true,
            float,
        });
        Some(())
    }

    /// Returns the value of a register that always has the same one in all lanes.
    pub(super) fn constant_word(&self, slot: Slot) -> Option<u32> {
        let value = constant(&self.code.initial_words, slot)?;
        self.live
            .is_constant(RegisterClass::Word, slot)
            .then_some(value as u32)
    }

    pub(super) fn constant_double(&self, slot: Slot) -> Option<u64> {
        let value = constant(&self.code.initial_doubles, slot)?;
        self.live
            .is_constant(RegisterClass::Double, slot)
            .then_some(value)
    }

    /// Writes a mask of 32-bit lanes to the scratch registers, as masks of 64-bit lanes.
    pub(super) fn widen_mask(&mut self, mask: u8) {
        self.vector(SIGN_EXTEND, SCRATCH[0], 0, mask);
        self.vector_with(UPPER_HALF, mask, 0, SCRATCH[1], 1);
        self.vector(SIGN_EXTEND, SCRATCH[1], 0, SCRATCH[1]);
    }

    /// Adds the number of active lanes in which a predicate holds to the function's result.
    pub(super) fn count_guard(&mut self, slot: Slot, negated: bool) {
        let predicate = self.predicate(slot);
        self.vector(MASK_PS, R11, 0, predicate);
        if negated {
            self.assembler.raw_with(&[0x41, 0x81, 0xf3], 0xff); // xor r11d, 0xff
        }
        self.assembler.raw(&[0x45, 0x21, 0xd3]); // and r11d, r10d
        self.assembler.raw(&[0xf3, 0x45, 0x0f, 0xb8, 0xdb]); // popcnt r11d, r11d
        self.assembler.raw(&[0x44, 0x01, 0xd8]); // add eax, r11d
    }

    /// Copies a register.
    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.vector(MOVE, to, 0, from);
    }
}

/// Returns the initial value of a slot, if it is a constant.
fn constant(initial: &[(Slot, InitialValue)], slot: Slot) -> Option<u64> {
    initial.iter().find_map(|(of, value)| match value {
        InitialValue::Constant(bits) if *of == slot => Some(*bits),
        _ => None,
    })
}

/// Returns the memory of a register's lanes in the chunk: the second half of a 64-bit register is
/// behind the first.
fn place(class: RegisterClass, slot: Slot) -> [Operand; 2] {
    let at = slot.cast_signed();
    match class {
        RegisterClass::Word => [Operand::Memory(RDI, at * 128); 2],
        RegisterClass::Double => [0, 32].map(|half| Operand::Memory(RSI, at * 256 + half)),
        RegisterClass::Predicate => [Operand::Memory(RDX, at * 4); 2],
    }
}
