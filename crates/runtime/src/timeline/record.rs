//! `Timeline`: notes down operations while it runs.

#![allow(unsafe_code, reason = "makes, reads and destroys timing events")]

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use millstream_driver::{ContextHandle, Driver, EventHandle, EventKind};
use parking_lot::Mutex;

use super::{Kind, Recording, TimedOperation};
use crate::{
    Result,
    device::{DeviceState, StreamState},
    submit::record_event,
    tracker::Ticket,
};

/// A device's running timeline, if there is one.
#[derive(Debug, Default)]
pub(crate) struct TimelineSlot {
    /// Read on every submission.
    running: AtomicBool,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    entries: Vec<Entry>,
    /// Events to destroy once nobody needs them.
    events: Vec<EventHandle>,
}

/// What is noted down of an operation besides its times.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) kind: Kind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) bytes: u64,
    pub(crate) ticket: Ticket,
    pub(crate) waits: Vec<Ticket>,
}

/// A noted operation and the events around it.
#[derive(Clone, Debug)]
struct Entry {
    note: Note,
    start: EventHandle,
    end: EventHandle,
}

/// An operation whose start is recorded.
pub(crate) struct Trace {
    start: EventHandle,
}

impl TimelineSlot {
    /// Records the start of an operation, if a timeline runs. A failure costs the operation its place in the timeline.
    pub(crate) fn begin(&self, device: &DeviceState, stream: &StreamState) -> Option<Trace> {
        if !self.running.load(Ordering::Acquire) {
            return None;
        }
        self.record(device, stream).map(|start| Trace { start })
    }

    /// Records the end of an operation and notes it down.
    pub(crate) fn end(&self, device: &DeviceState, stream: &StreamState, trace: Trace, note: Note) {
        if let Some(end) = self.record(device, stream) {
            self.notes.lock().entries.push(Entry {
                note,
                start: trace.start,
                end,
            });
        }
    }

    /// Destroys the events that are left. Nobody uses them any more.
    pub(crate) fn close(&self, driver: &dyn Driver, context: ContextHandle) {
        for event in self.notes.lock().events.drain(..) {
            // SAFETY: the event is alive and, as nobody uses the device any more, not used again.
            if let Err(error) = unsafe { driver.event_destroy(context, event) } {
                tracing::debug!(%error, "a timing event could not be destroyed");
            }
        }
    }

    /// A new timing event, recorded on the stream.
    fn record(&self, device: &DeviceState, stream: &StreamState) -> Option<EventHandle> {
        // SAFETY: the device's context is alive.
        let made = unsafe { device.driver.event_create(device.context, EventKind::Timing) };
        let event = device.checked(made).ok()?;
        self.notes.lock().events.push(event);
        record_event(device, stream, event).ok().map(|()| event)
    }
}

/// A device's operations being noted down.
///
/// While it runs, every operation costs two more events. Only one timeline of a device runs at a time; beginning another
/// ends the one before, whose recording is then empty.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let timeline = device.timeline()?;
/// let stream = device.stream()?;
/// let buffer = stream.upload(&[0_u8; 1 << 20])?;
/// stream.download(&buffer)?.wait()?;
/// let recording = timeline.finish()?;
/// assert!(recording.to_svg().starts_with("<svg"));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a timeline that is dropped is lost"]
pub struct Timeline {
    device: Arc<DeviceState>,
    origin: EventHandle,
}

impl Timeline {
    pub(crate) fn begin(device: &Arc<DeviceState>) -> Result<Self> {
        let stream = device.acquire_stream(0)?;
        // SAFETY: the device's context is alive.
        let made = unsafe { device.driver.event_create(device.context, EventKind::Timing) };
        let origin = device.checked(made)?;
        let mut notes = device.timeline.notes.lock();
        notes.events.push(origin);
        notes.entries.clear();
        drop(notes);
        let recorded = record_event(device, &stream, origin);
        device.retire_stream(stream);
        recorded?;
        device.timeline.running.store(true, Ordering::Release);
        Ok(Self {
            device: Arc::clone(device),
            origin,
        })
    }

    /// Ends the timeline: waits until every noted operation is done, and gives their times.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn finish(self) -> Result<Recording> {
        let device = &self.device;
        device.timeline.running.store(false, Ordering::Release);
        let entries = std::mem::take(&mut device.timeline.notes.lock().entries);
        let mut operations = Vec::with_capacity(entries.len());
        for Entry { note, start, end } in entries {
            // SAFETY: the event is alive: only `close` destroys it.
            device.checked(unsafe { device.driver.event_synchronize(device.context, end) })?;
            let time_ns = self.elapsed_ns(start)?..self.elapsed_ns(end)?;
            operations.push(TimedOperation {
                label: note.label,
                kind: note.kind,
                stream: note.ticket.stream.number(),
                sequence: note.ticket.sequence,
                time_ns,
                bytes: note.bytes,
                waits: note
                    .waits
                    .iter()
                    .map(|ticket| (ticket.stream.number(), ticket.sequence))
                    .collect(),
                location: note.location,
            });
        }
        device.timeline.close(&*device.driver, device.context);
        Ok(Recording {
            device: device.name.clone(),
            operations,
        })
    }

    /// Nanoseconds from the timeline's beginning to the event, which is complete.
    fn elapsed_ns(&self, event: EventHandle) -> Result<u64> {
        let device = &self.device;
        // SAFETY: both events are alive: only `close` destroys them.
        let elapsed = unsafe { device.driver.event_elapsed_ms(device.context, self.origin, event) };
        let elapsed_ms = device.checked(elapsed)?;
        // Negative for what was already running; to the nearest nanosecond otherwise.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, as wanted"
        )]
        let elapsed_ns = (f64::from(elapsed_ms) * 1e6).round() as u64;
        Ok(elapsed_ns)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.device.timeline.running.store(false, Ordering::Release);
    }
}
