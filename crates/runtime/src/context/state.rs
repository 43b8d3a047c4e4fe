//! `DeviceState`: the state of one device that submission, polling and events need, shared by all
//! its handles.
//!
//! Layers above keep their own per-device state in its slots, and act for the device through
//! [`DeviceHooks`].

#![allow(unsafe_code, reason = "opens a context and creates its streams")]

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use millstream_driver::{
    ContextHandle, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, DriverError, EventKind,
    MemoryReuse, PoolHandle, PriorityRange, ResultCode,
};
use millstream_ptx::Label;
use parking_lot::Mutex;

use super::{
    admission::{Admission, in_foreign_call},
    events::EventPool,
    limits::Limits,
    loss::Loss,
    realm::{self, Visit},
    slots::{
        AdoptionLayer, CopyLayer, DeviceSlot, KernelLayer, MemoryLayer, MultiDeviceLayer, OpenSlot,
        PageLockedLayer, Slots, TraceLayer,
    },
    stream_state::StreamState,
    streams::{RetiredStreams, Streams},
};
use crate::{
    Error, Result, UsageError, UsageErrorKind,
    disposal::log,
    spans,
    sync::Ordering,
    tracker::{DeviceNumber, StreamId, Ticket},
};

/// Callbacks through which this layer starts work of the layers above. All of them are rare.
pub(crate) trait DeviceHooks: Sync {
    /// Performs the work deferred with [`DeviceState::set_deferred`]. Called before a submission
    /// and before a host wait.
    fn run_deferred(&self, device: &DeviceState);

    /// Frees the device's resources without waiting. Called when its last handle is dropped.
    fn close(&self, device: &mut DeviceState);

    /// Drops the device on another thread, because this one may hold locks.
    fn close_later(&self, device: DeviceState);
}

/// The identity of an opened device within the process, for messages.
#[derive(Clone, Copy, PartialEq)]
struct Opened {
    /// The source line that first opened the device.
    location: &'static Location<'static>,
    /// The number of devices opened until then, this one included.
    number: u64,
}

/// The number of devices opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(0);

pub(crate) struct DeviceStream {
    pub(crate) device: Visit,
    pub(crate) stream: Arc<StreamState>,
}

/// One device of one driver, shared by everything created from it.
pub(crate) struct DeviceState {
    pub(crate) driver: Arc<dyn Driver>,
    /// The result of `Driver::is_simulated`, which never changes.
    pub(crate) is_simulated: bool,
    waits_exactly: AtomicBool,
    pub(crate) ordinal: DeviceOrdinal,
    pub(crate) context: ContextHandle,
    pub(crate) name: String,
    pub(crate) selection_reason: String,
    opened: Opened,
    pub(crate) limits: Limits,
    pub(crate) pool: PoolHandle,
    pub(crate) events: EventPool,
    /// The events that are recorded on streams of other libraries.
    pub(crate) owners_events: EventPool,
    pub(super) trace_slot: <TraceLayer as DeviceSlot>::Value,
    pub(crate) multi_device_slot: <MultiDeviceLayer as DeviceSlot>::Value,
    pub(crate) memory_slot: <MemoryLayer as DeviceSlot>::Value,
    pub(crate) page_locked_slot: <PageLockedLayer as DeviceSlot>::Value,
    pub(crate) copy_slot: <CopyLayer as DeviceSlot>::Value,
    pub(crate) kernel_slot: <KernelLayer as DeviceSlot>::Value,
    /// The state that crates above this one keep for the device.
    pub(crate) slots: Slots,
    hooks: &'static dyn DeviceHooks,
    priorities: PriorityRange,
    /// The device's streams. The realm resolves tickets of this device through the same table.
    pub(crate) streams: Arc<Streams>,
    pub(super) retired: Mutex<RetiredStreams>,
    /// The streams of other libraries.
    pub(super) adoption_slot: <AdoptionLayer as DeviceSlot>::Value,
    lost: OnceLock<Loss>,
    pub(crate) admission: Admission,
}

impl DeviceState {
    /// Opens the device: retains its primary context and sets a high release threshold for its
    /// default pool (rule 36: the threshold is 0 by default, which returns freed memory at the next
    /// synchronisation).
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
                "cannot open device {} of {}: the driver has {count} device(s)",
                ordinal.as_raw(),
                driver.name()
            );
            return Err(Error::unavailable(reason));
        }
        if driver.device_attribute(ordinal, DeviceAttribute::MEMORY_POOLS_SUPPORTED)? == 0 {
            let reason = format!(
                "cannot open device {}: it does not support the stream-ordered allocator",
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
        let admission = Admission::default();
        if spans::is_on() {
            admission.use_spans();
        }
        // SAFETY: the context was just retained.
        let priorities = unsafe { driver.stream_priority_range(context) }?;
        Ok(Self {
            is_simulated: driver.is_simulated(),
            waits_exactly: AtomicBool::new(false),
            trace_slot: Default::default(),
            adoption_slot: Default::default(),
            multi_device_slot: Default::default(),
            memory_slot: Default::default(),
            page_locked_slot: PageLockedLayer::open(&driver, context),
            copy_slot: Default::default(),
            kernel_slot: Default::default(),
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
            events: EventPool::new(EventKind::Ordering),
            owners_events: EventPool::new(EventKind::Interprocess),
            slots: Slots::default(),
            hooks,
            priorities,
            streams: Arc::new(Streams::new(DeviceNumber::next())),
            retired: Mutex::default(),
            lost: OnceLock::new(),
            admission,
        })
    }

    /// Returns a stream of this priority, clamped to the device's range: an idle retired stream, or
    /// a new one.
    pub(crate) fn acquire_stream(&self, priority: i32) -> Result<Arc<StreamState>> {
        self.check_alive()?;
        let priority = self.clamped(priority);
        if let Some(stream) = self.take_idle(priority) {
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
            // SAFETY: the stream was just created and is not used anywhere.
            let destroyed = unsafe { self.driver.stream_destroy(self.context, handle) };
            destroyed.map_or_else(
                |error| self.record_failure(error),
                |()| {
                    Error::unavailable(format!(
                        "cannot create a stream: {self} has too many streams"
                    ))
                },
            )
        })
    }

    #[inline]
    pub(crate) fn events_of(&self, stream: &StreamState) -> &EventPool {
        match stream.is_own() {
            true => &self.events,
            false => &self.owners_events,
        }
    }

    /// Returns the priority of the device's range that is nearest to this one.
    pub(super) fn clamped(&self, priority: i32) -> i32 {
        priority.clamp(self.priorities.greatest, self.priorities.least)
    }

    #[inline]
    pub(crate) fn stream(&self, id: StreamId) -> Option<&Arc<StreamState>> {
        self.streams.get(id)
    }

    /// Returns all streams ever created, including retired ones.
    pub(crate) fn all_streams(&self) -> Vec<Arc<StreamState>> {
        self.streams.iter().map(Arc::clone).collect()
    }

    /// Records a sync point behind each later operation, and keeps all of them, so that no stream
    /// waits for more than it must. For devices of the simulator only.
    #[cfg(feature = "sim")]
    pub(crate) fn wait_exactly(&self) {
        self.waits_exactly.store(true, Relaxed);
    }

    /// Returns whether [`wait_exactly`](Self::wait_exactly) was called.
    pub(crate) fn waits_exactly(&self) -> bool {
        self.waits_exactly.load(Relaxed)
    }

    /// Returns whether the ticket, of this device or another, is known to be complete, without a
    /// driver call.
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        match self.stream(ticket.stream) {
            Some(stream) => stream.is_done(ticket.sequence),
            None => realm::is_done(ticket),
        }
    }

    /// Returns the stream with this id and its device. `None` if that device is closed: then all
    /// its operations that matter to other devices are complete.
    pub(crate) fn find(self: &Arc<Self>, id: StreamId) -> Option<DeviceStream> {
        match self.stream(id) {
            Some(stream) => Some(DeviceStream {
                device: Visit::new(Arc::clone(self)),
                stream: Arc::clone(stream),
            }),
            None => realm::find(id),
        }
    }

    /// Calls `body` with the stream of this id and its device. Like [`find`](Self::find), but
    /// changes no reference count for a stream of this device.
    pub(crate) fn with_stream<R>(
        &self,
        id: StreamId,
        body: impl FnOnce(&Self, &StreamState) -> R,
    ) -> Option<R> {
        if let Some(stream) = self.stream(id) {
            return Some(body(self, stream));
        }
        let DeviceStream { device, stream } = realm::find(id)?;
        Some(body(&device, &stream))
    }

    /// Returns whether both devices belong to one driver, so that operations may use memory of
    /// both.
    pub(crate) fn shares_driver(&self, other: &Self) -> bool {
        self.driver.handle_space() == other.driver.handle_space()
    }

    pub(crate) fn number(&self) -> DeviceNumber {
        self.streams.device()
    }

    /// Sets whether a layer above has deferred work, which the next submission or host wait starts.
    pub(crate) fn set_deferred(&self, any: bool) {
        self.admission.defer(any);
    }

    /// Returns whether a layer above may have deferred work.
    #[inline]
    pub(crate) fn has_deferred(&self) -> bool {
        self.admission.has_deferred()
    }

    /// Starts the deferred work of the layers above.
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

    /// Converts a driver's result, and marks the device lost if the error says that the context is
    /// lost.
    pub(crate) fn checked<T>(&self, result: Result<T, DriverError>) -> Result<T> {
        result.map_err(|error| self.record_failure(error))
    }

    /// Converts a driver's error, and marks the device lost if the error says that the context is
    /// lost.
    #[cold]
    pub(crate) fn record_failure(&self, error: DriverError) -> Error {
        if !error.code().is_sticky() {
            return Error::Driver(error);
        }
        let notice = || Loss::notice(error, self.ordinal, &self.all_streams());
        self.lose(notice).error()
    }

    /// Marks the device lost. Returns the loss that was noted first.
    pub(crate) fn lose(&self, notice: impl FnOnce() -> Loss) -> &Loss {
        if let Some(loss) = self.lost.get() {
            return loss;
        }
        // Called before the cell is initialised, because it takes other locks.
        let mut noticed = Some(notice());
        let loss = self.lost.get_or_init(|| {
            noticed
                .take()
                .expect("`get_or_init` calls its closure at most once")
        });
        self.admission.note_lost();
        if noticed.is_none() {
            let Loss { cause, suspects } = loss.clone();
            let device = self.to_string();
            log!(error, device, error = %cause, ?suspects, "the device is lost");
        }
        loss
    }

    pub(crate) fn lost(&self) -> Option<&DriverError> {
        self.loss().map(|loss| &loss.cause)
    }

    /// Returns the error that made the device unusable together with the suspects, if it is lost.
    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.lost.get()
    }

    /// Returns the number of a stream of this device, or 0 for a stream of another device.
    pub(crate) fn stream_number(&self, id: StreamId) -> u64 {
        self.stream(id).map_or(0, |stream| stream.number)
    }

    /// Labels the objects that this thread creates until the label is dropped, for reports of a
    /// simulated device. Returns `None` on a GPU.
    pub(crate) fn named(
        &self,
        label: &'static str,
        location: &'static Location<'static>,
    ) -> Option<Label> {
        self.is_simulated.then(|| Label::at(label, location))
    }

    /// Labels memory that is reused or kept for reuse.
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

    /// Returns both devices as text. If their names are equal, the text says where each was opened.
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

    /// Returns an error if the device is lost, or if this thread is inside a foreign call.
    #[inline]
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.admission.is_clear() {
            return Ok(());
        }
        self.check_reasons()
    }

    #[cold]
    fn check_reasons(&self) -> Result<()> {
        if let Some(loss) = self.loss() {
            return Err(loss.error());
        }
        if in_foreign_call() {
            return Err(UsageError::new("foreign call", UsageErrorKind::InForeignCall).into());
        }
        Ok(())
    }

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

impl DeviceState {
    /// Closes the device on another thread.
    pub(super) fn close_later(self) {
        self.hooks.close_later(self);
    }
}

impl Drop for DeviceState {
    fn drop(&mut self) {
        self.hooks.close(self);
        realm::leave(self.streams.device());
    }
}
