//! `Closed`: waits until a device is closed.

use std::{
    panic::Location,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    Device, Result, UsageError, UsageErrorKind,
    context::{DeviceState, Visit, has_pending_work, in_foreign_call},
    disposal::is_in_user_code,
    sync::IdleCondvar,
};

/// The time for which a device without pending work may be kept open by this library's threads.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);
/// The time between two looks at a device that is still open, and the longest sleep.
const LOOK: Duration = Duration::from_millis(10);
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// The name of the waiting methods in their errors.
const NAME: &str = "closed";

/// Set once a device has freed its resources.
#[derive(Debug, Default)]
struct CloseSignal {
    is_closed: Mutex<bool>,
    changed: IdleCondvar,
}

pub(super) struct ReportClosed(Arc<CloseSignal>);

impl ReportClosed {
    pub(super) fn of(device: &DeviceState) -> Self {
        Self(device.slots.get_or_make(CloseSignal::default))
    }
}

impl Drop for ReportClosed {
    fn drop(&mut self) {
        *self.0.is_closed.lock() = true;
        self.0.changed.notify_all();
    }
}

/// Waits until a device is closed. [`Device::closed`] returns it; it does not keep the device open.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
///
/// let gpu = Gpu::new(SimConfig::new());
/// let device = Device::open_simulated(&gpu, 0)?;
/// let stream = device.stream()?;
/// let zeros = stream.zeros::<u8>(1 << 20)?; // may be pending when the last handle is dropped
/// let closed = device.closed();
/// drop((zeros, stream, device));
/// closed.wait()?;
/// assert_eq!(gpu.live_object_counts().streams, 0);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Closed {
    device: Weak<DeviceState>,
    name: Arc<str>,
    signal: Arc<CloseSignal>,
}

impl Device {
    /// Returns a value with which a thread waits until the device is closed. A device is closed
    /// once its last handle is dropped, its work is complete, and its resources are freed, or left
    /// to another device that shares its context or has access to its memory. If it was lost,
    /// resources that only an idle device can free remain until the process ends.
    #[must_use]
    pub fn closed(&self) -> Closed {
        Closed {
            device: Arc::downgrade(self.state()),
            name: self.to_string().into(),
            signal: self.state().slots.get_or_make(CloseSignal::default),
        }
    }
}

impl Closed {
    /// Returns whether the device is closed. Never blocks.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.signal.is_closed.lock()
    }

    /// Blocks this thread until the device is closed. All handles must have been dropped before:
    /// devices, streams, arrays, graphs and pending results.
    ///
    /// # Errors
    ///
    /// If the device is still open a second after all work of its driver is complete, which means
    /// that a handle exists ([`UsageErrorKind::StillOpen`]); or if the thread cannot wait because
    /// it runs a waker, a destructor or a foreign call for this library
    /// ([`UsageErrorKind::InCallback`]).
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        let location = Location::caller();
        let mut idle_since = None;
        while !self.wait_timeout(LOOK)? {
            if Visit::to(&self.device).is_none_or(|device| has_pending_work(&device)) {
                idle_since = None;
                continue;
            }
            if idle_since.get_or_insert_with(Instant::now).elapsed() > RELEASED_WITHIN {
                let device = self.name.to_string();
                let usage_error = UsageError::new(NAME, UsageErrorKind::StillOpen { device });
                return Err(usage_error.at(location).into());
            }
        }
        Ok(())
    }

    /// Blocks this thread until the device is closed, for at most `timeout`. Returns whether it is.
    /// Handles may still exist, and be dropped by other threads meanwhile.
    ///
    /// # Errors
    ///
    /// If the thread cannot wait, as for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        let started = Instant::now();
        let mut is_closed = self.signal.is_closed.lock();
        if !*is_closed && (is_in_user_code() || in_foreign_call()) {
            let usage_error = UsageError::new(NAME, UsageErrorKind::InCallback);
            return Err(usage_error.at(Location::caller()).into());
        }
        while !*is_closed {
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            self.signal
                .changed
                .wait_for(&mut is_closed, left.min(SLEEP_MAX));
        }
        Ok(true)
    }
}
