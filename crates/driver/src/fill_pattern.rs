//! The value that a fill repeats.

/// The value that a fill repeats.
///
/// ```
/// assert_eq!(millstream_driver::FillPattern::U16(7).size(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillPattern {
    /// One byte (`cuMemsetD8Async`).
    U8(u8),
    /// Two bytes; the target must be 2-byte aligned (`cuMemsetD16Async`).
    U16(u16),
    /// Four bytes; the target must be 4-byte aligned (`cuMemsetD32Async`).
    U32(u32),
}

impl FillPattern {
    /// Returns the size of one element in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
        }
    }
}
