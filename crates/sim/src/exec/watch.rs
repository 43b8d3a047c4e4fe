//! Marks of what a warp accesses, for whoever watches.

use super::launch::Watched;
use super::place::{Pattern, Place};
use super::registers::lanes;
use crate::memory::Touch;
use crate::ptx::ir::Access;

/// How a load touches memory.
#[inline(always)]
pub(super) fn read_touch(access: &Access) -> Touch {
    if access.synchronises {
        Touch::UPDATE
    } else {
        Touch::READ
    }
}

/// How a store touches memory.
#[inline(always)]
pub(super) fn write_touch(access: &Access) -> Touch {
    if access.synchronises {
        Touch::UPDATE
    } else {
        Touch::WRITE
    }
}

/// Marks what the lanes that take part access, of which the first is at `offset`; they are not
/// scattered.
///
/// Writes are marked before they are made, so that no thread that sees one takes it for another
/// launch's.
#[inline(always)]
pub(super) fn note(
    found: &Watched<'_>,
    offset: usize,
    touch: Touch,
    place: &Place,
    pattern: Pattern,
) {
    let Some(marks) = found.marks else {
        return;
    };
    let bytes = place.bytes;
    if pattern == Pattern::Uniform {
        marks.note(touch, offset, bytes);
    } else if place.is_gapless() {
        marks.note(touch, offset, place.span().len() * bytes);
    } else {
        let first = place.first();
        for lane in lanes(place.mask) {
            marks.note(touch, offset + (lane - first) * bytes, bytes);
        }
    }
}
