//! Rows of bytes, as copies move them.

/// Between which memories a copy goes, which decides its engine and speed. Managed memory counts as
/// the device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    PinnedToDevice,
    PageableToDevice,
    DeviceToPinned,
    DeviceToPageable,
    WithinDevice,
    BetweenDevices,
    HostToHost,
}

/// Which bytes a copy moves: `height` rows (not 0) of `width` bytes (not 0), on either side a pitch
/// apart. A plain copy is one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) source_pitch: u64,
    pub(crate) target_pitch: u64,
}

impl Rows {
    /// All the bytes together.
    pub(crate) fn one(bytes: u64) -> Self {
        Self {
            width: bytes,
            height: 1,
            source_pitch: bytes,
            target_pitch: bytes,
        }
    }

    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.width * self.height
    }

    /// From the first byte of the source to its last, what lies between rows included.
    pub(crate) fn source_span(&self) -> u64 {
        (self.height - 1) * self.source_pitch + self.width
    }

    /// From the first byte of the target to its last, what lies between rows included.
    pub(crate) fn target_span(&self) -> u64 {
        (self.height - 1) * self.target_pitch + self.width
    }

    /// Where each row begins, in the source and in the target.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self {
            source_pitch,
            target_pitch,
            ..
        } = *self;
        (0..self.height).map(move |row| (row * source_pitch, row * target_pitch))
    }
}
