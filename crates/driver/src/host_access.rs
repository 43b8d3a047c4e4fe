//! What a driver can be told about the host's own loads and stores, which it cannot see.

use std::panic::Location;

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
