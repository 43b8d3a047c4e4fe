//! Fused blocks on processors for which there is no machine code.

use crate::exec::registers::Registers;
use crate::exec::warp_context::WarpContext;
use crate::ptx::ir::FusedCode;

/// Executes nothing, and says so.
pub(crate) fn run(
    _: &FusedCode,
    _: u32,
    _: &mut Registers,
    _: &mut WarpContext<'_, '_>,
    _: u32,
    _: u32,
) -> Option<u32> {
    None
}
