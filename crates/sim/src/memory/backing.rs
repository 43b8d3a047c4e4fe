//! Host memory that backs simulated memory. All accesses go through [`SharedBytes`].

#![allow(unsafe_code, reason = "owns memory that threads access concurrently")]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use memmap2::MmapMut;

use super::shared_bytes::SharedBytes;

/// The size from which memory is mapped. The host's allocator may hand out freed memory again, and
/// then zeroes, which is to touch, all of it.
const MAPPED_MIN_BYTES: usize = 64 << 10;

/// The maximum number of bytes of live memory that are filled with a pattern, which touches them.
const POISONED_MAX_BYTES: usize = 64 << 20;

/// The largest alignment of a mapping.
const PAGE_BYTES: usize = 4096;

/// Zeroed memory of the host with a given alignment. The operating system commits its pages on
/// first access.
#[derive(Debug)]
pub(crate) struct Backing {
    block: Block,
    start: NonNull<u8>,
    bytes: usize,
    /// The number of poisoned bytes that this memory counts in, if it is poisoned.
    poisoned: Option<Arc<AtomicUsize>>,
}

/// The owner of the memory.
#[derive(Debug)]
enum Block {
    Allocated(NonNull<u8>, Layout),
    Mapped(#[expect(dead_code, reason = "unmaps the memory when dropped")] MmapMut),
}

// SAFETY: this value owns the block exclusively, and all accesses go through `SharedBytes`, which
// are atomic.
unsafe impl Send for Backing {}
// SAFETY: as for `Send`: `SharedBytes` makes concurrent accesses atomic.
unsafe impl Sync for Backing {}

impl Backing {
    /// Allocates `bytes` (not 0) zeroed bytes at a multiple of `align`, a power of two up to a
    /// page. Returns `None` if the host is out of memory.
    pub(crate) fn zeroed(bytes: usize, align: usize) -> Option<Self> {
        debug_assert!(bytes > 0 && align.is_power_of_two() && align <= PAGE_BYTES);
        if bytes >= MAPPED_MIN_BYTES {
            let mut mapped = MmapMut::map_anon(bytes).ok()?;
            let start = NonNull::new(mapped.as_mut_ptr())?;
            return Some(Self {
                block: Block::Mapped(mapped),
                start,
                bytes,
                poisoned: None,
            });
        }
        // The allocator zeroes a block of a larger alignment itself, which takes longer: request a
        // larger block and align the start here.
        const ALIGN_CHEAP: usize = 16;
        let slack = align.saturating_sub(ALIGN_CHEAP);
        let layout = Layout::from_size_align(bytes + slack, ALIGN_CHEAP).ok()?;
        // SAFETY: the layout's size is not 0, since `bytes` is not.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let address = block.as_ptr() as usize;
        let shift = address.next_multiple_of(align) - address;
        // SAFETY: `shift` is at most `slack`, so the result is inside the block.
        let start = unsafe { block.add(shift) };
        Some(Self {
            block: Block::Allocated(block, layout),
            start,
            bytes,
            poisoned: None,
        })
    }

    /// Fills the memory with a pattern, unless too much memory is filled with it.
    pub(super) fn poison(&mut self, pattern: &[u8], poisoned: &Arc<AtomicUsize>) {
        if poisoned.fetch_add(self.bytes, Relaxed) + self.bytes > POISONED_MAX_BYTES {
            poisoned.fetch_sub(self.bytes, Relaxed);
            return;
        }
        self.shared_bytes().fill(0, self.bytes, pattern);
        self.poisoned = Some(Arc::clone(poisoned));
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
        if let Some(poisoned) = &self.poisoned {
            poisoned.fetch_sub(self.bytes, Relaxed);
        }
        if let Block::Allocated(block, layout) = self.block {
            // SAFETY: the block came from `alloc_zeroed` with this layout, and no `SharedBytes`
            // outlives `self`.
            unsafe { dealloc(block.as_ptr(), layout) }
        }
    }
}
