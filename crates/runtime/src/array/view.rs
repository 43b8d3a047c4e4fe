//! Views: ranges of a buffer, tracked by their bytes.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Range, RangeBounds},
    panic::Location,
};

use millstream_driver::DevicePtr;

use crate::{
    Result, UsageError,
    element_layout::resolve,
    memory::Allocation,
    tracker::{Access, AccessKind},
};

/// A range of bytes in an allocation: a location without access rights.
#[derive(Clone)]
pub(crate) struct Span<'a> {
    pub(crate) allocation: &'a Allocation,
    /// The range of bytes from the start of the allocation.
    pub(crate) bytes: Range<usize>,
    /// Set if operations wait for conflicting ones here. If not, the caller of an unsafe method
    /// guarantees the order.
    pub(crate) ordered: bool,
    pub(crate) reach: Reach,
}

/// The way in which a kernel reaches a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// By its address, or as a texture.
    Own,
    /// From other devices too: see [`PeerView`](crate::array::PeerView).
    Peer,
    /// As a surface.
    Surface,
}

impl<'a> Span<'a> {
    #[inline]
    pub(crate) fn pointer(&self) -> DevicePtr {
        let first = match self.reach {
            Reach::Surface => self.allocation.surface(),
            _ => self.allocation.pointer,
        };
        first.offset(self.bytes.start as u64)
    }

    #[inline]
    pub(crate) fn access(&self, kind: AccessKind) -> Access<'a> {
        Access {
            ordered: self.ordered,
            ..Access::new(&self.allocation.history, self.range(), kind)
        }
    }

    /// Returns the range of bytes for the access history.
    #[inline]
    pub(super) fn range(&self) -> Range<u64> {
        self.bytes.start as u64..self.bytes.end as u64
    }

    /// Returns whether both have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        std::ptr::eq(self.allocation, other.allocation)
            && self.bytes.start.max(other.bytes.start) < self.bytes.end.min(other.bytes.end)
    }

    /// Splits the span into chunks of `chunk_bytes`. The last may be shorter.
    pub(crate) fn chunks(&self, chunk_bytes: usize) -> impl Iterator<Item = Self> {
        let (whole, bytes) = (self.clone(), self.bytes.clone());
        bytes.clone().step_by(chunk_bytes).map(move |start| Self {
            bytes: start..(start + chunk_bytes).min(bytes.end),
            ..whole.clone()
        })
    }

    pub(crate) fn subspan(self, range: Range<usize>, element_bytes: usize) -> Self {
        let start = self.bytes.start + range.start * element_bytes;
        Self {
            bytes: start..start + range.len() * element_bytes,
            ..self
        }
    }
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        write!(f, "{start}..{end} of {:?}", self.allocation)
    }
}

/// A view of a range of a [`Buffer`](crate::Buffer) for reading.
///
/// ```
/// use millstream::Device;
///
/// let stream = Device::simulated()?.stream()?;
/// let buffer = stream.upload(&[1, 2, 3, 4])?;
/// let middle = buffer.slice(1..3);
/// assert_eq!(middle.len(), 2);
/// assert_eq!(stream.download(middle)?.wait()?, [2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use]
pub struct View<'a, T> {
    pub(crate) span: Span<'a>,
    pub(crate) element: PhantomData<&'a T>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        Self::of(self.span.clone())
    }
}

/// A view of a range of a [`Buffer`](crate::Buffer) for writing. No two that exist at the same time
/// have a byte in common.
///
/// ```
/// use millstream::Device;
///
/// let stream = Device::simulated()?.stream()?;
/// let mut buffer = stream.zeros::<u8>(4)?;
/// let (mut left, mut right) = buffer.split_at_mut(2);
/// stream.fill(&mut left, 1)?;
/// stream.fill(&mut right, 2)?;
/// assert_eq!(stream.download(&buffer)?.wait()?, [1, 1, 2, 2]);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// Two that overlap do not compile:
///
/// ```compile_fail,E0499
/// # let stream = millstream::Device::simulated()?.stream()?;
/// # let mut buffer = stream.zeros::<u8>(4)?;
/// let mut left = buffer.slice_mut(0..3);
/// let mut right = buffer.slice_mut(2..4);
/// stream.fill(&mut left, 1)?;
/// stream.fill(&mut right, 2)?;
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use]
pub struct ViewMut<'a, T> {
    pub(crate) span: Span<'a>,
    pub(crate) element: PhantomData<&'a mut T>,
}

/// Implements the length of a view.
macro_rules! len {
    ($name:ident) => {
        impl<T> $name<'_, T> {
            /// Returns the number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.span
                    .bytes
                    .len()
                    .checked_div(size_of::<T>())
                    .unwrap_or(0)
            }

            /// Returns whether the view has no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

pub(super) use len;

len!(View);
len!(ViewMut);

/// Returns a part that lies within its array. Panics if it does not, at the caller's line.
#[track_caller]
pub(super) fn within<V>(part: Result<V, UsageError>) -> V {
    match part {
        Ok(part) => part,
        Err(usage_error) => panic!("{usage_error}"),
    }
}

/// Implements the parts of a view: `$read` is the view for reading of the same memory.
macro_rules! parts {
    ($name:ident, $read:ident, $span:ident) => {
        impl<'a, T> $name<'a, T> {
            pub(super) fn of(span: $span<'a>) -> Self {
                Self {
                    span,
                    element: PhantomData,
                }
            }

            /// Returns a part of the view for reading.
            ///
            /// # Panics
            ///
            /// If the range does not lie within the view, as for a slice. See
            /// [`try_slice`](Self::try_slice).
            #[track_caller]
            pub fn slice(&self, range: impl RangeBounds<usize>) -> $read<'_, T> {
                within(self.part(range))
            }

            /// Returns a part of the view for reading.
            ///
            /// # Errors
            ///
            /// If the range does not lie within the view.
            #[track_caller]
            pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Result<$read<'_, T>> {
                let location = Location::caller();
                Ok(self
                    .part(range)
                    .map_err(|usage_error| usage_error.at(location))?)
            }

            /// Returns the part of the view at `range` for reading.
            fn part(&self, range: impl RangeBounds<usize>) -> Result<$read<'_, T>, UsageError> {
                $read::of(self.span.clone()).into_part(range)
            }

            /// Returns the part of the view at `range`.
            pub(super) fn into_part(
                self,
                range: impl RangeBounds<usize>,
            ) -> Result<Self, UsageError> {
                let range = resolve("slice", range, self.len())?;
                Ok(Self::of(self.span.subspan(range, size_of::<T>())))
            }
        }

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.span)
            }
        }
    };
}

/// Implements the parts of a view for writing.
macro_rules! parts_to_write {
    ($name:ident) => {
        impl<'a, T> $name<'a, T> {
            /// Returns a part of the view for writing.
            ///
            /// # Panics
            ///
            /// If the range does not lie within the view. See
            /// [`try_slice_mut`](Self::try_slice_mut).
            #[track_caller]
            pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> $name<'_, T> {
                within(self.reborrow().into_part(range))
            }

            /// Returns a part of the view for writing.
            ///
            /// # Errors
            ///
            /// If the range does not lie within the view.
            #[track_caller]
            pub fn try_slice_mut(
                &mut self,
                range: impl RangeBounds<usize>,
            ) -> Result<$name<'_, T>> {
                let location = Location::caller();
                let part = self.reborrow().into_part(range);
                Ok(part.map_err(|usage_error| usage_error.at(location))?)
            }

            /// Reborrows the view, so that an operation does not consume it.
            pub fn reborrow(&mut self) -> $name<'_, T> {
                $name::of(self.span.clone())
            }

            /// Splits the view in two: the first `middle` elements, and the rest.
            ///
            /// # Panics
            ///
            /// If `middle` is greater than the length of the view.
            #[track_caller]
            pub fn split_at_mut(self, middle: usize) -> ($name<'a, T>, $name<'a, T>) {
                let len = self.len();
                assert!(
                    middle <= len,
                    "split at {middle} of a view of {len} elements"
                );
                let left = self.span.clone().subspan(0..middle, size_of::<T>());
                let right = self.span.subspan(middle..len, size_of::<T>());
                (Self::of(left), Self::of(right))
            }

            /// The view in parts of `chunk_len` elements, the last perhaps shorter.
            ///
            /// # Panics
            ///
            /// If `chunk_len` is 0.
            #[track_caller]
            pub fn chunks_mut(self, chunk_len: usize) -> impl Iterator<Item = $name<'a, T>> {
                assert!(chunk_len > 0, "chunks of no elements");
                let len = self.len();
                let span = self.span;
                (0..len).step_by(chunk_len).map(move |start| {
                    let range = start..(start + chunk_len).min(len);
                    $name::of(span.clone().subspan(range, size_of::<T>()))
                })
            }
        }
    };
}

pub(super) use {parts, parts_to_write};

parts!(View, View, Span);
parts!(ViewMut, View, Span);
parts_to_write!(ViewMut);
