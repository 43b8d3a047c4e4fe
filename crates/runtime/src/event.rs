//! `Event`: a timing event recorded in a stream.

#![allow(unsafe_code, reason = "makes, queries and destroys timing events")]

use std::{fmt, panic::Location, sync::Arc, time::Duration};

use millstream_driver::{EventHandle, EventKind};

use crate::{
    Result, Stream, UsageError, UsageErrorKind,
    context::{
        AtCaller, DeviceState, follow_owner, make_owner_follow, note_done, record_with_clock,
        wait_until, wait_with_clock,
    },
    disposal::log,
    tracker::VectorClock,
};

/// A CUDA event recorded in a stream, with the device time at which the stream reached it.
///
/// An event measures time and orders work by hand: work of this library with work that another
/// library enqueues. Work of this library alone needs no events. [`Stream::record`] creates one. An
/// event may be dropped while it is pending ([rule 25]: destroying a pending event is allowed).
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
///
/// [rule 25]: crate::guide::semantics#rule-25
#[doc(alias("CUevent", "cudaEvent_t", "CudaEvent", "torch.cuda.Event"))]
pub struct Event {
    device: Arc<DeviceState>,
    handle: EventHandle,
    /// The vector clock of the operations ordered before the event.
    clock: VectorClock,
    location: &'static Location<'static>,
}

const NO_EVENTS: &str = "the recorder orders its operations by the bytes that they use, and a \
                         replay is ordered like any operation: use events around the replay";

impl Stream {
    /// Records an event after everything submitted to the stream so far ([rule 22]: a record
    /// captures the stream's work at the time of the call).
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let zeros = stream.zeros::<u8>(1 << 20)?;
    /// let filled = stream.record()?;
    /// let copy = stream.download(&zeros)?;
    /// filled.wait()?; // for the zeros, not for the download
    /// assert!(filled.is_complete()?);
    /// # drop(copy);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the device is lost.
    ///
    /// [rule 22]: crate::guide::semantics#rule-22
    #[track_caller]
    #[doc(alias("cuEventRecord", "cudaEventRecord", "record_event"))]
    pub fn record(&self) -> Result<Event> {
        self.device_state()
            .refuse_recording(self.state(), "record", NO_EVENTS)?;
        let location = Location::caller();
        let device = Arc::clone(self.device_state());
        follow_owner(&device, self.state()).at_caller("record", location)?;
        let name = device.named("record", location);
        // SAFETY: the device's context is alive.
        let event = unsafe {
            device
                .driver
                .event_create(device.context, EventKind::Timing)
        };
        drop(name);
        let handle = device.checked(event)?;
        let mut event = Event {
            device,
            handle,
            clock: VectorClock::default(),
            location,
        };
        event.clock = record_with_clock(&event.device, self.state(), handle)?;
        Ok(event)
    }

    /// Makes later work of this stream wait on the device until the event is complete ([rule 24]: a
    /// wait delays only later work of the waiting stream). Never blocks the host.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new());
    /// let device = Device::open_simulated(&gpu, 0)?;
    /// let (first, second) = (device.stream()?, device.stream()?);
    /// let hold = gpu.hold(first.as_raw()); // the simulated device stops the first stream here
    /// second.wait_for(&first.record()?)?;
    /// let ones = second.upload(&[1_u8; 100])?;
    /// assert!(!second.is_idle()?); // the upload waits for the first stream
    /// hold.release();
    /// assert_eq!(second.download(&ones)?.wait()?, [1; 100]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the event is of a device of another driver, one of the devices is lost, or this stream is
    /// adopted and captured.
    ///
    /// [rule 24]: crate::guide::semantics#rule-24
    #[track_caller]
    #[doc(alias(
        "cuStreamWaitEvent",
        "cudaStreamWaitEvent",
        "wait_event",
        "wait_stream",
        "join"
    ))]
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        let location = Location::caller();
        self.device_state()
            .refuse_recording(self.state(), "wait_for", NO_EVENTS)?;
        let (device, owner) = (self.device_state(), &event.device);
        if !device.shares_driver(owner) {
            self.same_device("wait_for", 0, owner)
                .map_err(|error| error.at(location))?;
        }
        wait_with_clock(device, self.state(), owner, event.handle, &event.clock)?;
        make_owner_follow(device, self.state()).at_caller("wait_for", location)
    }
}

impl Event {
    /// Returns whether the event is complete. Never blocks.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[doc(alias("cuEventQuery", "cudaEventQuery", "query"))]
    pub fn is_complete(&self) -> Result<bool> {
        let device = &self.device;
        device.check_alive()?;
        // SAFETY: the driver's event lives as long as `self`.
        let answer =
            device.checked(unsafe { device.driver.event_query(device.context, self.handle) })?;
        if answer.is_complete() {
            note_done(device, &self.clock);
        }
        Ok(answer.is_complete())
    }

    /// Blocks this thread until the event is complete. Later work of the stream is not waited for.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[doc(alias("cuEventSynchronize", "cudaEventSynchronize"))]
    pub fn wait(&self) -> Result<()> {
        wait_until(&*self.device.driver, || self.is_complete())
    }

    /// Returns the device time from the earlier event to this one, with a resolution of about half
    /// a microsecond. Waits until both events are complete. The result is zero if this event came
    /// first.
    ///
    /// # Errors
    ///
    /// If the events are of different devices, or the device is lost.
    #[track_caller]
    #[doc(alias(
        "cuEventElapsedTime",
        "cudaEventElapsedTime",
        "elapsed_time",
        "elapsed_ms"
    ))]
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration> {
        let device = &self.device;
        if !Arc::ptr_eq(device, &earlier.device) {
            let (operand_device, stream_device) = earlier.device.told_apart(device);
            let problem = UsageErrorKind::OtherDevice {
                operand: 0,
                name: Some("earlier"),
                operand_device,
                stream_device,
                advice: "",
            };
            let usage_error = UsageError::new("elapsed_since", problem);
            return Err(usage_error.at(Location::caller()).into());
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

    /// Returns the driver's handle, for calls to other libraries. It is valid as long as this event
    /// lives.
    #[must_use]
    pub fn as_raw(&self) -> EventHandle {
        self.handle
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is alive and not used again; it may be pending (rule 25: destroying a
        // pending event is allowed).
        let destroyed = unsafe {
            self.device
                .driver
                .event_destroy(self.device.context, self.handle)
        };
        if let Err(error) = destroyed {
            log!(debug, %error, "cannot destroy an event");
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(recorded at {} on {})", self.location, self.device)
    }
}
