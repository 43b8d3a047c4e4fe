//! An assembler for the instructions of fused blocks: AVX2 and FMA, and the few scalar instructions
//! around them.
//!
//! Vector instructions have the three-byte VEX prefix (Intel's manual, volume 2, section 2.3).
//! Memory operands have a base register and a 32-bit displacement. Constants of 32 bytes follow the
//! code and are addressed relative to the instruction.

/// A general register, by its number.
pub(super) const RCX: u8 = 1;
pub(super) const RDX: u8 = 2;
pub(super) const RSP: u8 = 4;
pub(super) const RSI: u8 = 6;
pub(super) const RDI: u8 = 7;
pub(super) const R8: u8 = 8;
pub(super) const R11: u8 = 11;

/// The last operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// A vector register, or a general register in the instructions that take one.
    Register(u8),
    /// Memory at a base register plus a displacement.
    Memory(u8, i32),
    /// A constant of the function, by its number.
    Constant(usize),
}

impl From<u8> for Operand {
    fn from(register: u8) -> Self {
        Self::Register(register)
    }
}

/// A vector instruction: its opcode, mandatory prefix, opcode map, bit W and vector length.
#[derive(Clone, Copy)]
pub(super) struct Opcode {
    byte: u8,
    prefix: u8,
    map: u8,
    w: bool,
    xmm: bool,
}

impl Opcode {
    const fn new(prefix: u8, map: u8, byte: u8) -> Self {
        Self {
            byte,
            prefix,
            map,
            w: false,
            xmm: false,
        }
    }

    const fn wide(self) -> Self {
        Self { w: true, ..self }
    }

    const fn xmm(self) -> Self {
        Self { xmm: true, ..self }
    }
}

/// Declares vector instructions: the mandatory prefix (0: none, 1: 66, 2: F3, 3: F2), the opcode
/// map (1: 0F, 2: 0F38, 3: 0F3A) and the opcode.
macro_rules! opcodes {
    ($($name:ident = $prefix:literal $map:literal $byte:literal $($form:ident)?;)*) => {
        $(pub(super) const $name: Opcode = Opcode::new($prefix, $map, $byte)$(.$form())?;)*
    };
}

opcodes! {
    LOAD = 0 1 0x10;
    STORE = 0 1 0x11;
    STORE_HALF = 0 1 0x11 xmm;
    STORE_Q = 1 1 0xd6 xmm;
    STORE_MASKED = 1 2 0x2e;
    MOVE = 0 1 0x28;
    ADD_PS = 0 1 0x58;
    MUL_PS = 0 1 0x59;
    SUB_PS = 0 1 0x5c;
    MIN_PS = 0 1 0x5d;
    DIV_PS = 0 1 0x5e;
    MAX_PS = 0 1 0x5f;
    SQRT_PS = 0 1 0x51;
    ADD_PD = 1 1 0x58;
    MUL_PD = 1 1 0x59;
    SUB_PD = 1 1 0x5c;
    DIV_PD = 1 1 0x5e;
    SQRT_PD = 1 1 0x51;
    COMPARE_PS = 0 1 0xc2;
    COMPARE_PD = 1 1 0xc2;
    BLEND_PS = 1 3 0x4a;
    BLEND_PD = 1 3 0x4b;
    ROUND_PS = 1 3 0x08;
    FMA_PS = 1 2 0xb8;
    FMA_PD = 1 2 0xb8 wide;
    DWORD_TO_PS = 0 1 0x5b;
    PS_TO_DWORD = 2 1 0x5b;
    DWORD_TO_PD = 2 1 0xe6;
    PS_TO_PD = 0 1 0x5a;
    PD_TO_PS = 1 1 0x5a;
    AND = 1 1 0xdb;
    ANDN = 1 1 0xdf;
    OR = 1 1 0xeb;
    XOR = 1 1 0xef;
    ADD_D = 1 1 0xfe;
    ADD_Q = 1 1 0xd4;
    SUB_D = 1 1 0xfa;
    SUB_Q = 1 1 0xfb;
    ABS_D = 1 2 0x1e;
    MUL_D = 1 2 0x40;
    MUL_UDQ = 1 1 0xf4;
    MUL_SDQ = 1 2 0x28;
    EQUAL_D = 1 1 0x76;
    GREATER_D = 1 1 0x66;
    EQUAL_Q = 1 2 0x29;
    GREATER_Q = 1 2 0x37;
    MIN_SD = 1 2 0x39;
    MIN_UD = 1 2 0x3b;
    MAX_SD = 1 2 0x3d;
    MAX_UD = 1 2 0x3f;
    SHL_D = 1 2 0x47;
    SHR_D = 1 2 0x45;
    SAR_D = 1 2 0x46;
    SHL_Q = 1 2 0x47 wide;
    SHR_Q = 1 2 0x45 wide;
    SHIFT_D = 1 1 0x72;
    SHIFT_Q = 1 1 0x73;
    SHUFFLE_PS = 0 1 0xc6;
    PERMUTE_Q = 1 3 0x00 wide;
    PERMUTE_D = 1 2 0x36;
    ZERO_EXTEND = 1 2 0x35;
    SIGN_EXTEND = 1 2 0x25;
    UNPACK_LOW = 1 1 0x62;
    UNPACK_HIGH = 1 1 0x6a;
    PERMUTE_HALVES = 1 3 0x46;
    BLEND_D = 1 3 0x02;
    SHUFFLE_B = 1 2 0x00;
    UPPER_HALF = 1 3 0x39;
    INSERT_HALF = 1 3 0x38;
    MASK_PS = 0 1 0x50;
    MOVE_D = 1 1 0x6e xmm;
    BROADCAST_B = 1 2 0x78;
    BROADCAST_Q = 1 2 0x59;
    ZERO_EXTEND_B = 1 2 0x31;
    ZERO_EXTEND_W = 1 2 0x33;
    SIGN_EXTEND_B = 1 2 0x21;
    SIGN_EXTEND_W = 1 2 0x23;
    TEST = 1 2 0x17;
}

/// The condition of a jump.
#[derive(Clone, Copy)]
pub(super) enum Condition {
    Always,
    Zero,
    NotZero,
}

/// A jump whose target is not known yet: the position of its displacement.
#[must_use]
pub(super) struct Jump(usize);

/// Machine code, and the constants that it uses.
#[derive(Default)]
pub(super) struct Assembler {
    bytes: Vec<u8>,
    constants: Vec<[u32; 8]>,
    /// The uses of constants: the position of the displacement, the end of the instruction, and the
    /// constant's number.
    uses: Vec<(usize, usize, usize)>,
}

impl Assembler {
    /// Returns the position of the next instruction.
    pub(super) fn here(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a scalar instruction by its bytes.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a scalar instruction that ends with a 32-bit displacement or immediate.
    pub(super) fn raw_with(&mut self, bytes: &[u8], last: i32) {
        self.raw(bytes);
        self.raw(&last.to_le_bytes());
    }

    /// Returns the constant with these eight lanes.
    pub(super) fn constant(&mut self, lanes: [u32; 8]) -> Operand {
        let known = self.constants.iter().position(|known| *known == lanes);
        Operand::Constant(known.unwrap_or_else(|| {
            self.constants.push(lanes);
            self.constants.len() - 1
        }))
    }

    /// Appends `op reg, second, last`. Instructions of two operands ignore `second`.
    pub(super) fn vector(&mut self, op: Opcode, reg: u8, second: u8, last: impl Into<Operand>) {
        self.encode(op, reg, second, last.into(), None);
    }

    /// Appends an instruction with an immediate operand.
    pub(super) fn vector_with(
        &mut self,
        op: Opcode,
        reg: u8,
        second: u8,
        last: impl Into<Operand>,
        immediate: u8,
    ) {
        self.encode(op, reg, second, last.into(), Some(immediate));
    }

    fn encode(&mut self, op: Opcode, reg: u8, second: u8, last: Operand, immediate: Option<u8>) {
        let base = match last {
            Operand::Register(register) | Operand::Memory(register, _) => register,
            Operand::Constant(_) => 0,
        };
        let flag = |set: bool, bit: u8| if set { 1 << bit } else { 0 };
        self.raw(&[
            0xc4,
            // The register's upper bits are inverted; there is never an index register.
            flag(reg < 8, 7) | 0x40 | flag(base < 8, 5) | op.map,
            flag(op.w, 7) | (!second & 15) << 3 | flag(!op.xmm, 2) | op.prefix,
            op.byte,
        ]);
        let reg = (reg & 7) << 3;
        match last {
            Operand::Register(register) => self.raw(&[0xc0 | reg | register & 7]),
            Operand::Memory(RSP, offset) => self.raw_with(&[0x84 | reg, 0x24], offset),
            Operand::Memory(base, offset) => self.raw_with(&[0x80 | reg | base & 7], offset),
            Operand::Constant(number) => {
                let at = self.here() + 1;
                self.raw_with(&[reg | 5], 0);
                let end = self.here() + usize::from(immediate.is_some());
                self.uses.push((at, end, number));
            }
        }
        self.bytes.extend(immediate);
    }

    /// Appends a jump to a later place.
    pub(super) fn jump(&mut self, condition: Condition) -> Jump {
        match condition {
            Condition::Always => self.raw(&[0xe9]),
            Condition::Zero => self.raw(&[0x0f, 0x84]),
            Condition::NotZero => self.raw(&[0x0f, 0x85]),
        }
        let at = self.here();
        self.raw(&[0; 4]);
        Jump(at)
    }

    /// Makes a jump lead to the next instruction.
    pub(super) fn land(&mut self, jump: &Jump) {
        let target = self.here();
        self.set_target(jump, target);
    }

    /// Makes a jump lead to `target`.
    pub(super) fn set_target(&mut self, jump: &Jump, target: usize) {
        self.patch(jump.0, jump.0 + 4, target);
    }

    /// Writes a displacement that is relative to the end of its instruction.
    fn patch(&mut self, at: usize, end: usize, target: usize) {
        let distance = target.cast_signed() - end.cast_signed();
        self.bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
    }

    /// Returns the code, followed by its constants.
    pub(super) fn finish(mut self) -> Vec<u8> {
        while !self.bytes.len().is_multiple_of(32) {
            self.bytes.push(0xcc);
        }
        let start = self.here();
        for (at, end, number) in std::mem::take(&mut self.uses) {
            self.patch(at, end, start + number * 32);
        }
        for lanes in std::mem::take(&mut self.constants) {
            lanes.iter().for_each(|lane| self.raw(&lane.to_le_bytes()));
        }
        self.bytes
    }
}
