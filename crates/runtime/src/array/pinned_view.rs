//! Views of page-locked memory: ranges of a [`Pinned`] array, tracked by their bytes.

use std::{fmt, marker::PhantomData, ops::RangeBounds, panic::Location};

use super::{
    Pinned,
    accessors::views,
    view::{len, parts, parts_to_write, within},
};
use crate::{Result, UsageError, element_layout::resolve, page_locked::PinnedSpan};

/// A view of a range of a [`Pinned`] array for reading, a source of copies.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let stream = device.stream()?;
/// let pinned = device.pinned_from(&[1_u8, 2, 3, 4])?;
/// let mut buffer = stream.zeros::<u8>(2)?;
/// stream.copy(pinned.slice(1..3), &mut buffer)?;
/// assert_eq!(stream.download(&buffer)?.wait()?, [2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use]
pub struct PinnedView<'a, T> {
    pub(super) span: PinnedSpan<'a>,
    pub(super) element: PhantomData<&'a T>,
}

impl<T> Clone for PinnedView<'_, T> {
    fn clone(&self) -> Self {
        Self::of(self.span.clone())
    }
}

/// A view of a range of a [`Pinned`] array for writing, a target of copies. No two that exist at
/// the same time have a byte in common.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let (a, b) = (device.stream()?, device.stream()?);
/// let (ones, twos) = (a.upload(&[1_u8; 2])?, b.upload(&[2_u8; 2])?);
/// let mut pinned = device.pinned::<u8>(4)?;
/// let (left, right) = pinned.split_at_mut(2);
/// a.copy(&ones, left)?;
/// b.copy(&twos, right)?; // does not wait for the other copy
/// assert_eq!(*pinned.read_range(2..)?, [2, 2]); // nor does this
/// assert_eq!(*pinned.read()?, [1, 1, 2, 2]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use]
pub struct PinnedViewMut<'a, T> {
    pub(super) span: PinnedSpan<'a>,
    pub(super) element: PhantomData<&'a mut T>,
}

views!(Pinned, PinnedView, PinnedViewMut);
len!(PinnedView);
len!(PinnedViewMut);
parts!(PinnedView, PinnedView, PinnedSpan);
parts!(PinnedViewMut, PinnedView, PinnedSpan);
parts_to_write!(PinnedViewMut);
