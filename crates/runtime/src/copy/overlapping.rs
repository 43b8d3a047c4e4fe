//! Copies within one array, whose source and target may overlap.

use std::{ops::RangeBounds, panic::Location};

use bytemuck::Pod;

use crate::{
    Buffer, Result, Stream, UsageError, WriteOperand,
    array::Span,
    context::{AtCaller, CopyOnDevice, OverlappingCopy},
    element_layout::{part_from, resolve},
    error::OperationKind,
    tracker::AccessKind,
};

/// The maximal number of copies of an overlapping move. Beyond it, two copies through other memory
/// are cheaper.
const OVERLAP_CHUNKS_MAX: usize = 4;

impl Stream {
    /// Copies the elements of `range` to the range of the same length from `start` on, in the same
    /// array. The two may overlap: the target receives the previous elements of the source.
    ///
    /// Without an overlap this is one copy. With an overlap it is a few copies, or two through
    /// memory of the device's pool. Other streams are ordered with the bytes that are read and
    /// written, not with the whole array.
    ///
    /// ```
    /// # let stream = millstream::Device::simulated()?.stream()?;
    /// let mut numbers = stream.upload(&[1, 2, 3, 4, 5])?;
    /// stream.copy_within(&mut numbers, 1.., 0)?;
    /// assert_eq!(stream.download(&numbers)?.wait()?, [2, 3, 4, 5, 5]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If source or target do not lie within the array, it is on another device, memory is
    /// exhausted, or the device is lost.
    #[track_caller]
    pub fn copy_within<T: Pod>(
        &self,
        array: impl WriteOperand<T>,
        range: impl RangeBounds<usize>,
        start: usize,
    ) -> Result<()> {
        let (location, len) = (Location::caller(), array.len());
        let whole = array.operand().0;
        let spans = || {
            self.same_device("copy_within", 0, &whole.allocation.device)?;
            let range = resolve("copy_within", range, len)?;
            let moved = resolve("copy_within", part_from(start, range.len()), len)?;
            let part = |range| whole.clone().subspan(range, size_of::<T>());
            Ok::<_, UsageError>((part(range), part(moved)))
        };
        let (from, to) = spans().map_err(|error| error.at(location))?;
        self.move_span(&from, &to, location)
            .at_caller("copy_within", location)
    }

    /// Copies a span to another of the same length in the same array.
    fn move_span(
        &self,
        from: &Span<'_>,
        to: &Span<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let bytes = from.bytes.len();
        if from.bytes.start == to.bytes.start {
            return self.device_state().check_alive();
        }
        let (target, source) = (to.pointer(), from.pointer());
        let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
        if !from.overlaps(to) {
            let command = CopyOnDevice {
                target,
                source,
                bytes,
            };
            return self.submit_copy(
                OperationKind::DeviceToDevice,
                bytes,
                accesses,
                None,
                location,
                command,
            );
        }
        let copy = OverlappingCopy {
            target,
            source,
            bytes,
        };
        if copy.chunks() <= OVERLAP_CHUNKS_MAX {
            return self.submit_copy(
                OperationKind::DeviceToDevice,
                bytes,
                accesses,
                None,
                location,
                copy.copies(),
            );
        }
        let between = Buffer::<u8>::new(
            self.device_state(),
            self.state(),
            bytes,
            "copy_within",
            location,
        )?;
        let between = between.view();
        for (from, to) in [(from, &between.span), (&between.span, to)] {
            let command = CopyOnDevice {
                target: to.pointer(),
                source: from.pointer(),
                bytes,
            };
            let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
            self.submit_copy(
                OperationKind::DeviceToDevice,
                bytes,
                accesses,
                None,
                location,
                command,
            )?;
        }
        Ok(())
    }
}
