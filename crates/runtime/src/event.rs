//! `Event`: a point in a stream's work, with a time.

#![allow(
    unsafe_code,
    reason = "makes, queries, reads and destroys timing events"
)]

use std::{fmt, panic::Location, sync::Arc, time::Duration};

use millstream_driver::{EventHandle, EventKind};

use crate::{
    Result, Stream, UsageError, UsageErrorKind,
    context::{DeviceState, note_done, record_with_clock, wait_with_clock},
    disposal::log,
    future::wait_until,
    tracker::VectorClock,
};

/// A point in a stream's work, with the time at which the device got there.
///
/// For measuring, and for order by hand: between work of this library and work that another one
/// enqueues. Work of this library needs no events. Recorded by [`Stream::record`]; dropping an
/// event while it is pending is fine (rule 25).
///
/// ```
/// use millstream::Device;
///
/// let stream = Device::simulated()?.stream()?;
/// let start = stream.record()?;
/// let buffer = stream.upload(&vec![0_u8; 1 << 20])?;
/// let end = stream.record()?;
/// assert!(end.elapsed_since(&start)?.as_micros() > 10, "a mebibyte takes some 20 µs");
/// # drop(buffer);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Event {
    device: Arc<DeviceState>,
    handle: EventHandle,
    /// What is ordered before the event.
    clock: VectorClock,
    location: &'static Location<'static>,
}

impl Stream {
    /// Records an event behind everything submitted to the stream so far (rule 22).
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[track_caller]
    pub fn record(&self) -> Result<Event> {
        let location = Location::caller();
        let device = Arc::clone(self.device_state());
        let name = device.named("record", location);
        // SAFETY: the device's context is alive.
        let made = unsafe {
            device
                .driver
                .event_create(device.context, EventKind::Timing)
        };
        drop(name);
        let handle = device.checked(made)?;
        let mut event = Event {
            device,
            handle,
            clock: VectorClock::default(),
            location,
        };
        event.clock = record_with_clock(&event.device, self.state(), handle)?;
        Ok(event)
    }

    /// Holds back later work of this stream, on the device, until the event is complete (rule 24).
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// If the event is of another device, or the device is lost.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.same_device("wait_for", 0, &event.device)?;
        wait_with_clock(&event.device, self.state(), event.handle, &event.clock)
    }
}

impl Event {
    /// Whether the device has got there. Never blocks.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn is_complete(&self) -> Result<bool> {
        let device = &self.device;
        device.check_alive()?;
        // SAFETY: the event is alive as long as this.
        let answer =
            device.checked(unsafe { device.driver.event_query(device.context, self.handle) })?;
        if answer.is_complete() {
            note_done(device, &self.clock);
        }
        Ok(answer.is_complete())
    }

    /// Blocks this thread until the device has got there; later work of the stream is not waited
    /// for.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn wait(&self) -> Result<()> {
        wait_until(&*self.device.driver, || self.is_complete())
    }

    /// The time on the device from the earlier event to this one, to about half a microsecond.
    /// Waits until both are complete. Zero if this one came first.
    ///
    /// # Errors
    ///
    /// If the events are of different devices, or the device is lost.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration> {
        let device = &self.device;
        if !Arc::ptr_eq(device, &earlier.device) {
            let (operand_device, stream_device) = earlier.device.told_apart(device);
            let problem = UsageErrorKind::OtherDevice {
                operand: 0,
                name: Some("earlier"),
                operand_device,
                stream_device,
            };
            return Err(UsageError::new("elapsed_since", problem).into());
        }
        earlier.wait()?;
        self.wait()?;
        // SAFETY: both events are alive, recorded, and made for timing.
        let elapsed = unsafe {
            device
                .driver
                .event_elapsed_ms(device.context, earlier.handle, self.handle)
        };
        let elapsed_ms = device.checked(elapsed)?;
        Ok(Duration::from_secs_f64(
            f64::from(elapsed_ms.max(0.0)) / 1e3,
        ))
    }

    /// The driver's handle, for calls to other libraries. It is alive as long as this event.
    #[must_use]
    pub fn as_raw(&self) -> EventHandle {
        self.handle
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is alive and not used again; it may be pending (rule 25).
        let destroyed = unsafe {
            self.device
                .driver
                .event_destroy(self.device.context, self.handle)
        };
        if let Err(error) = destroyed {
            log!(debug, %error, "an event could not be destroyed");
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(recorded at {} on {})", self.location, self.device)
    }
}
