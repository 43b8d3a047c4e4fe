//! Adopted streams: streams of other libraries, whose owners enqueue on them too.
//!
//! The operations of an adopted [`Stream`](super::Stream) run on a *companion*, a stream of this
//! library. The owner's stream has a state too, whose operations are markers only, such as the end
//! of a lease. [`submission::owner`](super::submission) says how the two are ordered, and why.
//!
//! The driver's handle of the owner's stream is valid as long as its keeper, a value of the owner.
//! The keeper is kept until the last handle is dropped *and* the operations that this library
//! submitted to both streams are complete. Until then others may wait for these operations or query
//! the stream; such calls are made with the keeper locked ([`StreamState::while_kept`]). The state
//! stays in the device's table, and serves again if the same stream is adopted again.
//!
//! A sync point is recorded behind every operation on an adopted stream. On other streams it is
//! recorded late, when another stream or the host needs it, and then includes all later work. The
//! companion's later work waits for work of the owner, which may wait for this very operation, or
//! never end.

use std::{
    any::Any,
    fmt,
    sync::{Arc, Weak},
};

use millstream_driver::StreamHandle;
use parking_lot::Mutex;

use super::{
    DeviceState, StreamState, polling::retain_until_complete, stream::Handle,
    submission::record_sync_point,
};
use crate::{
    Error, Result,
    disposal::{dispose, log},
    tracker::{Sequence, VectorClock},
};

/// A user's value whose drop ends the validity of memory or of a stream of another library. It is
/// dropped on the disposal thread, because its destructor is user code.
pub(crate) struct Keeper(Mutex<Option<Box<dyn Any + Send>>>);

impl Keeper {
    pub(crate) fn new(value: impl Any + Send) -> Self {
        Self(Mutex::new(Some(Box::new(value))))
    }

    /// Returns the value if it has this type.
    pub(crate) fn value_mut<K: Any>(&mut self) -> Option<&mut K> {
        self.0.get_mut().as_mut()?.downcast_mut()
    }

    /// Returns the value, which is then the caller's to drop.
    pub(crate) fn into_value(mut self) -> Option<Box<dyn Any + Send>> {
        self.0.get_mut().take()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(value) = self.0.get_mut().take() {
            dispose(value);
        }
    }
}

/// The part of an adopted stream's state that says whether its handle is valid.
pub(crate) struct Adopted(Mutex<AdoptedState>);

struct AdoptedState {
    /// `None` once the stream is let go.
    keeper: Option<Keeper>,
    /// The number of handles of this library whose drop has not ended.
    handles: usize,
    /// The number of these handles, and of [`LetGo`]s.
    users: usize,
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopted").finish_non_exhaustive()
    }
}

impl Adopted {
    pub(super) fn new(keeper: Keeper) -> Self {
        Self(Mutex::new(AdoptedState {
            keeper: Some(keeper),
            handles: 1,
            users: 1,
        }))
    }

    /// Returns whether a handle of this library to the stream exists.
    #[cfg(feature = "sim")]
    pub(super) fn is_in_use(&self) -> bool {
        self.0.lock().handles > 0
    }

    #[cold]
    #[inline(never)]
    fn while_kept<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let state = self.0.lock();
        state.keeper.is_some().then(body)
    }

    /// Notes a new handle. Takes its keeper unless the stream still has one.
    fn use_again(&self, keeper: &mut Option<Keeper>) {
        let mut state = self.0.lock();
        state.handles += 1;
        state.users += 1;
        if state.keeper.is_none() {
            state.keeper = keeper.take();
        }
    }
}

impl StreamState {
    /// Returns whether this library created the stream, so that it may enqueue there and query it
    /// at any time.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.adopted.is_none()
    }

    /// Calls `body` unless the stream's owner may have destroyed it. It has then no operation of
    /// this library that is not complete.
    #[inline(always)]
    pub(crate) fn while_kept<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        match &self.adopted {
            None => Some(body()),
            Some(adopted) => adopted.while_kept(body),
        }
    }
}

/// The owner's stream of a companion.
#[derive(Debug, Default)]
pub(crate) struct OwnerOfStream(Mutex<Option<Arc<StreamState>>>);

impl OwnerOfStream {
    pub(super) fn set(&self, owner: Option<&Arc<StreamState>>) {
        *self.0.lock() = owner.map(Arc::clone);
    }
}

impl DeviceState {
    /// Returns the owner's stream if the stream is a companion.
    #[inline]
    pub(crate) fn owner_of(&self, stream: &StreamState) -> Option<Arc<StreamState>> {
        match self.admission.has_adopted() {
            true => stream.owner.0.lock().clone(),
            false => None,
        }
    }
}

/// The adopted streams of a device.
#[derive(Default)]
pub(crate) struct AdoptedStreams(Mutex<Vec<Entry>>);

struct Entry {
    state: Arc<StreamState>,
    handle: Weak<Handle>,
}

impl AdoptedStreams {
    /// Returns the handle to a stream of the device's context, which is a new one unless the stream
    /// is adopted already. A new one is made of the state of the owner's stream and a companion.
    ///
    /// # Errors
    ///
    /// If the device has too many streams, or the companion or an interprocess event cannot be
    /// created.
    pub(super) fn adopt(
        &self,
        device: &Arc<DeviceState>,
        raw: StreamHandle,
        keeper: Keeper,
        new_handle: impl FnOnce(Arc<StreamState>, Arc<StreamState>) -> Arc<Handle>,
    ) -> Result<Arc<Handle>> {
        // Before there is a handle: an operation on it is then seen to be on an adopted stream.
        device.admission.note_adopted();
        let number = device.driver.stream_number(raw);
        // Declared before the lock: a keeper that is not needed is dropped after it is unlocked,
        // because its destructor is user code.
        let mut keeper = Some(keeper);
        let mut entries = self.0.lock();
        let same = |entry: &&mut Entry| {
            entry.state.handle == raw && number.is_none_or(|number| number == entry.state.number)
        };
        if let Some(entry) = entries.iter_mut().find(same) {
            if let Some(handle) = entry.handle.upgrade() {
                return Ok(handle);
            }
            let companion = device.acquire_stream(0)?;
            if let Some(adopted) = &entry.state.adopted {
                adopted.use_again(&mut keeper);
            }
            let handle = new_handle(Arc::clone(&entry.state), companion);
            entry.handle = Arc::downgrade(&handle);
            return Ok(handle);
        }
        let (driver, context) = (&*device.driver, device.context);
        let (events, nothing) = (&device.owners_events, VectorClock::default());
        let companion = device.acquire_stream(0)?;
        // The order with the owner needs events that a driver may not have.
        match events.take(driver, context, companion.ticket(Sequence::START), &nothing) {
            Ok(event) => events.give(event),
            Err(error) => {
                device.retire_stream(companion);
                return Err(device.record_failure(error));
            }
        }
        let added = device.streams.add(|id| {
            let mut state = StreamState::new(id, raw, 0).numbered(number);
            state.adopted = keeper.take().map(Adopted::new);
            state
        });
        let Some(state) = added else {
            device.retire_stream(companion);
            return Err(Error::unavailable(format!(
                "cannot adopt a stream: {device} has too many streams"
            )));
        };
        let handle = new_handle(Arc::clone(&state), companion);
        entries.push(Entry {
            state,
            handle: Arc::downgrade(&handle),
        });
        Ok(handle)
    }
}

/// Lets an adopted stream go whose last handle was dropped, once its operations and those of its
/// companion are complete. Sync points behind them tell when.
pub(super) fn leave(
    device: &Arc<DeviceState>,
    owner: &Arc<StreamState>,
    companion: &Arc<StreamState>,
) {
    companion.owner.set(None);
    let Some(adopted) = &owner.adopted else {
        return;
    };
    adopted.0.lock().handles -= 1;
    let let_go = Arc::new(LetGo(Arc::clone(owner)));
    for stream in [owner, companion] {
        let submitted = stream.shared.lock().points.submitted();
        if stream.is_done(submitted) {
            continue;
        }
        let covered = stream.shared.lock().points.covering(submitted).is_some();
        if !covered && let Err(error) = record_sync_point(device, stream) {
            // Without the sync point the stream itself is polled, so that the keeper stays until
            // the owner's later work is complete too.
            log!(debug, %error, "an adopted stream is kept until it is idle");
        }
        retain_until_complete(device, stream, submitted, Arc::clone(&let_go));
    }
}

/// Drops the keeper of an adopted stream when it is dropped, unless the stream has other users.
struct LetGo(Arc<StreamState>);

impl Drop for LetGo {
    fn drop(&mut self) {
        let Some(adopted) = &self.0.adopted else {
            return;
        };
        let mut state = adopted.0.lock();
        state.users -= 1;
        let keeper = (state.users == 0).then(|| state.keeper.take()).flatten();
        drop(state);
        drop(keeper);
    }
}

#[cfg(all(test, feature = "sim", not(shuttle)))]
#[allow(unsafe_code, reason = "adopts a stream")]
mod tests {
    use millstream_driver::DeviceOrdinal;
    use millstream_sim::{Gpu, Schedule, SimConfig};

    use super::*;
    use crate::{Device, Stream, disposal::set_in_place};

    /// A keeper whose drop adopts the stream again.
    struct AdoptsAgain {
        device: Device,
        raw: StreamHandle,
    }

    impl Drop for AdoptsAgain {
        fn drop(&mut self) {
            // SAFETY: the stream is never destroyed.
            let stream = unsafe { self.device.adopt_stream(self.raw, ()) };
            assert!(stream.is_ok(), "{stream:?}");
        }
    }

    #[test]
    fn a_keeper_that_is_not_needed_is_dropped_without_locks() {
        let gpu = Gpu::new(SimConfig::new().schedule(Schedule::Lazy));
        let device = Device::open_simulated(&gpu, 0).expect("the device opens");
        let driver = gpu.driver();
        let context = driver.primary_context_retain(DeviceOrdinal::from_raw(0));
        let context = context.expect("the context is retained");
        // SAFETY: the context is retained.
        let raw = unsafe { driver.stream_create(context, true, 0) }.expect("a stream");
        let adopt = |keeper: Keeper| Stream::adopt(device.state(), raw, keeper).expect("adopted");
        let first = adopt(Keeper::new(()));
        let mut array = first.zeros::<u8>(64).expect("an array");
        first.fill(&mut array, 1).expect("a fill");
        // The fill is pending, so that the stream still has its first keeper.
        drop(first);
        let was_in_place = set_in_place(true);
        let calling = AdoptsAgain {
            device: device.clone(),
            raw,
        };
        let second = adopt(Keeper::new(calling));
        set_in_place(was_in_place);
        let found = second.download(&array).expect("a download");
        assert_eq!(found.wait().expect("the values"), [1; 64]);
    }
}
