//! Rectangular spans of bytes: locations without access rights.

use std::{ops::Range, sync::Arc};

use millstream_driver::{DevicePtr, Side2d};

use super::{Reach, Span};
use crate::{
    context::DeviceState,
    memory::Allocation,
    page_locked::PinnedSpan,
    tracker::{Access, AccessKind, Extent},
};

/// The memory that contains a rectangle.
#[derive(Clone)]
pub(crate) enum Base<'a> {
    Device(&'a Allocation),
    Pinned(PinnedSpan<'a>),
}

/// Rows of bytes at equal distances in one allocation. All bytes lie within the allocation.
#[derive(Clone)]
pub(crate) struct Span2d<'a> {
    pub(super) base: Base<'a>,
    /// The offset of the first row from the start of the memory, in bytes.
    pub(super) start: usize,
    pub(crate) rows: usize,
    pub(crate) row_bytes: usize,
    /// The distance in bytes from the start of a row to the start of the next. Several rows are at
    /// most this long.
    pub(crate) pitch_bytes: usize,
    /// Set if operations wait for conflicting ones here. If not, the caller of an unsafe method
    /// guarantees the order.
    pub(super) ordered: bool,
}

impl<'a> From<Span<'a>> for Span2d<'a> {
    fn from(span: Span<'a>) -> Self {
        let row_bytes = span.bytes.len();
        Self {
            base: Base::Device(span.allocation),
            start: span.bytes.start,
            rows: 1,
            row_bytes,
            pitch_bytes: row_bytes,
            ordered: span.ordered,
        }
    }
}

impl<'a> Span2d<'a> {
    /// Returns whether the span contains no byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 || self.row_bytes == 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows * self.row_bytes
    }

    /// Returns a range of the rows and, of each, a range of the bytes. Both ranges lie within the
    /// span.
    pub(crate) fn part(&self, rows: Range<usize>, bytes: Range<usize>) -> Self {
        let mut part = self.clone();
        (part.rows, part.row_bytes) = (rows.len(), bytes.len());
        // An empty span has no offset to compute; its product could overflow.
        if !part.is_empty() {
            part.start += rows.start * self.pitch_bytes + bytes.start;
        }
        part
    }

    pub(crate) fn device(&self) -> &'a Arc<DeviceState> {
        match &self.base {
            Base::Device(allocation) => &allocation.device,
            Base::Pinned(span) => span.device,
        }
    }

    /// Returns the pinned memory that contains the span, if it is in pinned memory.
    pub(crate) fn pinned(&self) -> Option<&PinnedSpan<'a>> {
        match &self.base {
            Base::Device(_) => None,
            Base::Pinned(span) => Some(span),
        }
    }

    /// Returns the address of the first byte and the pitch for a copy. The span must not be empty.
    pub(crate) fn side(&self) -> Side2d {
        match &self.base {
            Base::Device(allocation) => {
                Side2d::device(self.in_allocation(allocation), self.pitch_bytes)
            }
            Base::Pinned(span) => Side2d::host(span.pointer_at(self.start), self.pitch_bytes),
        }
    }

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
                reach: Reach::Own,
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

    /// Returns whether both have a byte in common.
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
