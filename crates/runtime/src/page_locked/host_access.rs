//! Accesses of the host to memory shared with the device, reported to drivers that check them.
//!
//! The beginning and the end of an access are both reported: an operation that is pending when the
//! access begins conflicts with it, and so does one submitted while the access lasts. A GPU's
//! driver ignores the report, so an access costs two calls that do nothing.

use std::{
    panic::{AssertUnwindSafe, Location},
    sync::Arc,
};

use millstream_driver::{Driver, HostAccess};

/// An access of the host, which lasts until this is dropped.
pub(crate) struct HostAccessGuard<'a> {
    driver: AssertUnwindSafe<&'a dyn Driver>,
    access: HostAccess,
}

impl<'a> HostAccessGuard<'a> {
    pub(crate) fn reads(
        driver: &'a Arc<dyn Driver>,
        pointer: *const u8,
        bytes: usize,
        label: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        Self::begin(driver, pointer, bytes, false, label, location)
    }

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
