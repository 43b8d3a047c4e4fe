//! Rectangles of bytes: where they are, without saying what may be done to them.

use std::{ops::Range, sync::Arc};

use millstream_driver::{DevicePtr, Side2d};

use super::{Allocation, PinnedSpan, Span};
use crate::{
    context::DeviceState,
    tracker::{Access, AccessKind, Extent},
};

/// The memory that a rectangle is in.
#[derive(Clone)]
pub(crate) enum Base<'a> {
    Device(&'a Allocation),
    Pinned(PinnedSpan<'a>),
}

/// Rows of bytes at equal distances, in one allocation. If there is a byte at all, all of them lie
/// within it.
#[derive(Clone)]
pub(crate) struct Span2d<'a> {
    pub(super) base: Base<'a>,
    /// The first byte of the first row, from the start of the memory.
    pub(super) start: usize,
    pub(crate) rows: usize,
    pub(crate) row_bytes: usize,
    /// From the start of a row to the start of the next; at least a row if there are several.
    pub(crate) pitch_bytes: usize,
    /// Whether operations wait for what they conflict with here. If not, someone has vouched for
    /// the order.
    pub(super) ordered: bool,
}

impl<'a> Span2d<'a> {
    /// Whether there is no byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 || self.row_bytes == 0
    }

    /// Bytes in all rows.
    pub(crate) fn bytes(&self) -> usize {
        self.rows * self.row_bytes
    }

    /// Some of the rows and, of each, some of the bytes. Both ranges lie within what there is.
    pub(crate) fn part(&self, rows: Range<usize>, bytes: Range<usize>) -> Self {
        let mut part = self.clone();
        (part.rows, part.row_bytes) = (rows.len(), bytes.len());
        // A start is only there if a byte is; without one the product could be of any size.
        if !part.is_empty() {
            part.start += rows.start * self.pitch_bytes + bytes.start;
        }
        part
    }

    /// The device that the memory belongs to.
    pub(crate) fn device(&self) -> &'a Arc<DeviceState> {
        match &self.base {
            Base::Device(allocation) => &allocation.device,
            Base::Pinned(span) => span.device,
        }
    }

    /// The pinned memory that this is in, if it is.
    pub(crate) fn pinned(&self) -> Option<&PinnedSpan<'a>> {
        match &self.base {
            Base::Device(_) => None,
            Base::Pinned(span) => Some(span),
        }
    }

    /// The first byte and the distance of the rows, for a copy. There is a byte.
    pub(crate) fn side(&self) -> Side2d {
        match &self.base {
            Base::Device(allocation) => {
                Side2d::device(self.in_allocation(allocation), self.pitch_bytes)
            }
            Base::Pinned(span) => {
                Side2d::host(span.pointer.wrapping_add(self.start), self.pitch_bytes)
            }
        }
    }

    /// Where the rows are on the device, if they are there.
    pub(crate) fn pointer(&self) -> Option<DevicePtr> {
        match &self.base {
            Base::Device(allocation) => Some(self.in_allocation(allocation)),
            Base::Pinned(_) => None,
        }
    }

    fn in_allocation(&self, allocation: &Allocation) -> DevicePtr {
        allocation.pointer.offset(self.start as u64)
    }

    /// The rows as a range of device memory, if they are one.
    pub(crate) fn as_span(&self) -> Option<Span<'a>> {
        let gapless = self.rows == 1 || self.pitch_bytes == self.row_bytes;
        match &self.base {
            Base::Device(allocation) if gapless => Some(Span {
                allocation,
                bytes: self.start..self.start + self.bytes(),
                ordered: self.ordered,
            }),
            _ => None,
        }
    }

    pub(crate) fn access(&self, kind: AccessKind) -> Access<'a> {
        let history = match &self.base {
            Base::Device(allocation) => &allocation.history,
            Base::Pinned(span) => span.history,
        };
        Access {
            ordered: self.ordered,
            ..Access::new(history, self.extent(), kind)
        }
    }

    /// Whether both have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let same_memory = match (&self.base, &other.base) {
            (Base::Device(one), Base::Device(other)) => std::ptr::eq(*one, *other),
            (Base::Pinned(one), Base::Pinned(other)) => std::ptr::eq(one.history, other.history),
            _ => false,
        };
        same_memory && self.extent().overlaps(&other.extent())
    }

    fn extent(&self) -> Extent {
        let start = self.start as u64;
        let rows = if self.row_bytes == 0 { 0 } else { self.rows };
        Extent::strided(
            start..start + self.row_bytes as u64,
            rows as u64,
            self.pitch_bytes as u64,
        )
    }
}
