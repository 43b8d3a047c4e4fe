//! Calls of the functions of fused blocks.
#![allow(
    unsafe_code,
    reason = "calls machine code that this crate has generated"
)]

use super::loads::BASES_MAX;
use crate::exec::registers::Registers;
use crate::exec::warp_context::Counters;
use crate::ptx::ir::{FusedBase, FusedBlock, FusedCode};

/// The number of lanes that a function processes at a time.
const CHUNK: usize = 8;

/// The window of an address register for eight lanes: 32 bytes of shared memory that contain the
/// 32-bit value at each lane's address.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Window {
    /// The index of each lane's value.
    lanes: [u32; CHUNK],
    start: *const u8,
}

/// The function of a block: see [`block`](super::blocks).
type Function = unsafe extern "sysv64" fn(
    words: *mut u32,
    doubles: *mut u64,
    predicates: *mut u32,
    mask: u32,
    windows: *const Window,
) -> u32;

/// Executes a block for the lanes in `mask`. Returns whether it did; else it has done nothing.
#[inline(always)]
pub(crate) fn run(
    code: &FusedCode,
    block: &FusedBlock,
    registers: &mut Registers,
    shared: &[u8],
    mask: u32,
    counters: &mut Counters,
) -> bool {
    if block.bases.is_empty() {
        execute(code, block, registers, &[], mask, counters);
        return true;
    }
    let empty = Window {
        lanes: [0; CHUNK],
        start: shared.as_ptr(),
    };
    let (mut few, mut many);
    let windows: &mut [Window] = if block.bases.len() <= 2 {
        few = [empty; 8];
        &mut few
    } else {
        many = [empty; 4 * BASES_MAX];
        &mut many
    };
    let windows = &mut windows[..4 * block.bases.len()];
    if set_windows(windows, block, registers, shared, mask).is_none() {
        return false;
    }
    execute(code, block, registers, windows, mask, counters);
    true
}

/// Calls the function of a block, whose windows are set for all chunks with active lanes.
#[inline(always)]
fn execute(
    code: &FusedCode,
    block: &FusedBlock,
    registers: &mut Registers,
    windows: &[Window],
    mask: u32,
    counters: &mut Counters,
) {
    assert!(windows.len() == 4 * block.bases.len());
    let entry = code.memory[block.entry..].as_ptr();
    // SAFETY: `blocks::fuse` has emitted a function of this type at the entry, and the memory is
    // executable and lives as long as `code`.
    let function = unsafe { std::mem::transmute::<*const u8, Function>(entry) };
    let [words, doubles, predicates] = registers.sizes();
    assert!(words >= code.files[0] && doubles >= code.files[1] && predicates >= code.files[2]);
    let (words, doubles, predicates) = registers.pointers();
    // SAFETY: the processor has the features, or there would be no code. The function accesses the
    // slots of the block's operations, which are below `files` and so within the register files,
    // and the windows, which lie in shared memory.
    let guarded = unsafe { function(words, doubles, predicates, mask, windows.as_ptr()) };
    counters.warp += u64::from(block.counted);
    counters.thread += u64::from(block.unguarded * mask.count_ones() + guarded);
}

/// Finds the windows of a block's loads, in the order in which the function reads them. Returns
/// `None` if an active lane may load from elsewhere.
fn set_windows(
    windows: &mut [Window],
    block: &FusedBlock,
    registers: &Registers,
    shared: &[u8],
    mask: u32,
) -> Option<()> {
    let count = block.bases.len();
    for (number, base) in block.bases.iter().enumerate() {
        // The last place of a window of which all 32 bytes are in shared memory.
        let end = (shared.len() as u64).checked_sub(32 + u64::from(base.last))? & !3;
        for chunk in 0..4 {
            let active = (mask >> (CHUNK * chunk)) as u8;
            if active == 0 {
                continue;
            }
            let addresses = addresses(registers, *base, chunk);
            windows[chunk * count + number] = window(addresses, active, end, shared)?;
        }
    }
    Some(())
}

/// Returns the addresses of eight lanes.
#[inline(always)]
fn addresses(registers: &Registers, base: FusedBase, chunk: usize) -> [u64; CHUNK] {
    let lane = |lane: usize| chunk * CHUNK + lane;
    if base.double {
        let register = registers.double(base.slot);
        std::array::from_fn(|at| register[lane(at)])
    } else {
        let register = registers.word(base.slot);
        std::array::from_fn(|at| u64::from(register[lane(at)]))
    }
}

/// Returns the window that contains the addresses of the active lanes, which starts at `end` at
/// most.
#[inline(always)]
fn window(mut addresses: [u64; CHUNK], active: u8, end: u64, shared: &[u8]) -> Option<Window> {
    if active != u8::MAX {
        let any = addresses[active.trailing_zeros() as usize];
        for lane in 0..CHUNK {
            if active >> lane & 1 == 0 {
                addresses[lane] = any;
            }
        }
    }
    let least = addresses.into_iter().fold(end, u64::min);
    let mut outside = 0;
    let mut lanes = [0; CHUNK];
    for lane in 0..CHUNK {
        let distance = addresses[lane] - least;
        outside |= u64::from(distance >= 32) | addresses[lane] & 3;
        lanes[lane] = (distance >> 2) as u32;
    }
    (outside == 0).then(|| Window {
        lanes,
        start: shared[least as usize..].as_ptr(),
    })
}
