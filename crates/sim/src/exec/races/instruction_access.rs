//! The memory accesses of instructions, as the check records them.

use super::access_record::AccessKind;
use super::race_model::RaceModel;
use super::release::StrongAccess;
use crate::exec::launch::{Alias, alias};
use crate::exec::observer::AtomicOperands;
use crate::exec::registers::{Registers, lanes};
use crate::exec::warp_access::WarpAccess;
use crate::exec::warp_access::in_window;
use crate::ptx::ir::{Access, AccessSpace, Atomic, AtomicOp, MemoryOrder, Window};

/// Calls `part` with the parts of an access that lie in shared or global memory, each byte of which
/// gets the lowest address where it is mapped.
pub(super) fn each_window(
    aliases: &[Alias],
    space: AccessSpace,
    warp_access: &WarpAccess,
    mut part: impl FnMut(Window, &WarpAccess),
) {
    let mut moved;
    let warp_access = if aliases.is_empty() || space == AccessSpace::Is(Window::Shared) {
        warp_access
    } else {
        moved = *warp_access;
        let addresses = moved.addresses.iter_mut();
        addresses.for_each(|address| *address = lowest(aliases, *address));
        &moved
    };
    match space {
        AccessSpace::Is(window @ (Window::Global | Window::Shared)) => part(window, warp_access),
        AccessSpace::Is(_) => {}
        AccessSpace::Generic => {
            for window in [Window::Global, Window::Shared] {
                if let Some(warp_access) = in_window(warp_access, window) {
                    part(window, &warp_access);
                }
            }
        }
    }
}

/// Returns the lowest address where the byte at `address` is mapped.
pub(super) fn lowest(aliases: &[Alias], address: u64) -> u64 {
    alias(aliases, address).map_or(address, |(range, first)| address - range.start + first)
}

/// Returns the synchronisation of an access with the given memory order that neither reads nor
/// writes.
pub(super) fn strong_access(bytes: u64, order: MemoryOrder) -> StrongAccess {
    StrongAccess {
        bytes,
        read: false,
        write: false,
        acquire: order.acquire,
        release: order.release,
        block_only: order.block_only,
        reduction: order.reduction,
    }
}

pub(super) fn kind(access: &Access, write: bool, model: RaceModel) -> AccessKind {
    AccessKind {
        write,
        read: !write,
        strong: access.synchronises,
        volatile: access.order.volatile && !model.strong_volatile,
        block_only: access.order.block_only,
    }
}

/// Returns the lanes whose atomic has written: all lanes, except those whose compare-and-swap
/// failed.
pub(super) fn wrote(registers: &Registers, atomic: &Atomic, operands: &AtomicOperands) -> u32 {
    let mask = operands.warp_access.mask;
    let Some(result) = atomic.result.filter(|_| atomic.f == AtomicOp::CompareSwap) else {
        return mask;
    };
    let same = lanes(mask).filter(|lane| {
        let found = if operands.warp_access.bytes >= 8 {
            registers.double(result)[*lane]
        } else {
            u64::from(registers.word(result)[*lane])
        };
        let high = atomic.high.and_then(|high| high.result);
        let found_high = high.map_or(0, |slot| registers.double(slot)[*lane]);
        (found, found_high) == (operands.compared[*lane], operands.compared_high[*lane])
    });
    same.fold(0, |mask, lane| mask | 1 << lane)
}
