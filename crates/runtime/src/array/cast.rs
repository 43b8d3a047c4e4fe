//! Casts of arrays to another element type by bytemuck's rules: same bytes, same access history.

use std::{marker::PhantomData, panic::Location};

use bytemuck::Pod;

use super::{Buffer, View, ViewMut, view::Span};
use crate::{Rejected, Result, UsageError, UsageErrorKind};

impl<T: Pod> Buffer<T> {
    /// Casts the array to another element type, by the rules of [`bytemuck::cast_slice`].
    ///
    /// A cast copies and enqueues nothing. Later operations wait for earlier ones as before.
    ///
    /// ```
    /// use millstream::Device;
    ///
    /// let stream = Device::simulated()?.stream()?;
    /// let halves = stream.upload(&[1_u16, 0, 2, 0])?;
    /// let words = halves.cast::<u32>()?;
    /// assert_eq!(stream.download(&words)?.wait()?, [1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the bytes are no whole number of elements of the other type, or not aligned for it. The
    /// array comes back with the error.
    #[allow(clippy::result_large_err, reason = "the Ok value is as large")]
    #[track_caller]
    pub fn cast<U: Pod>(self) -> Result<Buffer<U>, Rejected<Self>> {
        match check::<T, U>(&self.span()) {
            Ok(()) => Ok(Buffer {
                len: self.len * size_of::<T>() / size_of::<U>(),
                allocation: self.allocation,
                element: PhantomData,
            }),
            Err(usage_error) => Err(Rejected::new(usage_error, self)),
        }
    }
}

impl<'a, T: Pod> View<'a, T> {
    /// Casts the view to another element type, by the rules of [`bytemuck::cast_slice`].
    ///
    /// # Errors
    ///
    /// If the bytes are no whole number of elements of the other type, or not aligned for it.
    #[track_caller]
    pub fn cast<U: Pod>(self) -> Result<View<'a, U>> {
        check::<T, U>(&self.span)?;
        Ok(View::of(self.span))
    }
}

impl<'a, T: Pod> ViewMut<'a, T> {
    /// Casts the view to another element type, by the rules of [`bytemuck::cast_slice_mut`].
    ///
    /// ```
    /// # let stream = millstream::Device::simulated()?.stream()?;
    /// let mut bytes = stream.zeros::<u8>(9)?;
    /// stream.fill(bytes.slice_mut(..8).cast::<f32>()?, 1.0)?;
    /// assert_eq!(stream.download(&bytes)?.wait()?, [0, 0, 128, 63, 0, 0, 128, 63, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the bytes are no whole number of elements of the other type, or not aligned for it. The
    /// view comes back with the error.
    #[track_caller]
    pub fn cast<U: Pod>(self) -> Result<ViewMut<'a, U>, Rejected<Self>> {
        match check::<T, U>(&self.span) {
            Ok(()) => Ok(ViewMut::of(self.span)),
            Err(usage_error) => Err(Rejected::new(usage_error, self)),
        }
    }
}

/// Returns a usage error, at the caller's line, unless the bytes are a whole number of `U` and
/// aligned for it.
#[track_caller]
fn check<T: Pod, U: Pod>(span: &Span<'_>) -> Result<(), UsageError> {
    const {
        assert!(
            size_of::<U>() > 0,
            "elements without a size cannot be on a device"
        )
    };
    let bytes = span.bytes.len();
    if !bytes.is_multiple_of(size_of::<U>()) {
        let problem = UsageErrorKind::CastSize {
            elements: bytes / size_of::<T>(),
            element_bytes: size_of::<T>(),
            target_element_bytes: size_of::<U>(),
        };
        return Err(UsageError::new("cast", problem).at(Location::caller()));
    }
    let address = span.pointer().as_raw();
    if !address.is_multiple_of(align_of::<U>() as u64) {
        let problem = UsageErrorKind::CastAlignment {
            alignment: 1 << address.trailing_zeros(),
            target_alignment: align_of::<U>(),
        };
        return Err(UsageError::new("cast", problem).at(Location::caller()));
    }
    Ok(())
}
