//! The caller's memory: host ranges and kernel arguments that the caller promises to keep valid.

#![allow(unsafe_code, reason = "accesses host memory that its caller keeps")]

use std::ffi::c_void;

use super::SharedBytes;

/// A range of host memory that the caller promises to keep valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRange {
    address: usize,
    bytes: usize,
}

impl HostRange {
    /// Creates a range from the caller's pointer.
    ///
    /// # Safety
    ///
    /// The range must be valid for the operation's accesses until the operation is complete: reads
    /// of a source, writes of a destination. A registered range must be valid for both until it is
    /// unregistered. No other access may conflict with them.
    pub(crate) unsafe fn new(pointer: *const u8, bytes: usize) -> Self {
        Self {
            address: pointer.expose_provenance(),
            bytes,
        }
    }

    pub(crate) fn address(self) -> u64 {
        self.address as u64
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns a part of the range, which is at least as long.
    pub(crate) fn part(self, offset: u64, bytes: u64) -> Self {
        Self {
            address: self.address + offset as usize,
            bytes: bytes as usize,
        }
    }

    pub(crate) fn shared_bytes(&self) -> SharedBytes<'_> {
        let pointer = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the caller of `new` promised that the range is valid and accessed without
        // conflict while in use.
        unsafe { SharedBytes::from_raw(pointer, self.bytes) }
    }

    /// Returns the current content of `height` rows of `width` bytes in the range, concatenated.
    pub(crate) fn read_rows(&self, width: usize, height: usize, pitch: usize) -> Box<[u8]> {
        let mut bytes = vec![0; width * height];
        let shared_bytes = self.shared_bytes();
        for (row, to) in bytes.chunks_exact_mut(width).enumerate() {
            shared_bytes.copy_to(row * pitch, to);
        }
        bytes.into_boxed_slice()
    }
}

/// The caller's pointers to the arguments of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostParams<'a>(&'a [*const c_void]);

impl<'a> HostParams<'a> {
    /// Wraps the caller's pointers.
    ///
    /// # Safety
    ///
    /// Each pointer must be null, or point to a readable value of the size of the parameter at that
    /// index.
    pub(crate) unsafe fn new(pointers: &'a [*const c_void]) -> Self {
        Self(pointers)
    }

    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// Copies argument `index` into `to`, which must have the parameter's size. Returns `false` if
    /// the pointer is null.
    pub(crate) fn read(self, index: usize, to: &mut [u8]) -> bool {
        let from: *const u8 = self.0[index].cast();
        if from.is_null() {
            return false;
        }
        // SAFETY: the caller of `new` promised a readable value of the parameter's size, which is
        // the length of `to`.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }
}
