//! Access marking: records what a warp accesses in access bitmaps.

use super::launch::TracedRegion;
use super::registers::lanes;
use super::warp_access::{AddressPattern, WarpAccess};
use crate::memory::AccessFlags;
use crate::ptx::ir::Access;

/// How a load touches memory.
#[inline(always)]
pub(super) fn read_flags(access: &Access) -> AccessFlags {
    if access.synchronises {
        AccessFlags::UPDATE
    } else {
        AccessFlags::READ
    }
}

/// How a store touches memory.
#[inline(always)]
pub(super) fn write_flags(access: &Access) -> AccessFlags {
    if access.synchronises {
        AccessFlags::UPDATE
    } else {
        AccessFlags::WRITE
    }
}

/// Marks what the lanes that take part access, of which the first is at `offset`; they are not
/// scattered.
///
/// Writes are marked before they are made, so that no thread that sees one takes it for another
/// launch's.
#[inline(always)]
pub(super) fn note(
    found: &TracedRegion<'_>,
    offset: usize,
    flags: AccessFlags,
    warp_access: &WarpAccess,
    pattern: AddressPattern,
) {
    let Some(bitmap) = found.bitmap else {
        return;
    };
    let bytes = warp_access.bytes;
    if pattern == AddressPattern::Uniform {
        bitmap.note(flags, offset, bytes);
    } else if warp_access.is_gapless() {
        bitmap.note(flags, offset, warp_access.span().len() * bytes);
    } else {
        let first = warp_access.first();
        for lane in lanes(warp_access.mask) {
            bitmap.note(flags, offset + (lane - first) * bytes, bytes);
        }
    }
}
