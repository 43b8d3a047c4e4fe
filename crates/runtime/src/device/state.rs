//! What a process knows of one device, however often it is opened: its context, streams, pools and health.

#![allow(
    unsafe_code,
    reason = "opens and closes the device's context, streams and pools"
)]

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use millstream_driver::{
    ContextHandle, DeviceAttribute, DeviceOrdinal, Driver, DriverError, PoolHandle, PriorityRange, ResultCode,
};
use parking_lot::Mutex;

use super::{
    attention::Attention, closing::Remains, events::EventPool, health::Loss, limits::Limits, slots::Slots,
    sources::Sources, stream_state::StreamState, streams::Streams, tenancy::Tenancy,
};
use crate::{
    Error, Result,
    completion::query_stream,
    copy::{KeptSources, Tuning},
    disposal::log,
    kernel::ModuleCache,
    memory::{Account, Parked, Reclaim, StagingPool},
    timeline::TimelineSlot,
    tracker::{StreamId, Ticket},
};

/// How many retired streams are looked at for one that is idle.
const RETIRED_LOOK_AT_MAX: usize = 4;

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
    /// Who else has the context open.
    pub(super) tenancy: Arc<Tenancy>,
    pub(crate) name: String,
    pub(crate) note: String,
    opened: Opened,
    pub(crate) limits: Limits,
    pub(crate) pool: PoolHandle,
    pub(crate) events: EventPool,
    pub(crate) account: Account,
    pub(crate) staging: StagingPool,
    pub(crate) reclaim: Reclaim,
    pub(crate) parked: Parked,
    pub(crate) sources: Sources,
    pub(crate) kept_sources: KeptSources,
    tuning: OnceLock<Tuning>,
    pub(crate) modules: ModuleCache,
    pub(crate) timeline: TimelineSlot,
    /// What crates above this one keep here.
    pub(super) slots: Slots,
    priorities: PriorityRange,
    streams: Streams,
    /// Streams whose handles are gone. They are used again once idle, never destroyed while the device is open: their
    /// tickets may still have to be waited for.
    pub(super) retired: Mutex<Vec<Arc<StreamState>>>,
    lost: OnceLock<Loss>,
    pub(super) attention: Attention,
}

impl DeviceState {
    /// Opens the device: its primary context, its default pool with a high release threshold (rule 36).
    pub(crate) fn open(
        driver: Arc<dyn Driver>,
        ordinal: DeviceOrdinal,
        note: &str,
        location: &'static Location<'static>,
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
            let reason = format!("device {} has no stream-ordered allocator", ordinal.as_raw());
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
            tenancy: Tenancy::of(driver.handle_space(), context),
            driver,
            ordinal,
            context,
            name,
            note: note.to_owned(),
            opened: Opened {
                location,
                number: OPENED.fetch_add(1, Ordering::Relaxed) + 1,
            },
            limits,
            pool,
            events: EventPool::default(),
            account: Account::default(),
            staging: StagingPool::default(),
            reclaim: Reclaim::default(),
            parked: Parked::default(),
            sources: Sources::default(),
            kept_sources: KeptSources::default(),
            tuning: OnceLock::new(),
            modules: ModuleCache::default(),
            timeline: TimelineSlot::default(),
            slots: Slots::default(),
            priorities,
            streams: Streams::default(),
            retired: Mutex::new(Vec::new()),
            lost: OnceLock::new(),
            attention: Attention::default(),
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
            while at < retired.len() && found.len() < RETIRED_LOOK_AT_MAX {
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
        let handle = self.checked(unsafe { self.driver.stream_create(self.context, true, priority) })?;
        let number = self.driver.stream_number(handle);
        let added = self
            .streams
            .add(|id| StreamState::new(id, handle, priority).numbered(number));
        added.ok_or_else(|| {
            // SAFETY: the stream was just made, and nobody has it.
            let destroyed = unsafe { self.driver.stream_destroy(self.context, handle) };
            destroyed.map_or_else(
                |error| self.noted(error),
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

    /// Runs `body` while the device is idle and no operation can be submitted; or not at all if some stream has work or
    /// is in use. The streams are those of all who have the context open; what other libraries do there is not known.
    /// Those who submit wait for `body`, which gets a function that says whether a ticket is done.
    pub(crate) fn while_idle(&self, body: impl FnOnce(&dyn Fn(Ticket) -> bool)) -> Result<()> {
        self.check_alive()?;
        // Checked when all locks are free again.
        self.checked(self.try_while_idle(body))
    }

    fn try_while_idle(&self, body: impl FnOnce(&dyn Fn(Ticket) -> bool)) -> Result<(), DriverError> {
        let Some(all) = self.tenancy.all() else {
            return Ok(());
        };
        let counts: Vec<_> = all.states().iter().map(|state| state.streams.lock()).collect();
        let mut lanes = Vec::new();
        for state in all.states() {
            for stream in state.streams.iter() {
                // Only tried, for whoever holds a lane may wait for what another's holder does.
                let Some(lane) = stream.lane.try_lock() else {
                    return Ok(());
                };
                // SAFETY: the stream is alive.
                let answer = unsafe { state.driver.stream_query(state.context, stream.handle) }?;
                if !answer.is_complete() {
                    return Ok(());
                }
                // With the lane held, all tickets are submitted.
                stream.mark_done(lane.next - 1);
                lanes.push(lane);
            }
        }
        body(&|ticket| self.is_done(ticket));
        drop((lanes, counts));
        Ok(())
    }

    /// Whether the ticket is known to be done. Asks no driver.
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.stream(ticket.stream)
            .is_some_and(|stream| stream.is_done(ticket.sequence))
    }

    /// How copies of pageable memory are cut and shared out.
    pub(crate) fn tuning(&self) -> &Tuning {
        self.tuning.get_or_init(Tuning::default)
    }

    /// Sets that, before the first such copy; says whether it is not too late.
    pub(super) fn set_tuning(&self, tuning: Tuning) -> bool {
        self.tuning.set(tuning.usable()).is_ok()
    }

    /// Passes a driver's answer on, and notes when it says that the context is lost.
    pub(crate) fn checked<T>(&self, result: Result<T, DriverError>) -> Result<T> {
        result.map_err(|error| self.noted(error))
    }

    /// Passes a driver's failure on, and notes it when it says that the context is lost.
    #[cold]
    pub(crate) fn noted(&self, error: DriverError) -> Error {
        if !error.code().is_sticky() {
            return Error::Driver(error);
        }
        let notice = || Loss::notice(error, self.ordinal, &self.all_streams());
        self.lose(notice).error()
    }

    /// Notes that the device is unusable; gives what was noted first.
    pub(super) fn lose(&self, notice: impl FnOnce() -> Loss) -> &Loss {
        if let Some(loss) = self.lost.get() {
            return loss;
        }
        // Before the cell is locked: this takes other locks.
        let mut noticed = Some(notice());
        let loss = self
            .lost
            .get_or_init(|| noticed.take().expect("the cell is filled once"));
        self.attention.note_lost();
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
    pub(super) fn loss(&self) -> Option<&Loss> {
        self.lost.get()
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
    /// Gives back what the device has made, without waiting. The primary context is left to the process, which shares it
    /// with other libraries.
    fn drop(&mut self) {
        // First, for they may make a stream.
        crate::memory::empty_cache(self);
        crate::submit::drain_frees(self);
        let remains = Remains {
            driver: Arc::clone(&self.driver),
            context: self.context,
            tenancy: Arc::clone(&self.tenancy),
            streams: self.all_streams(),
            events: std::mem::take(&mut self.events),
            staging: std::mem::take(&mut self.staging),
            parked: std::mem::take(&mut self.parked),
            modules: std::mem::take(&mut self.modules),
            put_off: self.reclaim.take_put_off(),
        };
        if self.lost.get().is_some() {
            remains.abandon();
        } else {
            remains.close();
        }
    }
}
