//! The host's own accesses to memory that the device reaches, told to drivers that check them.
//!
//! An access has two ends, and both are told: an operation that was there before it and is not
//! over, and one that comes while it lasts, are equally in its way. A GPU's driver makes nothing of
//! it, so an access costs two calls that do nothing.

use std::{
    panic::{AssertUnwindSafe, Location},
    sync::Arc,
};

use millstream_driver::{Driver, HostAccess};

/// An access of the host's, which lasts until this is dropped.
pub(crate) struct HostAccessGuard<'a> {
    driver: AssertUnwindSafe<&'a dyn Driver>,
    access: HostAccess,
}

impl<'a> HostAccessGuard<'a> {
    /// The host reads these bytes from now on.
    pub(crate) fn reads(
        driver: &'a Arc<dyn Driver>,
        pointer: *const u8,
        bytes: usize,
        label: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        Self::begin(driver, pointer, bytes, false, label, location)
    }

    /// The host writes these bytes from now on.
    pub(crate) fn writes(
        driver: &'a Arc<dyn Driver>,
        pointer: *const u8,
        bytes: usize,
        label: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        Self::begin(driver, pointer, bytes, true, label, location)
    }

    fn begin(
        driver: &'a Arc<dyn Driver>,
        pointer: *const u8,
        bytes: usize,
        writes: bool,
        label: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        let access = HostAccess {
            address: pointer.addr() as u64,
            bytes,
            writes,
            label,
            location,
        };
        driver.note_host_access(&access);
        Self {
            driver: AssertUnwindSafe(&**driver),
            access,
        }
    }
}

impl Drop for HostAccessGuard<'_> {
    fn drop(&mut self) {
        self.driver.note_host_access(&self.access);
    }
}
