//! `DeviceState`: the part of one device that submission, polling and events need, however often it
//! is opened.
//!
//! Layers above keep their own state of the device in its slots, and act for it through
//! [`DeviceHooks`].

#![allow(
    unsafe_code,
    reason = "opens the device's context and makes its streams"
)]

use std::{
    fmt,
    panic::Location,
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use millstream_driver::{
    ContextHandle, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, DriverError, MemoryReuse,
    PoolHandle, PriorityRange, ResultCode,
};
use millstream_ptx::Label;
use parking_lot::Mutex;

use super::{
    admission::Admission,
    cross_device::CrossDeviceDependencies,
    events::EventPool,
    limits::Limits,
    loss::Loss,
    polling::query_stream,
    recorder::RecorderSlot,
    slots::{Slot, Slots},
    stream_state::StreamState,
    streams::Streams,
};
use crate::{
    Error, Result,
    disposal::log,
    sync::{AtomicBool, Ordering},
    tracker::{StreamId, Ticket},
};

/// The work of layers above that this layer starts. All of it is rare.
pub(crate) trait DeviceHooks: Sync {
    /// Does what was put off with [`DeviceState::set_deferred`]. Called before a submission and
    /// before a host wait.
    fn run_deferred(&self, device: &DeviceState);

    /// Gives back what was made for the device, without waiting. Its last handle is gone.
    fn close(&self, device: &mut DeviceState);
}

/// How many retired streams are looked at for one that is idle.
const RETIRED_SCAN_MAX: usize = 4;

/// Which of the process's devices this is.
#[derive(Clone, Copy, PartialEq)]
struct Opened {
    /// The line that opened it first.
    location: &'static Location<'static>,
    /// How many had been opened by then.
    number: u64,
}

/// How many devices have been opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// One device of one driver, shared by everything that was made from it.
pub(crate) struct DeviceState {
    pub(crate) driver: Arc<dyn Driver>,
    /// What the driver says of itself, which never changes.
    pub(crate) is_simulated: bool,
    pub(crate) ordinal: DeviceOrdinal,
    pub(crate) context: ContextHandle,
    pub(crate) name: String,
    pub(crate) selection_reason: String,
    opened: Opened,
    pub(crate) limits: Limits,
    pub(crate) pool: PoolHandle,
    pub(crate) events: EventPool,
    pub(crate) cross_device: CrossDeviceDependencies,
    pub(crate) recorder: RecorderSlot,
    /// What the layer of memory keeps for the device.
    pub(crate) memory_slot: Slot,
    /// What the layer of copies keeps for the device.
    pub(crate) copy_slot: Slot,
    /// What the layer of kernels keeps for the device.
    pub(crate) kernel_slot: Slot,
    /// What crates above this one keep for the device.
    pub(crate) slots: Slots,
    hooks: &'static dyn DeviceHooks,
    /// Whether a layer above may have put something off; read on every submission.
    deferred: AtomicBool,
    priorities: PriorityRange,
    pub(crate) streams: Streams,
    /// Streams whose handles are gone. They are used again once idle, never destroyed while the
    /// device is open: their tickets may still have to be waited for.
    retired: Mutex<Vec<Arc<StreamState>>>,
    lost: OnceLock<Loss>,
    pub(crate) admission: Admission,
}

impl DeviceState {
    /// Opens the device: its primary context, its default pool with a high release threshold (rule
    /// 36).
    pub(crate) fn open(
        driver: Arc<dyn Driver>,
        ordinal: DeviceOrdinal,
        selection_reason: &str,
        location: &'static Location<'static>,
        hooks: &'static dyn DeviceHooks,
    ) -> Result<Self> {
        let count = driver.device_count()?;
        if !(0..count).contains(&ordinal.as_raw()) {
            let reason = format!(
                "there is no device {} on {}: it has {count}",
                ordinal.as_raw(),
                driver.name()
            );
            return Err(Error::unavailable(reason));
        }
        if driver.device_attribute(ordinal, DeviceAttribute::MEMORY_POOLS_SUPPORTED)? == 0 {
            let reason = format!(
                "device {} has no stream-ordered allocator",
                ordinal.as_raw()
            );
            return Err(Error::unavailable(reason));
        }
        let name = driver.device_name(ordinal)?;
        let limits = Limits::of(&*driver, ordinal)?;
        let pool = driver.default_pool(ordinal)?;
        let context = driver.primary_context_retain(ordinal)?;
        // SAFETY: the pool is the device's default pool, which lives as long as the device.
        unsafe { driver.pool_set_release_threshold(pool, u64::MAX) }?;
        // SAFETY: the context was just retained.
        let priorities = unsafe { driver.stream_priority_range(context) }?;
        Ok(Self {
            is_simulated: driver.is_simulated(),
            driver,
            ordinal,
            context,
            name,
            selection_reason: selection_reason.to_owned(),
            opened: Opened {
                location,
                number: OPENED.fetch_add(1, Ordering::Relaxed) + 1,
            },
            limits,
            pool,
            events: EventPool::default(),
            cross_device: CrossDeviceDependencies::default(),
            recorder: RecorderSlot::default(),
            memory_slot: Slot::default(),
            copy_slot: Slot::default(),
            kernel_slot: Slot::default(),
            slots: Slots::default(),
            hooks,
            deferred: AtomicBool::new(false),
            priorities,
            streams: Streams::default(),
            retired: Mutex::new(Vec::new()),
            lost: OnceLock::new(),
            admission: Admission::default(),
        })
    }

    /// A stream of this priority: an idle one that nobody holds any more, or a new one.
    pub(crate) fn acquire_stream(&self, priority: i32) -> Result<Arc<StreamState>> {
        self.check_alive()?;
        let priority = priority.clamp(self.priorities.greatest, self.priorities.least);
        let candidates: Vec<_> = {
            let mut retired = self.retired.lock();
            let mut found = Vec::new();
            let mut at = 0;
            while at < retired.len() && found.len() < RETIRED_SCAN_MAX {
                if retired[at].priority == priority {
                    found.push(retired.swap_remove(at));
                } else {
                    at += 1;
                }
            }
            found
        };
        let mut idle = None;
        for stream in candidates {
            if idle.is_none() && query_stream(self, &stream).unwrap_or(false) {
                idle = Some(stream);
            } else {
                self.retired.lock().push(stream);
            }
        }
        if let Some(stream) = idle {
            return Ok(stream);
        }
        // SAFETY: the context is alive as long as this state.
        let handle =
            self.checked(unsafe { self.driver.stream_create(self.context, true, priority) })?;
        let number = self.driver.stream_number(handle);
        let added = self
            .streams
            .add(|id| StreamState::new(id, handle, priority).numbered(number));
        added.ok_or_else(|| {
            // SAFETY: the stream was just made, and nobody has it.
            let destroyed = unsafe { self.driver.stream_destroy(self.context, handle) };
            destroyed.map_or_else(
                |error| self.record_failure(error),
                |()| Error::unavailable(format!("{self} has too many streams")),
            )
        })
    }

    /// Takes back a stream whose handle is gone. Its work goes on.
    pub(crate) fn retire_stream(&self, stream: Arc<StreamState>) {
        self.retired.lock().push(stream);
    }

    /// The stream of this number, if it is one of this device's.
    #[inline]
    pub(crate) fn stream(&self, id: StreamId) -> Option<&Arc<StreamState>> {
        self.streams.get(id)
    }

    /// All streams ever made, retired ones included.
    pub(crate) fn all_streams(&self) -> Vec<Arc<StreamState>> {
        self.streams.iter().map(Arc::clone).collect()
    }

    /// Whether the ticket is known to be done. Asks no driver.
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.stream(ticket.stream)
            .is_some_and(|stream| stream.is_done(ticket.sequence))
    }

    /// Notes whether a layer above has put something off, for the next submission or host wait to
    /// start.
    pub(crate) fn set_deferred(&self, any: bool) {
        self.deferred.store(any, Ordering::Release);
    }

    /// Whether a layer above may have put something off.
    #[inline]
    pub(crate) fn has_deferred(&self) -> bool {
        self.deferred.load(Ordering::Acquire)
    }

    /// Starts what layers above have put off.
    #[inline]
    pub(crate) fn run_deferred(&self) {
        if self.has_deferred() {
            self.run_hooks_deferred();
        }
    }

    #[cold]
    fn run_hooks_deferred(&self) {
        self.hooks.run_deferred(self);
    }

    /// Passes a driver's answer on, and notes when it says that the context is lost.
    pub(crate) fn checked<T>(&self, result: Result<T, DriverError>) -> Result<T> {
        result.map_err(|error| self.record_failure(error))
    }

    /// Passes a driver's failure on, and notes it when it says that the context is lost.
    #[cold]
    pub(crate) fn record_failure(&self, error: DriverError) -> Error {
        if !error.code().is_sticky() {
            return Error::Driver(error);
        }
        let notice = || Loss::notice(error, self.ordinal, &self.all_streams());
        self.lose(notice).error()
    }

    /// Notes that the device is unusable; gives what was noted first.
    pub(crate) fn lose(&self, notice: impl FnOnce() -> Loss) -> &Loss {
        if let Some(loss) = self.lost.get() {
            return loss;
        }
        // Before the cell is locked: this takes other locks.
        let mut noticed = Some(notice());
        let loss = self
            .lost
            .get_or_init(|| noticed.take().expect("the cell is filled once"));
        self.admission.note_lost();
        if noticed.is_none() {
            let Loss { cause, suspects } = loss.clone();
            let device = self.to_string();
            log!(error, device, error = %cause, ?suspects, "the device is lost");
        }
        loss
    }

    /// What made the device unusable, if something has.
    pub(crate) fn lost(&self) -> Option<&DriverError> {
        self.loss().map(|loss| &loss.cause)
    }

    /// The same, with what may have done it.
    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.lost.get()
    }

    /// The number of a stream of this device.
    pub(crate) fn stream_number(&self, id: StreamId) -> u64 {
        self.stream(id).map_or(0, |stream| stream.number)
    }

    /// The numbers of the streams that have a handle or belong to a thread.
    #[cfg(feature = "sim")]
    pub(crate) fn held_streams(&self) -> Vec<u64> {
        let retired: Vec<_> = self
            .retired
            .lock()
            .iter()
            .map(|stream| stream.number)
            .collect();
        let mut numbers: Vec<_> = self
            .all_streams()
            .iter()
            .map(|stream| stream.number)
            .collect();
        numbers.retain(|number| !retired.contains(number));
        numbers
    }

    /// Names the objects that this thread creates until the label is dropped, for reports of a
    /// simulated device. `None` on a GPU.
    pub(crate) fn named(
        &self,
        label: &'static str,
        location: &'static Location<'static>,
    ) -> Option<Label> {
        self.is_simulated.then(|| Label::at(label, location))
    }

    /// Names memory that is given out again or kept for reuse.
    pub(crate) fn name_memory(
        &self,
        pointer: DevicePtr,
        label: &'static str,
        location: &'static Location<'static>,
    ) {
        self.driver.note_memory_reuse(&MemoryReuse {
            pointer,
            label,
            location,
        });
    }

    /// Both devices as text. If they have the same name, the text says where each was opened.
    pub(crate) fn told_apart(&self, other: &Self) -> (String, String) {
        let (one, two) = (self.to_string(), other.to_string());
        if one != two {
            return (one, two);
        }
        let same_line = self.opened.location == other.opened.location;
        let with_line = |text: String, opened: Opened| {
            let Opened { location, number } = opened;
            if same_line {
                format!("{text}, opened at {location} as number {number} of this process")
            } else {
                format!("{text}, opened at {location}")
            }
        };
        (with_line(one, self.opened), with_line(two, other.opened))
    }

    /// Whether the failure means that there was not enough memory.
    pub(crate) fn is_out_of_memory(error: &Error) -> bool {
        matches!(error, Error::Driver(driver) if driver.code() == ResultCode::OUT_OF_MEMORY)
    }
}

impl fmt::Display for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "device {} ({} by {})",
            self.ordinal.as_raw(),
            self.name,
            self.driver.name()
        )
    }
}

impl fmt::Debug for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceState")
            .field("ordinal", &self.ordinal)
            .field("name", &self.name)
            .finish()
    }
}

impl Drop for DeviceState {
    fn drop(&mut self) {
        self.hooks.close(self);
    }
}
