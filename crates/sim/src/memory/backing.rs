//! Real memory that stands behind simulated memory. Everything that touches it goes through
//! [`SharedBytes`].

#![allow(
    unsafe_code,
    reason = "owns raw memory that several threads reach at once, as a device's memory is reached"
)]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
};

use super::SharedBytes;

/// Zeroed memory of the host's allocator, at an address aligned as asked. The system backs it page
/// by page, when touched.
#[derive(Debug)]
pub(crate) struct Backing {
    block: NonNull<u8>,
    layout: Layout,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the block belongs to this value alone, and is reached only through `SharedBytes`, whose
// accesses are atomic.
unsafe impl Send for Backing {}
// SAFETY: as above: `SharedBytes` makes concurrent accesses atomic.
unsafe impl Sync for Backing {}

impl Backing {
    /// `bytes` (not 0) zeroed bytes at a multiple of `align`, a power of two; `None` if the host
    /// has no such memory.
    pub(crate) fn zeroed(bytes: usize, align: usize) -> Option<Self> {
        debug_assert!(bytes > 0 && align.is_power_of_two());
        // The allocator clears a block by itself, touching every page, if it must align it by more
        // than 16. So align here.
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

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The memory.
    pub(crate) fn shared_bytes(&self) -> SharedBytes<'_> {
        // SAFETY: the block is valid as long as `self` is, and this type gives access through
        // `SharedBytes` only. Page-locked and managed memory is also given to the host by its
        // address, whose owner keeps to the `Driver` contract: no access of the host while the
        // device uses it.
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
