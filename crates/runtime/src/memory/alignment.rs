//! Alignment of elements in memory that drivers allocate.
//!
//! CUDA promises that every allocation is aligned to [`ALLOCATION_ALIGNMENT`] bytes (rule 56: the
//! least alignment of an allocation), and no more: on an H200 some page-locked allocations were
//! aligned to 512 bytes only. A reference to an element that needs more would be undefined
//! behaviour.

use millstream_driver::ALLOCATION_ALIGNMENT;

use crate::{UsageError, UsageErrorKind};

/// Refuses elements whose alignment memory of a driver need not have.
pub(super) fn check_alignment<T>(operation: &'static str) -> Result<(), UsageError> {
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

/// Refuses at compile time, in a constant, elements whose alignment device memory does not have.
/// Called by code that `kernels!` writes: a kernel is compiled for elements that are aligned.
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
