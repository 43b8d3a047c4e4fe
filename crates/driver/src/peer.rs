//! Parameters of copies between devices.

use crate::{ContextHandle, DevicePtr};

/// A copy of contiguous bytes between the memory of two contexts (`cuMemcpyPeerAsync`). Both
/// contexts may be the same.
///
/// ```
/// use millstream_driver::{ContextHandle, DevicePtr, PeerCopy};
/// let copy = PeerCopy {
///     target: DevicePtr::from_raw(0x2000),
///     target_context: ContextHandle::from_raw(2),
///     source: DevicePtr::from_raw(0x1000),
///     source_context: ContextHandle::from_raw(1),
///     bytes: 64,
/// };
/// assert_ne!(copy.source_context, copy.target_context);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCopy {
    /// The first byte that is written.
    pub target: DevicePtr,
    /// The context to which the target's memory belongs.
    pub target_context: ContextHandle,
    /// The first byte that is read.
    pub source: DevicePtr,
    /// The context to which the source's memory belongs.
    pub source_context: ContextHandle,
    /// The number of bytes.
    pub bytes: usize,
}

/// A two-dimensional copy between the memory of two contexts (`cuMemcpy3DPeerAsync` of depth 1):
/// `rows` rows of `row_bytes` each, whose starts lie a pitch apart on either side.
///
/// ```
/// use millstream_driver::{ContextHandle, DevicePtr, PeerCopy2d};
/// // A column of 3 bytes out of a matrix of 4 rows of 10 bytes, into contiguous memory.
/// let column = PeerCopy2d {
///     target: DevicePtr::from_raw(0x2000),
///     target_pitch_bytes: 3,
///     target_context: ContextHandle::from_raw(2),
///     source: DevicePtr::from_raw(0x1000),
///     source_pitch_bytes: 10,
///     source_context: ContextHandle::from_raw(1),
///     row_bytes: 3,
///     rows: 4,
/// };
/// assert!(!column.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCopy2d {
    /// The first row that is written.
    pub target: DevicePtr,
    /// The distance between the starts of consecutive target rows, in bytes; at least `row_bytes`.
    pub target_pitch_bytes: usize,
    /// The context to which the target's memory belongs.
    pub target_context: ContextHandle,
    /// The first row that is read.
    pub source: DevicePtr,
    /// The distance between the starts of consecutive source rows, in bytes; at least `row_bytes`.
    pub source_pitch_bytes: usize,
    /// The context to which the source's memory belongs.
    pub source_context: ContextHandle,
    /// The length of a row, in bytes.
    pub row_bytes: usize,
    /// The number of rows.
    pub rows: usize,
}

impl PeerCopy2d {
    /// Returns whether the copy has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.row_bytes == 0 || self.rows == 0
    }
}
