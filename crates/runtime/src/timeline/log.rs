//! `Timeline`: traces operations with timing events.

#![allow(unsafe_code, reason = "creates, reads and destroys timing events")]

use std::sync::Arc;

use millstream_driver::{ContextHandle, Driver, EventHandle, EventKind};
use parking_lot::Mutex;

use super::{TimedOperation, Trace};
use crate::{
    Device, Result,
    context::{DeviceState, StreamState, TracedOperation, Tracer, record_event},
    disposal::log,
    tracker::StreamId,
};

/// The operations that one timeline has traced. Its events live as long as a thread may record or
/// read one.
#[derive(Debug)]
struct OperationLog {
    driver: Arc<dyn Driver>,
    context: ContextHandle,
    operations: Mutex<Vec<LoggedOperation>>,
    events: Mutex<Vec<EventHandle>>,
}

/// A traced operation with the events before and after it.
#[derive(Clone, Debug)]
struct LoggedOperation {
    operation: TracedOperation,
    start: EventHandle,
    end: EventHandle,
}

impl Tracer for OperationLog {
    fn start(&self, device: &DeviceState, stream: &StreamState) -> Option<EventHandle> {
        self.record(device, stream).ok()
    }

    fn end(
        &self,
        device: &DeviceState,
        stream: &StreamState,
        start: EventHandle,
        operation: TracedOperation,
    ) {
        if let Ok(end) = self.record(device, stream) {
            self.operations.lock().push(LoggedOperation {
                operation,
                start,
                end,
            });
        }
    }
}

impl OperationLog {
    fn record(&self, device: &DeviceState, stream: &StreamState) -> Result<EventHandle> {
        // SAFETY: the device's context is alive.
        let event = unsafe { self.driver.event_create(self.context, EventKind::Timing) };
        let event = device.checked(event)?;
        self.events.lock().push(event);
        record_event(device, stream, event)?;
        Ok(event)
    }
}

impl OperationLog {
    /// Records the origin on an idle stream. Returns it with its time on the driver's clock, which
    /// is between those before the record and after the wait for it: of several tries the shortest
    /// tells it best.
    fn origin(
        &self,
        device: &DeviceState,
        stream: &StreamState,
        tries: u32,
    ) -> Result<(EventHandle, u64)> {
        if tries == 0 {
            return Ok((self.record(device, stream)?, 0));
        }
        let mut measured = Vec::new();
        for _ in 0..tries {
            let before_ns = self.driver.now_ns();
            let event = self.record(device, stream)?;
            wait_for(device, event)?;
            let after_ns = self.driver.now_ns().max(before_ns);
            measured.push((after_ns - before_ns, event, before_ns.midpoint(after_ns)));
        }
        measured.sort_by_key(|&(doubt_ns, ..)| doubt_ns);
        Ok((measured[0].1, measured[0].2))
    }
}

/// Waits until an event of a timeline is complete.
fn wait_for(device: &DeviceState, event: EventHandle) -> Result<()> {
    // SAFETY: the event lives as long as the timeline.
    device.checked(unsafe { device.driver.event_synchronize(device.context, event) })
}

impl Drop for OperationLog {
    fn drop(&mut self) {
        for event in self.events.get_mut().drain(..) {
            // SAFETY: the event is alive and has no users left. It may be pending (rule 25:
            // destroying a pending event is allowed).
            if let Err(error) = unsafe { self.driver.event_destroy(self.context, event) } {
                log!(debug, %error, "cannot destroy a timing event");
            }
        }
    }
}

/// Collects the times of a device's operations, until it is finished.
///
/// While a timeline runs, every operation records two additional events. A device has at most one
/// running timeline: starting another ends the previous one, which keeps the operations traced
/// until then.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let timeline = device.timeline()?;
/// let stream = device.stream()?;
/// let buffer = stream.upload(&[0_u8; 1 << 20])?;
/// stream.download(&buffer)?.wait()?;
/// let trace = timeline.finish()?;
/// assert!(trace.to_svg().starts_with("<svg"));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a timeline discards its trace"]
pub struct Timeline {
    device: Arc<DeviceState>,
    log: Arc<OperationLog>,
    tracer: Arc<dyn Tracer>,
    origin: EventHandle,
    /// The time of the driver's clock at the origin, if it was measured.
    origin_ns: u64,
}

impl Device {
    /// Starts to trace every operation of the device, until the timeline is finished or dropped.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[doc(alias("profiler", "nsys"))]
    pub fn timeline(&self) -> Result<Timeline> {
        Timeline::begin(self.state(), 0)
    }
}

impl Timeline {
    /// Begins a timeline. With `tries`, measures the time of its origin on the driver's clock.
    pub(super) fn begin(device: &Arc<DeviceState>, tries: u32) -> Result<Self> {
        let log = Arc::new(OperationLog {
            driver: Arc::clone(&device.driver),
            context: device.context,
            operations: Mutex::default(),
            events: Mutex::default(),
        });
        let stream = device.acquire_stream(0)?;
        let origin = log.origin(device, &stream, tries);
        device.retire_stream(stream);
        let (origin, origin_ns) = origin?;
        let tracer: Arc<dyn Tracer> = Arc::clone(&log) as Arc<dyn Tracer>;
        device.tracer().set(&device.admission, Arc::clone(&tracer));
        Ok(Self {
            device: Arc::clone(device),
            log,
            tracer,
            origin,
            origin_ns,
        })
    }

    /// Ends the timeline: waits until every traced operation is complete, and returns their
    /// times.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn finish(self) -> Result<Trace> {
        let device = &self.device;
        device.tracer().remove(&device.admission, &self.tracer);
        let logged = std::mem::take(&mut *self.log.operations.lock());
        wait_for(device, self.origin)?;
        let mut operations = Vec::with_capacity(logged.len());
        for LoggedOperation {
            operation,
            start,
            end,
        } in logged
        {
            wait_for(device, end)?;
            let time_ns = self.elapsed_ns(start)?..self.elapsed_ns(end)?;
            operations.push(TimedOperation {
                label: operation.label,
                kind: operation.kind,
                stream: device.stream_number(operation.ticket.stream),
                sequence: operation.ticket.sequence.get(),
                time_ns,
                bytes: operation.bytes,
                waits: operation
                    .waits
                    .iter()
                    .map(|ticket| (number_of(device, ticket.stream), ticket.sequence.get()))
                    .collect(),
                location: operation.location,
            });
        }
        Ok(Trace {
            device: device.name.clone(),
            operations,
        })
    }

    /// Returns the time of the driver's clock at the origin, which was measured.
    pub(super) fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Returns the nanoseconds from the start of the timeline to the event. Both events are
    /// complete.
    fn elapsed_ns(&self, event: EventHandle) -> Result<u64> {
        let device = &self.device;
        // SAFETY: both events live as long as this timeline.
        let elapsed = unsafe {
            device
                .driver
                .event_elapsed_ms(device.context, self.origin, event)
        };
        let elapsed_ms = device.checked(elapsed)?;
        // Negative for operations that started before the timeline, which saturates to 0; otherwise
        // rounded to the nearest nanosecond.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, as intended"
        )]
        let elapsed_ns = (f64::from(elapsed_ms) * 1e6).round() as u64;
        Ok(elapsed_ns)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        let device = &self.device;
        device.tracer().remove(&device.admission, &self.tracer);
    }
}

/// Returns the number of a stream of this device or another, or 0 if its device is closed.
fn number_of(device: &DeviceState, stream: StreamId) -> u64 {
    let number = device.with_stream(stream, |_, stream| stream.number);
    number.unwrap_or(0)
}
