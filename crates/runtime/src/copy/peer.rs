//! Copies between devices.

use std::panic::Location;

use crate::{Result, Stream, memory::Span2d};

impl Stream {
    /// Copies rows between two devices of one driver, one of them the stream's device. Both spans
    /// have the same rows and row length.
    pub(super) fn copy_peer(
        &self,
        from: &Span2d<'_>,
        to: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        from.device().check_alive()?;
        to.device().check_alive()?;
        if from.is_empty() {
            return Ok(());
        }
        self.copy_peer_staged(from, to, location)
    }

    /// Returns whether one of two spans is on the stream's device and the other on another device of
    /// the same driver.
    pub(super) fn crosses(&self, from: &Span2d<'_>, to: &Span2d<'_>) -> bool {
        let (ours, from, to) = (self.device_state(), from.device(), to.device());
        !std::sync::Arc::ptr_eq(from, to)
            && (std::sync::Arc::ptr_eq(ours, from) || std::sync::Arc::ptr_eq(ours, to))
            && from.shares_driver(to)
    }
}
