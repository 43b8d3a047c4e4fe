//! Parameters of a two-dimensional copy.

use crate::DevicePtr;

/// A two-dimensional copy: `height` rows of `width_bytes` each, whose starts lie a pitch apart on
/// either side (`CUDA_MEMCPY2D`). It is a single operation of its stream (rule 52).
///
/// ```
/// use millstream_driver::{Copy2d, DevicePtr, Side2d};
/// // A column of 3 bytes out of a matrix of 4 rows of 10 bytes, into contiguous memory.
/// let column = Copy2d {
///     source: Side2d::device(DevicePtr::from_raw(0x1000), 10),
///     target: Side2d::device(DevicePtr::from_raw(0x2000), 3),
///     width_bytes: 3,
///     height: 4,
/// };
/// assert!(!column.is_empty());
/// assert_eq!(column.source.span_bytes(column.width_bytes, column.height), Some(33));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy2d {
    /// The side that is read.
    pub source: Side2d,
    /// The side that is written.
    pub target: Side2d,
    /// The length of a row, in bytes.
    pub width_bytes: usize,
    /// The number of rows.
    pub height: usize,
}

impl Copy2d {
    /// Returns whether the copy has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.width_bytes == 0 || self.height == 0
    }
}

/// One side of a [`Copy2d`]: an address and a pitch.
///
/// ```
/// use millstream_driver::Side2d;
/// let mut rows = [0_u8; 12];
/// assert_eq!(Side2d::host(rows.as_mut_ptr(), 4).pitch_bytes, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side2d {
    /// The memory that holds the rows, with the address of the first row.
    pub memory: Memory2d,
    /// The distance between the starts of consecutive rows, in bytes; at least the width.
    pub pitch_bytes: usize,
}

impl Side2d {
    /// Creates a side in device or managed memory.
    #[must_use]
    pub const fn device(first: DevicePtr, pitch_bytes: usize) -> Self {
        Self {
            memory: Memory2d::Device(first),
            pitch_bytes,
        }
    }

    /// Creates a side in host memory, page-locked or not. A source is only read through the
    /// pointer.
    #[must_use]
    pub const fn host(first: *mut u8, pitch_bytes: usize) -> Self {
        Self {
            memory: Memory2d::Host(first),
            pitch_bytes,
        }
    }

    /// Returns the number of bytes from the start of the first row to the end of the last,
    /// including the gaps between rows: 0 for a copy of no bytes, `None` if the number overflows.
    #[must_use]
    pub fn span_bytes(&self, width_bytes: usize, height: usize) -> Option<usize> {
        match height.checked_sub(1) {
            Some(further_rows) if width_bytes > 0 => further_rows
                .checked_mul(self.pitch_bytes)?
                .checked_add(width_bytes),
            _ => Some(0),
        }
    }
}

/// The kind of memory on one side of a [`Copy2d`], with the address of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory2d {
    /// Device or managed memory.
    Device(DevicePtr),
    /// Host memory, page-locked or not.
    Host(*mut u8),
}
