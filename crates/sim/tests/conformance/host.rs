//! Host memory that a rig keeps.

#![allow(unsafe_code, reason = "touches host memory as a host would")]

use std::ptr::NonNull;

use millstream_driver::DevicePtr;

/// Host memory of a rig, valid as long as that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: it is an address; the tests order the accesses that conflict.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    pub(crate) fn fill(self, value: u8) {
        // SAFETY: the memory is this large, and valid as long as its rig.
        unsafe { self.pointer.write_bytes(value, self.bytes) };
    }

    pub(crate) fn write(self, values: &[u8]) {
        assert_eq!(values.len(), self.bytes);
        // SAFETY: the memory is this large, and valid as long as its rig.
        unsafe {
            self.pointer
                .as_ptr()
                .copy_from_nonoverlapping(values.as_ptr(), self.bytes)
        };
    }

    pub(crate) fn read(self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: the memory is this large, initialised by the rig, and valid as long as that.
        unsafe {
            self.pointer
                .as_ptr()
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), self.bytes)
        };
        bytes
    }

    /// Whether every byte is `value`.
    pub(crate) fn is(self, value: u8) -> bool {
        self.read().iter().all(|&byte| byte == value)
    }

    pub(crate) fn address(self) -> DevicePtr {
        DevicePtr::from_raw(self.pointer.as_ptr().expose_provenance() as u64)
    }

    /// The part from `at` on.
    pub(crate) fn part(self, at: usize, bytes: usize) -> Self {
        assert!(at + bytes <= self.bytes);
        // SAFETY: the offset is inside the memory.
        let pointer = unsafe { self.pointer.add(at) };
        Self { pointer, bytes }
    }
}
