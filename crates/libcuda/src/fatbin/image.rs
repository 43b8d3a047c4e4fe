//! Fat binaries in the memory of a program, which passes their address and no size.
//!
//! The address is that of a container or of a wrapper. Compiled programs have a wrapper for each
//! container: a magic number, a version, the container's address, and a field for the linker.
#![allow(unsafe_code, reason = "reads a fat binary at the caller's address")]

use std::ffi::c_void;

use super::{FatbinError, HEADER_BYTES, MAGIC, container_bytes};

const WRAPPER_MAGIC: u32 = 0x4662_43b1;

/// A wrapper, as NVIDIA's header `fatbinary_section.h` declares it.
#[repr(C)]
struct Wrapper {
    /// [`WRAPPER_MAGIC`].
    magic: u32,
    /// 1 for a container; 2 for one that the device linker has still to join with others.
    version: u32,
    data: *const u8,
    /// The name of a file or, in version 2, the other containers.
    other: *const c_void,
}

/// Returns whether memory that starts with these bytes is a fat binary or its wrapper.
#[must_use]
pub fn is_fatbin(start: [u8; 4]) -> bool {
    [MAGIC, WRAPPER_MAGIC].contains(&u32::from_le_bytes(start))
}

/// Returns the bytes of the container at `image`, or of the container whose wrapper is there.
///
/// # Safety
///
/// `image` must point to a container or a wrapper, whose start [`is_fatbin`] accepts. It and the
/// container of a wrapper must be readable in the size that their headers give, and must not change
/// during `'a`.
pub unsafe fn bytes_at<'a>(image: *const c_void) -> Result<&'a [u8], FatbinError> {
    // SAFETY: the caller guarantees that a container or a wrapper is readable here, and both are
    // larger than their magic number.
    let magic = unsafe { image.cast::<u32>().read_unaligned() };
    let container = if magic == WRAPPER_MAGIC {
        // SAFETY: the magic number says that this is a wrapper, which the caller guarantees to be
        // readable.
        let wrapper = unsafe { image.cast::<Wrapper>().read_unaligned() };
        if wrapper.version != 1 {
            return Err(FatbinError::UnknownVersion {
                version: u16::try_from(wrapper.version).unwrap_or(u16::MAX),
            });
        }
        if wrapper.data.is_null() {
            return Err(FatbinError::Corrupt {
                reason: "a wrapper without a container".into(),
            });
        }
        wrapper.data
    } else {
        image.cast()
    };
    // SAFETY: the caller guarantees that the container, which has at least this header, is readable
    // and does not change.
    let header = unsafe { std::slice::from_raw_parts(container, HEADER_BYTES) };
    let size = container_bytes(header)?;
    // SAFETY: the caller guarantees that the container is readable in the size that its header
    // gives, and does not change.
    Ok(unsafe { std::slice::from_raw_parts(container, size) })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    /// A container without entries, with two more bytes.
    const EMPTY: [u8; 18] = [
        0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7,
    ];

    fn wrapper(version: u32, data: *const u8) -> Wrapper {
        Wrapper {
            magic: WRAPPER_MAGIC,
            version,
            data,
            other: ptr::null(),
        }
    }

    #[test]
    fn a_container_is_found_directly_and_through_a_wrapper() {
        // SAFETY: the array is a container, and is not changed.
        let direct = unsafe { bytes_at(EMPTY.as_ptr().cast()) };
        assert_eq!(direct.unwrap(), &EMPTY[..16]);
        let wrapper = wrapper(1, EMPTY.as_ptr());
        // SAFETY: this is a wrapper around a container, which are not changed.
        let wrapped = unsafe { bytes_at((&raw const wrapper).cast()) };
        assert_eq!(wrapped.unwrap(), &EMPTY[..16]);
        assert!(is_fatbin(*EMPTY.first_chunk().unwrap()));
        assert!(is_fatbin(WRAPPER_MAGIC.to_le_bytes()));
        assert!(!is_fatbin(*b"\x7fELF") && !is_fatbin(*b".ver"));
    }

    #[test]
    fn wrappers_of_other_versions_or_without_a_container_are_refused() {
        let linked = wrapper(2, EMPTY.as_ptr());
        // SAFETY: this is a wrapper around a container, which are not changed.
        let error = unsafe { bytes_at((&raw const linked).cast()) }.unwrap_err();
        assert_eq!(error, FatbinError::UnknownVersion { version: 2 });
        let without = wrapper(1, ptr::null());
        // SAFETY: this is a wrapper, and it is not changed.
        let error = unsafe { bytes_at((&raw const without).cast()) }.unwrap_err();
        assert!(error.to_string().contains("without a container"), "{error}");
    }
}
