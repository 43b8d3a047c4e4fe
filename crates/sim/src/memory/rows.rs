//! Copy geometry: rows of bytes, and the kinds of memory a copy connects.

/// The largest copy that the synchronous form may leave pending (rule 6: a small upload may return
/// early).
pub(crate) const SMALL_UPLOAD_BYTES: u64 = 64 << 10;

/// The kinds of memory that a copy connects, which determine its engine and bandwidth. Managed
/// memory counts as device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    PinnedToDevice,
    PageableToDevice,
    DeviceToPinned,
    DeviceToPageable,
    WithinDevice,
    /// From the memory of one device to that of another.
    BetweenDevices {
        from: u32,
        to: u32,
    },
    HostToHost,
}

/// The bytes that a copy moves: `height` rows (not 0) of `width` bytes (not 0), with a pitch on
/// either side. A linear copy is one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) source_pitch: u64,
    pub(crate) target_pitch: u64,
}

impl Rows {
    pub(crate) fn one(bytes: u64) -> Self {
        Self {
            width: bytes,
            height: 1,
            source_pitch: bytes,
            target_pitch: bytes,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.width * self.height
    }

    /// Returns the length of the source from its first to its last byte, gaps between rows
    /// included.
    pub(crate) fn source_span(&self) -> u64 {
        (self.height - 1) * self.source_pitch + self.width
    }

    /// Returns the length of the destination from its first to its last byte, gaps between rows
    /// included.
    pub(crate) fn target_span(&self) -> u64 {
        (self.height - 1) * self.target_pitch + self.width
    }

    /// Returns the offset of each row in the source and in the destination.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self {
            source_pitch,
            target_pitch,
            ..
        } = *self;
        (0..self.height).map(move |row| (row * source_pitch, row * target_pitch))
    }
}
