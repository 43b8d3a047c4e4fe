//! Rare operands of a fused block: results that machine code finds to need the interpreter's exact
//! arithmetic, lane by lane.

use super::assembler::{Assembler, Condition, Jump, LOAD, Operand, RDI, RSP, STORE};
use crate::exec::float_bits::nan_double;
use crate::exec::rounding::{self, ArithmeticOp};
use crate::ptx::ir::FloatMode;

/// The bits of the smallest normal single.
pub(super) const NORMAL_MIN: u32 = 0x0080_0000;

/// The vector registers, as the machine code hands them over.
type Frame = [[u32; 8]; 16];

const FRAME_BYTES: i32 = 512;

/// A correction of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Correction {
    /// Flushes single-precision results that were rounded up to the smallest normal number.
    FlushMul,
    FlushDiv,
    FlushFma,
    /// Chooses the NaN among the operands that a double-precision operation returns.
    NanSub,
    NanFma,
}

const CORRECTIONS: [Correction; 5] = [
    Correction::FlushMul,
    Correction::FlushDiv,
    Correction::FlushFma,
    Correction::NanSub,
    Correction::NanFma,
];

/// A jump to the correction of results, each with the vector registers of the result and the
/// operands.
pub(super) struct Rare {
    pub(super) jump: Jump,
    /// The position behind the jump, where the code continues.
    pub(super) back: usize,
    pub(super) correction: Correction,
    pub(super) results: Vec<[u8; 4]>,
}

impl Rare {
    /// Emits the calls of [`correct`], which keep all other registers.
    ///
    /// `pushed` is the number of registers that the function has on the stack.
    pub(super) fn emit(&self, assembler: &mut Assembler, pushed: usize) {
        assembler.land(&self.jump);
        // The stack of the callee begins at a multiple of 16 bytes, behind the return address.
        let frame = FRAME_BYTES + if pushed.is_multiple_of(2) { 8 } else { 0 };
        // push rax, rcx, rdx, rsi, rdi, r8, r9, r10
        assembler.raw(&[
            0x50, 0x51, 0x52, 0x56, 0x57, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52,
        ]);
        assembler.raw_with(&[0x48, 0x81, 0xec], frame); // sub rsp, …
        for register in 0..16 {
            assembler.vector(
                STORE,
                register,
                0,
                Operand::Memory(RSP, i32::from(register) * 32),
            );
        }
        assembler.raw(&[0xc5, 0xf8, 0x77]); // vzeroupper
        for registers in &self.results {
            let packed = registers
                .iter()
                .rev()
                .fold(self.correction as i32, |all, register| {
                    all << 4 | i32::from(*register)
                });
            assembler.raw(&[0x48, 0x89, 0xe7]); // mov rdi, rsp
            assembler.raw_with(&[0xbe], packed); // mov esi, …
            let function: extern "sysv64" fn(&mut Frame, u32) = correct;
            assembler.raw(&[0x48, 0xb8]); // mov rax, …
            assembler.raw(&(function as usize as u64).to_le_bytes());
            assembler.raw(&[0xff, 0xd0]); // call rax
        }
        assembler.raw(&[0x48, 0x89, 0xe7]); // mov rdi, rsp
        for register in 0..16 {
            assembler.vector(
                LOAD,
                register,
                0,
                Operand::Memory(RDI, i32::from(register) * 32),
            );
        }
        assembler.raw_with(&[0x48, 0x81, 0xc4], frame); // add rsp, …
        assembler.raw(&[
            0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x5f, 0x5e, 0x5a, 0x59, 0x58,
        ]);
        let back = assembler.jump(Condition::Always);
        assembler.set_target(&back, self.back);
    }
}

/// Corrects the lanes of a result that need it. `packed` has the registers of the result and the
/// operands, four bits each, and the correction above.
extern "sysv64" fn correct(frame: &mut Frame, packed: u32) {
    let register = |index: u32| (packed >> (4 * index) & 15) as usize;
    let [d, a, b, c] = [0, 1, 2, 3].map(register);
    let [x, y, z] = [a, b, c].map(|operand| frame[operand]);
    let result = &mut frame[d];
    let correction = CORRECTIONS[(packed >> 16) as usize % CORRECTIONS.len()];
    let operation = match correction {
        Correction::FlushMul => ArithmeticOp::Mul,
        Correction::FlushDiv => ArithmeticOp::Div,
        Correction::FlushFma => ArithmeticOp::Fma,
        Correction::NanSub | Correction::NanFma => {
            for lane in [0, 2, 4, 6] {
                let double =
                    |halves: [u32; 8]| u64::from(halves[lane]) | u64::from(halves[lane + 1]) << 32;
                let (x, y, z) = (double(x), double(y), double(z));
                let nan = match correction {
                    Correction::NanSub => nan_double([y, x, x]),
                    _ => nan_double([y, z, x]),
                };
                if let Some(nan) = nan {
                    result[lane] = nan as u32;
                    result[lane + 1] = (nan >> 32) as u32;
                }
            }
            return;
        }
    };
    for lane in 0..8 {
        if result[lane] & 0x7fff_ffff == NORMAL_MIN {
            let operands = [x[lane], y[lane], z[lane]];
            result[lane] = rounding::single(operation, operands, FloatMode::nearest(true));
        }
    }
}
