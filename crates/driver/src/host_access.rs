//! Notes to a driver about events that it cannot see: the host's own loads and stores, memory that
//! is given out again, and the declared element types of a kernel's arrays.

use std::panic::Location;

use crate::DevicePtr;

/// The host reads or writes memory by itself that a device may use as well.
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
    /// The first byte's address.
    pub address: u64,
    /// How many bytes.
    pub bytes: usize,
    /// Whether they are written; else they are read.
    pub writes: bool,
    /// What the access is, for people.
    pub label: &'static str,
    /// The line of the program that it is made for.
    pub location: &'static Location<'static>,
}

/// An allocation is given out again by someone who has kept it: what it holds counts for nothing
/// from here on.
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
    /// Where the allocation begins.
    pub pointer: DevicePtr,
    /// What it is for now, for people.
    pub label: &'static str,
    /// The line of the program that it is given out for.
    pub location: &'static Location<'static>,
}

/// A kernel parameter that is declared as an array of floating-point numbers.
///
/// ```
/// use millstream_driver::FloatOperand;
/// let operand = FloatOperand { param: 0, name: "x", element: "f32", element_bytes: 4 };
/// assert_eq!(operand.element_bytes, size_of::<f32>());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatOperand {
    /// The parameter's place, from 0.
    pub param: usize,
    /// The parameter's name.
    pub name: &'static str,
    /// The name of the elements' type.
    pub element: &'static str,
    /// The size of an element in bytes.
    pub element_bytes: usize,
}
