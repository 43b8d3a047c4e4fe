//! Opting out of the waits, for one access of one operation.
//!
//! The access still registers: later operations wait for it, and the memory is freed after it. What
//! it does not do is wait, or make later operations believe that it had: what it did not wait for,
//! they wait for themselves.

#![allow(
    unsafe_code,
    reason = "declares methods whose callers vouch for an order"
)]

use super::{Buffer, View, ViewMut, view::Span};

impl<T> Buffer<T> {
    /// The array, to read in operations that wait for nothing on its account.
    ///
    /// Such an operation still registers: later ones wait for it as always, and the memory is freed
    /// after it. Its other operands are ordered as always. Parts and casts of the view are as it
    /// is.
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
    /// Of the bytes that an operation really reads through this view, every write enqueued before
    /// it must be over or in front of it on its own stream, or be ordered in front of it by other
    /// means. The first write of the array is one of them, and so is its allocation, on the stream
    /// that made it.
    #[must_use]
    pub unsafe fn unordered(&self) -> View<'_, T> {
        let View { span, element } = self.view();
        View {
            span: without_order(span),
            element,
        }
    }

    /// The array, to read and write in operations that wait for nothing on its account.
    ///
    /// Such an operation still registers: later ones wait for it as always, and the memory is freed
    /// after it. Its other operands are ordered as always. Parts and casts of the view are as it
    /// is.
    ///
    /// # Safety
    ///
    /// As for [`unordered`](Self::unordered); and of the bytes that an operation really writes
    /// through this view, every read enqueued before it must be over or in front of it on its own
    /// stream, or be ordered in front of it by other means.
    #[must_use]
    pub unsafe fn unordered_mut(&mut self) -> ViewMut<'_, T> {
        let ViewMut { span, element } = self.view_mut();
        ViewMut {
            span: without_order(span),
            element,
        }
    }
}

impl<T> View<'_, T> {
    /// The same part of the array, to read in operations that wait for nothing on its account.
    ///
    /// # Safety
    ///
    /// That of [`Buffer::unordered`].
    #[must_use]
    pub unsafe fn unordered(self) -> Self {
        Self {
            span: without_order(self.span),
            ..self
        }
    }
}

impl<T> ViewMut<'_, T> {
    /// The same part of the array, to read in operations that wait for nothing on its account.
    ///
    /// # Safety
    ///
    /// That of [`Buffer::unordered`].
    #[must_use]
    pub unsafe fn unordered(&self) -> View<'_, T> {
        let View { span, element } = self.slice(..);
        View {
            span: without_order(span),
            element,
        }
    }

    /// The same part of the array, to read and write in operations that wait for nothing on its
    /// account.
    ///
    /// # Safety
    ///
    /// That of [`Buffer::unordered_mut`].
    #[must_use]
    pub unsafe fn unordered_mut(self) -> Self {
        Self {
            span: without_order(self.span),
            ..self
        }
    }
}

fn without_order(span: Span<'_>) -> Span<'_> {
    Span {
        ordered: false,
        ..span
    }
}
