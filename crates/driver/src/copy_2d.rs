//! The shape of a copy of rows that lie apart.

use crate::DevicePtr;

/// A copy of `height` rows of `width_bytes` each, which on either side lie a pitch apart
/// (`CUDA_MEMCPY2D`, rule 52).
///
/// ```
/// use millstream_driver::{Copy2d, DevicePtr, Side2d};
/// // A column of 3 bytes out of a matrix of 4 rows of 10 bytes, into memory of its own.
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
    /// What is read.
    pub source: Side2d,
    /// What is written.
    pub target: Side2d,
    /// The length of a row, in bytes.
    pub width_bytes: usize,
    /// How many rows.
    pub height: usize,
}

impl Copy2d {
    /// Whether there is nothing to copy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.width_bytes == 0 || self.height == 0
    }
}

/// One side of a [`Copy2d`].
///
/// ```
/// use millstream_driver::Side2d;
/// let mut rows = [0_u8; 12];
/// assert_eq!(Side2d::host(rows.as_mut_ptr(), 4).pitch_bytes, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side2d {
    /// The first byte of the first row.
    pub memory: Memory2d,
    /// From the first byte of a row to that of the next; at least the width.
    pub pitch_bytes: usize,
}

impl Side2d {
    /// Rows in device or managed memory.
    #[must_use]
    pub const fn device(first: DevicePtr, pitch_bytes: usize) -> Self {
        Self {
            memory: Memory2d::Device(first),
            pitch_bytes,
        }
    }

    /// Rows in host memory, page-locked or not. Those of a source are only read.
    #[must_use]
    pub const fn host(first: *mut u8, pitch_bytes: usize) -> Self {
        Self {
            memory: Memory2d::Host(first),
            pitch_bytes,
        }
    }

    /// From the first byte of the first row to the last of the last, what lies between rows
    /// included. `None` if that does not fit, 0 if there is no byte.
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

/// Which memory a side of a [`Copy2d`] is in, with the address of its first byte.
///
/// ```
/// use millstream_driver::{DevicePtr, Memory2d};
/// assert!(matches!(Memory2d::Device(DevicePtr::from_raw(0x1000)), Memory2d::Device(_)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory2d {
    /// Device or managed memory.
    Device(DevicePtr),
    /// Host memory, page-locked or not.
    Host(*mut u8),
}
