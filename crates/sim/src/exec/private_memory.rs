//! Private copies of the memory that a launch accesses, so that it can run without an effect.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::kernel_error::KernelError;
use super::kernel_errors::{KernelErrors, SharedKernelErrors};
use super::launch::{Alias, GlobalMemory, Region, alias};
use super::order::KernelOrder;
use super::texels::Image;
use crate::memory::Backing;

/// The maximum number of bytes copied for one run.
const BYTES_MAX: usize = 64 << 20;

/// Global memory that copies each allocation when it is first accessed, and prints nothing.
pub(super) struct PrivateMemory<'a> {
    original: &'a dyn GlobalMemory,
    copies: OnceLock<Box<Copied>>,
    aliases: Vec<Alias>,
    bytes: AtomicUsize,
    exceeded: AtomicBool,
    kernel_errors: SharedKernelErrors,
}

/// The copy of an allocation, and the next copy of the list.
struct Copied {
    base: u64,
    backing: Backing,
    writable: bool,
    next: OnceLock<Box<Copied>>,
}

impl<'a> PrivateMemory<'a> {
    pub(super) fn new(original: &'a dyn GlobalMemory) -> Self {
        Self {
            original,
            copies: OnceLock::new(),
            aliases: original.aliases(),
            bytes: AtomicUsize::new(0),
            exceeded: AtomicBool::new(false),
            kernel_errors: SharedKernelErrors::default(),
        }
    }

    /// Returns whether an allocation was not copied because the copies would have been too large.
    /// Its accesses have failed.
    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Relaxed)
    }

    /// Returns the errors of the run, which had the given order.
    pub(super) fn kernel_errors(self, order: KernelOrder) -> KernelErrors {
        self.kernel_errors.of_order(order)
    }

    fn copy(&self, address: u64) -> Option<Box<Copied>> {
        let region = self.original.region(address)?;
        let bytes = region.bytes.len();
        if self.bytes.fetch_add(bytes, Relaxed) + bytes > BYTES_MAX {
            self.exceeded.store(true, Relaxed);
            return None;
        }
        let backing = Backing::zeroed(bytes.max(1), 256)?;
        backing
            .shared_bytes()
            .copy_between(0, &region.bytes, 0, bytes)?;
        Some(Box::new(Copied {
            base: region.base,
            backing,
            writable: region.writable,
            next: OnceLock::new(),
        }))
    }
}

impl Copied {
    fn region(&self) -> Region<'_> {
        Region {
            base: self.base,
            bytes: self.backing.shared_bytes(),
            writable: self.writable,
        }
    }
}

impl GlobalMemory for PrivateMemory<'_> {
    fn kernel_error(&self, error: KernelError) {
        self.kernel_errors.add(error);
    }

    fn aliases(&self) -> Vec<Alias> {
        self.aliases.clone()
    }

    fn image(&self, handle: u64) -> Option<Image> {
        self.original.image(handle)
    }

    fn region(&self, address: u64) -> Option<Region<'_>> {
        if let Some((range, first)) = alias(&self.aliases, address) {
            return Some(Region {
                base: range.start,
                bytes: self.region(*first)?.bytes,
                writable: self.original.region(address)?.writable,
            });
        }
        let mut link = &self.copies;
        while let Some(copied) = link.get() {
            let region = copied.region();
            let offset = address.wrapping_sub(region.base);
            if offset < region.bytes.len() as u64 {
                return Some(region);
            }
            link = &copied.next;
        }
        let copied = self.copy(address)?;
        Some(link.get_or_init(|| copied).region())
    }
}
