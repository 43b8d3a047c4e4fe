//! Adopted streams: streams of other libraries, whose owners enqueue on them too.
//!
//! The operations of an adopted [`Stream`](super::Stream) run on a driver's stream of this library,
//! its *companion*, which is the handle of its [`StreamState`]. The owner's stream is only made to
//! wait for events of the companion, and to record events for which the companion waits:
//! [`submission::owner`](super::submission) says how and why.
//!
//! The driver's handle of the owner's stream is valid as long as its keeper, a value of the owner.
//! The keeper is kept until the last handle is dropped *and* the operations that this library
//! submitted to the stream are complete; calls on the owner's stream are made with the keeper
//! locked. The state and its companion stay in the device's table, and serve the next stream that
//! is adopted.
//!
//! A sync point is recorded behind every operation on an adopted stream. On other streams it is
//! recorded late, when another stream or the host needs it, and then includes all later work. The
//! companion's later work waits for the owner's, which may wait for this very operation, or never
//! end.

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
    Result,
    disposal::{dispose, log},
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

/// The owner's stream of which a state is the companion.
pub(crate) struct Adopted(Mutex<AdoptedState>);

struct AdoptedState {
    /// `None` once the owner's stream is let go.
    owner: Option<Owner>,
    /// The number of handles of this library whose drop has not ended.
    handles: usize,
}

/// A stream of another library.
struct Owner {
    raw: StreamHandle,
    keeper: Keeper,
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopted").finish_non_exhaustive()
    }
}

impl Adopted {
    fn new(owner: Owner) -> Self {
        Self(Mutex::new(AdoptedState {
            owner: Some(owner),
            handles: 1,
        }))
    }

    /// Returns whether a handle of this library to the stream exists.
    #[cfg(feature = "sim")]
    pub(super) fn is_in_use(&self) -> bool {
        self.0.lock().handles > 0
    }

    /// Returns the owner's stream, unless it is let go.
    pub(super) fn raw(&self) -> Option<StreamHandle> {
        self.while_kept(|raw| raw)
    }

    fn while_kept<R>(&self, body: impl FnOnce(StreamHandle) -> R) -> Option<R> {
        let state = self.0.lock();
        state.owner.as_ref().map(|owner| body(owner.raw))
    }

    /// Notes a new handle. Takes the owner's stream unless it has one.
    fn use_again(&self, owner: &mut Option<Owner>) {
        let mut state = self.0.lock();
        state.handles += 1;
        if state.owner.is_none() {
            state.owner = owner.take();
        }
    }
}

impl StreamState {
    /// Returns whether the stream is not adopted.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        self.adopted.is_none()
    }

    /// Calls `body` with the owner's stream of an adopted stream, unless it is let go.
    pub(super) fn while_kept<R>(&self, body: impl FnOnce(StreamHandle) -> R) -> Option<R> {
        self.adopted.as_ref()?.while_kept(body)
    }

    /// Returns the driver's handle of the stream for other libraries, which is the owner's for an
    /// adopted stream.
    pub(super) fn raw(&self) -> StreamHandle {
        let adopted = self.adopted.as_ref();
        adopted.and_then(Adopted::raw).unwrap_or(self.handle)
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
    /// is adopted already.
    ///
    /// # Errors
    ///
    /// If the companion cannot be created.
    pub(super) fn adopt(
        &self,
        device: &Arc<DeviceState>,
        raw: StreamHandle,
        keeper: Keeper,
        new_handle: impl FnOnce(Arc<StreamState>) -> Arc<Handle>,
    ) -> Result<Arc<Handle>> {
        // Before there is a handle: an operation on it is then seen to be on an adopted stream.
        device.admission.note_adopted();
        // Declared before the lock: a keeper that is not needed is dropped after it is unlocked,
        // because its destructor is user code.
        let mut owner = Some(Owner { raw, keeper });
        let mut entries = self.0.lock();
        let find = |raw| {
            let raw_of = |entry: &Entry| entry.state.adopted.as_ref().and_then(Adopted::raw);
            entries.iter().position(|entry| raw_of(entry) == raw)
        };
        // The state of the same stream, or else one whose stream was let go.
        if let Some(at) = find(Some(raw)).or_else(|| find(None)) {
            let entry = &mut entries[at];
            if let Some(handle) = entry.handle.upgrade() {
                return Ok(handle);
            }
            if let Some(adopted) = &entry.state.adopted {
                adopted.use_again(&mut owner);
            }
            let handle = new_handle(Arc::clone(&entry.state));
            entry.handle = Arc::downgrade(&handle);
            return Ok(handle);
        }
        let state = device.add_stream(device.clamped(0), || owner.take().map(Adopted::new))?;
        let handle = new_handle(Arc::clone(&state));
        entries.push(Entry {
            state,
            handle: Arc::downgrade(&handle),
        });
        Ok(handle)
    }
}

/// Lets an adopted stream go whose last handle was dropped, once its operations are complete. A
/// sync point behind them tells when.
pub(super) fn leave(device: &Arc<DeviceState>, stream: &Arc<StreamState>) {
    let Some(adopted) = &stream.adopted else {
        return;
    };
    adopted.0.lock().handles -= 1;
    let let_go = LetGo {
        device: Arc::clone(device),
        stream: Arc::clone(stream),
    };
    let submitted = stream.shared.lock().points.submitted();
    if stream.is_done(submitted) {
        return drop(let_go);
    }
    let covered = stream.shared.lock().points.covering(submitted).is_some();
    if !covered && let Err(error) = record_sync_point(device, stream) {
        // Without the sync point the stream itself is polled, so that the keeper stays until the
        // owner's later work is complete too.
        log!(debug, %error, "an adopted stream is kept until it is idle");
    }
    retain_until_complete(device, stream, submitted, let_go);
}

/// Drops the keeper of an adopted stream when it is dropped, unless the stream is in use again or
/// has operations that are not complete. A lost device has none.
struct LetGo {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
}

impl Drop for LetGo {
    fn drop(&mut self) {
        let Self { device, stream } = self;
        let Some(adopted) = &stream.adopted else {
            return;
        };
        let mut state = adopted.0.lock();
        // Read with the keeper locked: a handle that came and went meanwhile has submitted more.
        let submitted = stream.shared.lock().points.submitted();
        let is_over = stream.is_done(submitted) || device.lost().is_some();
        let owner = (state.handles == 0 && is_over)
            .then(|| state.owner.take())
            .flatten();
        drop(state);
        drop(owner.map(|owner| owner.keeper));
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
