//! Sizes, alignments and ranges of elements in memory that drivers allocate.
//!
//! CUDA promises that every allocation is aligned to [`ALLOCATION_ALIGNMENT`] bytes (rule 56: the
//! least alignment of an allocation), and no more: on an H200 some page-locked allocations were
//! aligned to 512 bytes only. A reference to an element that needs more would be undefined
//! behaviour.

use std::ops::{Bound, Range, RangeBounds};

use millstream_driver::ALLOCATION_ALIGNMENT;

use crate::{UsageError, UsageErrorKind};

/// Returns a usage error for elements that need more alignment than drivers guarantee.
pub(crate) fn check_alignment<T>(operation: &'static str) -> Result<(), UsageError> {
    if align_of::<T>() <= ALLOCATION_ALIGNMENT {
        return Ok(());
    }
    let problem = UsageErrorKind::Alignment {
        element: std::any::type_name::<T>(),
        alignment: align_of::<T>(),
        guaranteed: ALLOCATION_ALIGNMENT,
    };
    Err(UsageError::new(operation, problem))
}

/// Refuses elements that need more alignment than device memory has, at compile time in a constant.
/// The code that `kernels!` generates calls it, because kernels are compiled for aligned elements.
///
/// # Panics
///
/// If the type needs an alignment of more than 256 bytes.
#[doc(hidden)]
pub const fn assert_device_alignment<T>() {
    assert!(
        align_of::<T>() <= ALLOCATION_ALIGNMENT,
        "a kernel's elements must not be aligned to more than 256 bytes, as device memory is"
    );
}

/// Returns the size of `len` elements in bytes, or a usage error if it exceeds the address space.
pub(crate) fn bytes_of<T>(operation: &'static str, len: usize) -> Result<usize, UsageError> {
    const {
        assert!(
            size_of::<T>() > 0,
            "elements without a size cannot be on a device"
        )
    };
    let element_bytes = size_of::<T>();
    match len.checked_mul(element_bytes) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(UsageError::new(
            operation,
            UsageErrorKind::TooLarge {
                elements: len,
                element_bytes,
            },
        )),
    }
}

/// Converts any range of elements of an array of `len` elements to a `Range`, without a bounds
/// check.
pub(crate) fn plain(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    start..end
}

pub(crate) fn lies_within(range: &Range<usize>, len: usize) -> bool {
    range.start <= range.end && range.end <= len
}

/// Converts any range of elements to a `Range` within `len`, or returns a usage error.
pub(crate) fn resolve(
    operation: &'static str,
    range: impl RangeBounds<usize>,
    len: usize,
) -> Result<Range<usize>, UsageError> {
    let range = plain(range, len);
    if lies_within(&range, len) {
        Ok(range)
    } else {
        Err(UsageError::new(
            operation,
            UsageErrorKind::Range { range, len },
        ))
    }
}

pub(crate) fn part_from(start: usize, len: usize) -> Range<usize> {
    start..start.saturating_add(len)
}
