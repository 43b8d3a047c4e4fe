//! Fused blocks on processors for which there is no machine code.

use crate::exec::registers::Registers;
use crate::exec::warp_context::Counters;
use crate::ptx::ir::{FusedBlock, FusedCode};

/// Executes nothing, and says so.
pub(crate) fn run(
    _: &FusedCode,
    _: &FusedBlock,
    _: &mut Registers,
    _: &[u8],
    _: u32,
    _: &mut Counters,
) -> bool {
    false
}
