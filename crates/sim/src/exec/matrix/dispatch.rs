//! Dispatch to the build of operations on matrices that fits the processor.
#![allow(unsafe_code, reason = "calls code for optional processor features")]

use super::execute;
#[cfg(target_arch = "x86_64")]
use crate::exec::processor::has_vectors;
use crate::exec::registers::Registers;
use crate::ptx::ir::MatrixOp;

/// Executes an operation in the lanes of `mask`. The values of other lanes count as operands.
pub(in crate::exec) fn run(r: &mut Registers, op: &MatrixOp, mask: u32) {
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        // SAFETY: the processor has all the features that `run_avx2` is compiled for.
        return unsafe { run_avx2(r, op, mask) };
    }
    execute(r, op, mask);
}

/// The operations compiled for 256-bit vectors and fused multiply-add.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2(r: &mut Registers, op: &MatrixOp, mask: u32) {
    execute(r, op, mask);
}
