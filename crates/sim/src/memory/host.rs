//! Memory of the caller: ranges and kernel arguments that it promises to keep valid.

#![allow(
    unsafe_code,
    reason = "reads and writes memory that the caller vouches for in the Driver contract"
)]

use std::ffi::c_void;

use super::SharedBytes;

/// A range of host memory that the caller vouches for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRange {
    address: usize,
    bytes: usize,
}

impl HostRange {
    /// Takes the caller's word.
    ///
    /// # Safety
    ///
    /// The range is valid for the accesses that the operation makes to it (reads of a source,
    /// writes of a target, both of a registered range) until the operation is done (the range is
    /// unregistered), and nothing accesses it in conflict with them.
    pub(crate) unsafe fn new(pointer: *const u8, bytes: usize) -> Self {
        Self {
            address: pointer.expose_provenance(),
            bytes,
        }
    }

    /// The first address.
    pub(crate) fn address(self) -> u64 {
        self.address as u64
    }

    /// The length in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// The memory.
    pub(crate) fn shared_bytes(&self) -> SharedBytes<'_> {
        let pointer = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: whoever made this range promised that it is valid and accessed without conflict
        // while it is in use.
        unsafe { SharedBytes::from_raw(pointer, self.bytes) }
    }

    /// What `height` rows of `width` bytes in the range hold now, one after the other.
    pub(crate) fn read_rows(&self, width: usize, height: usize, pitch: usize) -> Box<[u8]> {
        let mut bytes = vec![0; width * height];
        let shared_bytes = self.shared_bytes();
        for (row, to) in bytes.chunks_exact_mut(width).enumerate() {
            shared_bytes.copy_to(row * pitch, to);
        }
        bytes.into_boxed_slice()
    }
}

/// The arguments of a launch, as the caller points to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostParams<'a>(&'a [*const c_void]);

impl<'a> HostParams<'a> {
    /// Takes the caller's word.
    ///
    /// # Safety
    ///
    /// Each pointer is null or points to a readable value of the size of the parameter of that
    /// place.
    pub(crate) unsafe fn new(pointers: &'a [*const c_void]) -> Self {
        Self(pointers)
    }

    /// How many arguments there are.
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// Copies argument `index` into `to`, which has the parameter's size. `false` if the pointer is
    /// null.
    pub(crate) fn read(self, index: usize, to: &mut [u8]) -> bool {
        let from: *const u8 = self.0[index].cast();
        if from.is_null() {
            return false;
        }
        // SAFETY: the maker of `self` promised a readable value of the parameter's size, which `to`
        // has.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }
}
