//! Alignment of elements in memory that drivers allocate.
//!
//! A driver aligns every allocation to [`ALLOCATION_ALIGNMENT`] bytes, and memory that the host reaches
//! usually to a page. A type that needs more must not have references into such memory: they would be
//! undefined behaviour.

use millstream_driver::ALLOCATION_ALIGNMENT;

use crate::{Misuse, Problem};

/// The largest alignment of elements in page-locked or managed memory, in bytes: that of a page.
const HOST_ALIGNMENT_MAX: usize = 4096;

/// An error if elements of this type are never put into page-locked or managed memory.
pub(super) fn check_alignment<T>(operation: &'static str) -> Result<(), Misuse> {
    if align_of::<T>() <= HOST_ALIGNMENT_MAX {
        return Ok(());
    }
    Err(misaligned::<T>(operation, HOST_ALIGNMENT_MAX))
}

/// An error if elements of this type cannot begin at an address that a driver gave. Only types with a
/// larger alignment than every allocation has can fail.
pub(super) fn check_address<T>(operation: &'static str, address: usize) -> Result<(), Misuse> {
    if address.is_multiple_of(align_of::<T>()) {
        return Ok(());
    }
    Err(misaligned::<T>(operation, 1 << address.trailing_zeros()))
}

fn misaligned<T>(operation: &'static str, guaranteed: usize) -> Misuse {
    let problem = Problem::Alignment {
        element: std::any::type_name::<T>(),
        alignment: align_of::<T>(),
        guaranteed,
    };
    Misuse::new(operation, problem)
}

/// Refuses at compile time, in a constant, elements whose alignment device memory does not have. Called
/// by code that `kernels!` writes: a kernel is compiled for elements that are aligned.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(512))]
    struct Wide;

    #[test]
    fn an_address_is_checked_where_every_allocation_is_not_aligned_enough() {
        assert!(check_address::<u64>("pinned", 256).is_ok());
        assert!(check_address::<Wide>("pinned", 1024).is_ok());
        let error = check_address::<Wide>("pinned", 768).expect_err("half of the alignment");
        assert_eq!(
            error.to_string(),
            format!(
                "pinned: elements of type `{}` are aligned to 512 bytes, and this memory to no more than \
                 256: use a type with a smaller alignment",
                std::any::type_name::<Wide>()
            )
        );
    }
}
