//! Access marking: records in access bitmaps which bytes of global memory a warp accesses.

use super::launch::TracedRegion;
use super::registers::lanes;
use super::warp_access::{AddressPattern, WarpAccess};
use crate::memory::AccessFlags;
use crate::ptx::ir::Access;

/// Returns the access flags of a load: `STRONG_READ` if it synchronises, else `READ`.
#[inline(always)]
pub(super) fn read_flags(access: &Access) -> AccessFlags {
    if access.synchronises {
        AccessFlags::STRONG_READ
    } else {
        AccessFlags::READ
    }
}

/// Returns the access flags of a store: `STRONG_WRITE` if it synchronises, else `WRITE`.
#[inline(always)]
pub(super) fn write_flags(access: &Access) -> AccessFlags {
    if access.synchronises {
        AccessFlags::STRONG_WRITE
    } else {
        AccessFlags::WRITE
    }
}

/// Marks the bytes that the active lanes of a warp access in the region's bitmap, if it has one.
///
/// `offset` is the offset of the first active lane's bytes; the addresses are not scattered.
///
/// A write is marked before its bytes are stored, so that no thread that observes the bytes
/// attributes them to another launch.
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
