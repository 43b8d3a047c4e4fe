//! Fused blocks: straight-line runs of a kernel's operations, executed by machine code.
//!
//! The interpreter spends most of its time between operations: it finds each one, loads its
//! operands from the warp's register file and stores the result there. A *fused block* is a run of
//! operations on registers, and of loads from shared memory, that no branch leads into. One
//! function executes it for eight lanes at a time, with the values in vector registers, under the
//! mask of active lanes. A *stream* is a block that also accesses global memory. Everything else
//! stays in the interpreter loop: control flow, other accesses to global memory, barriers,
//! exchanges and atomics. Therefore faults, counters, schedules and what is recorded are the same,
//! and a block can always be interpreted instead: if its accesses may be out of bounds, or if
//! another part of the warp waits inside it.
//!
//! `blocks` divides a kernel into blocks, `streams` finds those that access global memory, `live`
//! the registers that must be stored, `loads` the loads from shared memory. `values` keeps values
//! in vector registers; `emit`, `wide` and `float` have the vector code of each operation, `rare`
//! what it leaves to the interpreter's arithmetic. `assembler` encodes instructions, and `call`
//! calls the functions.
//!
//! A kernel is translated once it has executed [`INTERPRETED_MIN`] warp instructions, and its code
//! is kept for as long as its module. Observed warps are always interpreted.

#[cfg(target_arch = "x86_64")]
mod assembler;
#[cfg(target_arch = "x86_64")]
mod blocks;
#[cfg(target_arch = "x86_64")]
mod call;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod float;
#[cfg(target_arch = "x86_64")]
mod live;
#[cfg(target_arch = "x86_64")]
mod loads;
#[cfg(target_arch = "x86_64")]
mod rare;
#[cfg(target_arch = "x86_64")]
mod streams;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod values;
#[cfg(target_arch = "x86_64")]
mod wide;

use std::sync::atomic::Ordering::Relaxed;

#[cfg(target_arch = "x86_64")]
pub(super) use call::run;

use super::jit::Jit;
use crate::ptx::ir::{Code, FusedCode};

/// Executes nothing, and says so: there is no machine code for the processor.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn run(
    _: &FusedCode,
    _: u32,
    _: &mut super::registers::Registers,
    _: &mut super::warp_context::WarpContext<'_, '_>,
    _: u32,
    _: u32,
) -> Option<u32> {
    None
}

/// The number of warp instructions that are interpreted before a kernel is translated, which takes
/// about as long.
const INTERPRETED_MIN: u64 = 1 << 15;

/// Returns the machine code of a kernel, if it is to be executed now.
#[inline]
pub(super) fn code(code: &Code, jit: Jit) -> Option<&FusedCode> {
    let is_due = match jit {
        Jit::Off => false,
        Jit::On => code.fusion.interpreted.load(Relaxed) >= INTERPRETED_MIN,
        Jit::AtOnce => true,
    };
    if is_due {
        code.fusion.code.get_or_init(|| translate(code)).as_ref()
    } else {
        None
    }
}

/// Counts warp instructions that were interpreted, if a kernel may be translated later.
#[inline]
pub(super) fn count(code: &Code, jit: Jit, warp_instructions: u64) {
    if jit == Jit::On {
        code.fusion
            .interpreted
            .fetch_add(warp_instructions, Relaxed);
    }
}

#[cold]
fn translate(code: &Code) -> Option<FusedCode> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("popcnt")
    {
        return blocks::fuse(code).unwrap_or_else(|error| {
            refused(&error);
            None
        });
    }
    let _ = code;
    None
}

/// Says once that memory cannot be made executable.
#[cfg(target_arch = "x86_64")]
fn refused(error: &std::io::Error) {
    use std::io::Write;
    static SAID: std::sync::Once = std::sync::Once::new();
    SAID.call_once(|| {
        // Without a usable standard error the message is lost.
        let _ = writeln!(
            std::io::stderr(),
            "millstream: kernels are interpreted, which is slower: the system refuses memory for \
             machine code ({error}); `jit=off` omits this message"
        );
    });
}
