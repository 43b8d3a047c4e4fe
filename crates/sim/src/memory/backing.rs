//! Host memory that backs simulated memory. All accesses go through [`SharedBytes`].

#![allow(unsafe_code, reason = "owns memory that threads access concurrently")]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
};

use super::SharedBytes;

/// Zeroed memory of the host's allocator with a given alignment. The operating system commits its
/// pages on first access.
#[derive(Debug)]
pub(crate) struct Backing {
    block: NonNull<u8>,
    layout: Layout,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: this value owns the block exclusively, and all accesses go through `SharedBytes`, which
// are atomic.
unsafe impl Send for Backing {}
// SAFETY: as for `Send`: `SharedBytes` makes concurrent accesses atomic.
unsafe impl Sync for Backing {}

impl Backing {
    /// Allocates `bytes` (not 0) zeroed bytes at a multiple of `align`, a power of two. Returns
    /// `None` if the host is out of memory.
    pub(crate) fn zeroed(bytes: usize, align: usize) -> Option<Self> {
        debug_assert!(bytes > 0 && align.is_power_of_two());
        // For an alignment above 16 the allocator zeroes the block itself, which touches every
        // page. So request a larger block and align the start here.
        const ALIGN_CHEAP: usize = 16;
        let slack = align.saturating_sub(ALIGN_CHEAP);
        let layout = Layout::from_size_align(bytes.checked_add(slack)?, ALIGN_CHEAP).ok()?;
        // SAFETY: the layout's size is not 0, since `bytes` is not.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let address = block.as_ptr() as usize;
        let shift = address.next_multiple_of(align) - address;
        // SAFETY: `shift` is at most `slack`, so the result is inside the block.
        let start = unsafe { block.add(shift) };
        Some(Self {
            block,
            layout,
            start,
            bytes,
        })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn shared_bytes(&self) -> SharedBytes<'_> {
        // SAFETY: the block is valid as long as `self` is, and this type gives access through
        // `SharedBytes` only. The host also accesses page-locked and managed memory by address; the
        // `Driver` contract excludes host accesses while the device uses the memory.
        unsafe { SharedBytes::from_raw(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: the block came from `alloc_zeroed` with this layout, and no `SharedBytes`
        // outlives `self`.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}
