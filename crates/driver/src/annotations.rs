//! Annotations: facts that a checking driver needs and cannot observe, namely the host's own loads
//! and stores, reuse of allocations, and the declared element types of a kernel's arrays.

use std::panic::Location;

use crate::DevicePtr;

/// A read or write by the host of memory that a device may also access.
///
/// ```
/// use std::panic::Location;
/// use millstream_driver::HostAccess;
/// let bytes = [0_u8; 4];
/// let access = HostAccess {
///     address: bytes.as_ptr().addr() as u64,
///     bytes: bytes.len(),
///     writes: false,
///     label: "checksum",
///     location: Location::caller(),
/// };
/// assert!(!access.writes);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HostAccess {
    /// The address of the first byte.
    pub address: u64,
    /// The number of bytes.
    pub bytes: usize,
    /// The direction of the access: true for a write, false for a read.
    pub writes: bool,
    /// A description of the access, for reports.
    pub label: &'static str,
    /// The source line of the program that causes the access.
    pub location: &'static Location<'static>,
}

/// The reuse of an allocation for new contents. Its old contents are undefined from here on.
///
/// ```
/// use std::panic::Location;
/// use millstream_driver::{DevicePtr, MemoryReuse};
/// let reuse = MemoryReuse {
///     pointer: DevicePtr::from_raw(0x7000_0000),
///     label: "array",
///     location: Location::caller(),
/// };
/// assert_eq!(reuse.label, "array");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MemoryReuse {
    /// The start of the allocation.
    pub pointer: DevicePtr,
    /// A description of its new use, for reports.
    pub label: &'static str,
    /// The source line of the program that requests the memory.
    pub location: &'static Location<'static>,
}

/// A kernel parameter that is declared as an array of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatOperand {
    /// The parameter's index, from 0.
    pub param: usize,
    /// The parameter's name.
    pub name: &'static str,
    /// The name of the element type.
    pub element: &'static str,
    /// The size of an element, in bytes.
    pub element_bytes: usize,
}
