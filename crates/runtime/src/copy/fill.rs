//! Fills and zeros.

#![allow(unsafe_code, reason = "submits fills of spans")]

use std::panic::Location;

use bytemuck::Pod;
use millstream_driver::{DevicePtr, FillPattern};

use crate::{
    Buffer, Error, Result, Stream, WriteOperand,
    array::Span,
    context::{AtCaller, Command, Fill, Operation, repeat, submit},
    error::OperationKind,
    memory::Contents,
    tracker::AccessKind,
};

/// The number of bytes uploaded for a pattern that the driver cannot fill with. The device copies
/// the rest from there.
const UPLOADED_BYTES: usize = 4096;

impl Stream {
    /// Sets every element to `value`.
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let mut numbers = stream.zeros::<f32>(3)?;
    /// stream.fill(numbers.slice_mut(1..), 2.5)?;
    /// assert_eq!(stream.download(&numbers)?.wait()?, [0.0, 2.5, 2.5]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the target is on another device, or the device is lost.
    #[track_caller]
    #[doc(alias(
        "cuMemsetD8Async",
        "cuMemsetD32Async",
        "cudaMemsetAsync",
        "memset_zeros",
        "fill_"
    ))]
    pub fn fill<T: Pod>(&self, target: impl WriteOperand<T>, value: T) -> Result<()> {
        let (operand, location) = (target.operand(), Location::caller());
        self.same_device("fill", 0, &operand.0.allocation.device)
            .map_err(Error::from)
            .and_then(|()| self.fill_span(&operand.0, bytemuck::bytes_of(&value), location))
            .at_caller("fill", location)
    }

    /// Creates an array of `len` elements, all bits zero.
    ///
    /// # Errors
    ///
    /// If memory is exhausted, or the device is lost.
    #[track_caller]
    #[doc(alias("cuMemAllocAsync", "cudaMallocAsync", "cudaMalloc", "alloc_zeros"))]
    pub fn zeros<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        self.zeros_at(len, Location::caller())
    }

    /// Creates an array like [`zeros`](Self::zeros). It needs no fill if the cache has memory of an
    /// array of the same size that was dropped after [`Buffer::note_zeros`], all of whose
    /// operations are ordered before those of this stream.
    ///
    /// # Errors
    ///
    /// If memory is exhausted, or the device is lost.
    #[doc(hidden)]
    #[track_caller]
    pub fn reused_zeros<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        let (device, location) = (self.device_state(), Location::caller());
        let wanted = Contents::Zeros;
        let buffer = Buffer::with_contents(device, self.state(), len, wanted, "zeros", location);
        let (mut target, contents) = buffer?;
        if contents != wanted {
            self.fill_span(&target.view_mut().span, &[0], location)?;
        }
        Ok(target)
    }

    /// Creates an array like [`zeros`](Self::zeros), with an explicit source line.
    pub(crate) fn zeros_at<T: Pod>(
        &self,
        len: usize,
        location: &'static Location<'static>,
    ) -> Result<Buffer<T>> {
        let mut target = Buffer::new(self.device_state(), self.state(), len, "zeros", location)?;
        self.fill_span(&target.view_mut().span, &[0], location)?;
        Ok(target)
    }

    /// Creates an array of `len` elements with undefined contents, possibly those of earlier
    /// arrays. This is the fastest way to an array that a kernel fills; [`zeros`](Self::zeros) is
    /// the safe one.
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// // SAFETY: all of it is written before any operation reads it.
    /// let mut ones = unsafe { stream.uninit::<f32>(1000) }?;
    /// stream.fill(&mut ones, 1.0)?;
    /// assert_eq!(stream.download(&ones)?.wait()?, [1.0; 1000]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If memory is exhausted, or the device is lost.
    ///
    /// # Safety
    ///
    /// No operation reads elements before another has written them. The race checker of the
    /// simulated device reports such reads.
    #[track_caller]
    #[doc(alias("alloc", "empty"))]
    pub unsafe fn uninit<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(
            self.device_state(),
            self.state(),
            len,
            "uninit",
            Location::caller(),
        )
    }

    /// repeats `value` over the span, whose length is a multiple of the value's.
    pub(super) fn fill_span(
        &self,
        target: &Span<'_>,
        value: &[u8],
        location: &'static Location<'static>,
    ) -> Result<()> {
        let bytes = target.bytes.len();
        if bytes == 0 {
            return self.device_state().check_alive();
        }
        // On managed memory the driver's fill would block the host (rule 12).
        if let Some(pattern) =
            pattern_of(value, target.pointer()).filter(|_| !target.allocation.is_managed())
        {
            let count = bytes / pattern.size();
            return self.submit_fill(
                target,
                location,
                Fill {
                    target: target.pointer(),
                    pattern,
                    count,
                },
            );
        }
        let count = (UPLOADED_BYTES / value.len()).clamp(1, bytes / value.len());
        let first_bytes = value.repeat(count);
        let first = Span {
            bytes: target.bytes.start..target.bytes.start + first_bytes.len(),
            ..target.clone()
        };
        self.upload_chunks(&first_bytes, &first, None, location, |_| ())?;
        if first_bytes.len() == bytes {
            return Ok(());
        }
        let command = repeat(target.pointer(), first_bytes.len(), bytes);
        self.submit_fill(target, location, command)
    }

    fn submit_fill(
        &self,
        target: &Span<'_>,
        location: &'static Location<'static>,
        command: impl Command<Output = ()>,
    ) -> Result<()> {
        let mut operation = Operation {
            kind: OperationKind::Fill,
            label: "fill",
            location,
            bytes: target.bytes.len() as u64,
            accesses: [target.access(AccessKind::Write)].into(),
            host_waiter: None,
        };
        // SAFETY: the fill accesses only the span, which lies within its allocation.
        unsafe { submit(self.device_state(), self.state(), &mut operation, command) }.map(drop)
    }
}

/// Returns the shortest pattern that the driver can repeat from `target` on with the same result.
/// The driver wants the address aligned to the pattern's size; that of a cast array may not be.
fn pattern_of(value: &[u8], target: DevicePtr) -> Option<FillPattern> {
    let repeats = |size: usize| {
        value.len().is_multiple_of(size)
            && target.as_raw().is_multiple_of(size as u64)
            && value.chunks_exact(size).all(|part| part == &value[..size])
    };
    let first = |size: usize| value.get(..size);
    if repeats(1) {
        return first(1).map(|bytes| FillPattern::U8(bytes[0]));
    }
    if repeats(2) {
        return first(2).map(|bytes| FillPattern::U16(bytemuck::pod_read_unaligned(bytes)));
    }
    if repeats(4) {
        return first(4).map(|bytes| FillPattern::U32(bytemuck::pod_read_unaligned(bytes)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern_of(value: &[u8]) -> Option<FillPattern> {
        super::pattern_of(value, DevicePtr::from_raw(0x1000))
    }

    #[test]
    fn a_fill_uses_the_shortest_element_that_repeats() {
        assert_eq!(
            pattern_of(&[7, 7, 7, 7, 7, 7, 7, 7]),
            Some(FillPattern::U8(7))
        );
        assert_eq!(
            pattern_of(&[1, 2, 1, 2]),
            Some(FillPattern::U16(u16::from_ne_bytes([1, 2])))
        );
        assert_eq!(
            pattern_of(&1.5_f32.to_ne_bytes()),
            Some(FillPattern::U32(1.5_f32.to_bits()))
        );
        assert_eq!(pattern_of(&1.7_f64.to_ne_bytes()), None);
        assert_eq!(pattern_of(&[1, 2, 3]), None);
        assert_eq!(pattern_of(&[5, 5, 5]), Some(FillPattern::U8(5)));
    }

    #[test]
    fn a_fill_uses_no_element_that_the_address_is_not_aligned_to() {
        let at = |address| super::pattern_of(&[1, 2, 1, 2], DevicePtr::from_raw(address));
        assert_eq!(at(0x1001), None);
        assert_eq!(at(0x1002), pattern_of(&[1, 2]));
        let at = |address| super::pattern_of(&[1, 2, 3, 4], DevicePtr::from_raw(address));
        assert_eq!(at(0x1002), None);
        assert!(at(0x1004).is_some());
        assert_eq!(
            super::pattern_of(&[7, 7], DevicePtr::from_raw(0x1001)),
            Some(FillPattern::U8(7))
        );
    }
}
