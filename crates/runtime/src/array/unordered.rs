//! Unordered accesses: one access of one operation opts out of waiting.
//!
//! The access is still entered in the access history: later operations wait for it, and the memory
//! is freed after it. It waits for no earlier operation. Later operations wait for those earlier
//! ones themselves.

#![allow(unsafe_code, reason = "declares methods whose callers ensure order")]

use super::{Buffer, View, ViewMut, view::Span};

impl<T> Buffer<T> {
    /// Returns a view for reading whose operations do not wait for earlier uses of the array.
    ///
    /// Such an operation is still tracked: later ones wait for it as always, and the memory is
    /// freed after it. Its other operands are ordered as always. Parts and casts of the view are
    /// unordered too.
    ///
    /// ```
    /// use millstream::Device;
    ///
    /// let device = Device::simulated()?;
    /// let (first, second) = (device.stream()?, device.stream()?);
    /// let mut levels = first.upload(&[1, 2, 3, 4])?;
    /// first.synchronize()?;
    /// first.fill(&mut levels, 9)?;
    /// second.wait_for(&first.record()?)?; // an order made by hand
    /// // SAFETY: the upload is over, and `second` is behind the fill.
    /// let view = unsafe { levels.unordered() };
    /// assert_eq!(second.download(view.slice(..2))?.wait()?, [9, 9]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// For the bytes that an operation reads through this view, every write enqueued before it must
    /// be complete, or precede it on its own stream, or be ordered before it by other means. This
    /// includes the first write of the array and its allocation, on the stream that allocated it.
    pub unsafe fn unordered(&self) -> View<'_, T> {
        View::of(without_order(self.view().span))
    }

    /// Returns a view for writing whose operations do not wait for earlier uses of the array.
    ///
    /// Such an operation is still tracked: later ones wait for it as always, and the memory is
    /// freed after it. Its other operands are ordered as always. Parts and casts of the view are
    /// unordered too.
    ///
    /// # Safety
    ///
    /// As for [`unordered`](Self::unordered); and of the bytes that an operation really writes
    /// through this view, every read enqueued before it must be over or in front of it on its own
    /// stream, or be ordered in front of it by other means.
    pub unsafe fn unordered_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::of(without_order(self.view_mut().span))
    }
}

impl<T> View<'_, T> {
    /// Returns the view for reading in operations that do not wait for earlier uses of the array.
    ///
    /// # Safety
    ///
    /// The contract of [`Buffer::unordered`].
    pub unsafe fn unordered(self) -> Self {
        Self::of(without_order(self.span))
    }
}

impl<T> ViewMut<'_, T> {
    /// Returns the view for reading in operations that do not wait for earlier uses of the array.
    ///
    /// # Safety
    ///
    /// The contract of [`Buffer::unordered`].
    pub unsafe fn unordered(&self) -> View<'_, T> {
        View::of(without_order(self.slice(..).span))
    }

    /// Returns the view for writing in operations that do not wait for earlier uses of the array.
    ///
    /// # Safety
    ///
    /// The contract of [`Buffer::unordered_mut`].
    pub unsafe fn unordered_mut(self) -> Self {
        Self::of(without_order(self.span))
    }
}

fn without_order(span: Span<'_>) -> Span<'_> {
    Span {
        ordered: false,
        ..span
    }
}
