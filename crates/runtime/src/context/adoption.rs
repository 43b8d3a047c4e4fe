//! Adopted streams: streams of other libraries, whose owners enqueue on them too.
//!
//! The driver's handle of an adopted stream is valid as long as its keeper, a value of the owner.
//! The keeper is kept until the last handle is dropped *and* the operations that this library
//! submitted to the stream are complete. Until then others may wait for these operations or query
//! the stream; such calls are made with the keeper locked ([`StreamState::while_kept`]). The state
//! stays in the device's table, and serves again if the same stream is adopted again.

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
};

/// A user's value whose drop ends the validity of memory or of a stream of another library. It is
/// dropped on the disposal thread, because its destructor is user code.
pub(crate) struct Keeper(Mutex<Option<Box<dyn Any + Send>>>);

impl Keeper {
    pub(crate) fn new(value: impl Any + Send) -> Self {
        Self(Mutex::new(Some(Box::new(value))))
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

    /// Notes a new handle. Its keeper is dropped if the stream has one already.
    fn use_again(&self, keeper: Keeper) {
        let mut state = self.0.lock();
        state.handles += 1;
        state.keeper.get_or_insert(keeper);
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
    /// If the device has too many streams.
    pub(super) fn adopt(
        &self,
        device: &Arc<DeviceState>,
        raw: StreamHandle,
        keeper: Keeper,
        new_handle: impl FnOnce(Arc<StreamState>) -> Arc<Handle>,
    ) -> Result<Arc<Handle>> {
        let number = device.driver.stream_number(raw);
        let mut entries = self.0.lock();
        let same = |entry: &&mut Entry| {
            entry.state.handle == raw && number.is_none_or(|number| number == entry.state.number)
        };
        if let Some(entry) = entries.iter_mut().find(same) {
            if let Some(handle) = entry.handle.upgrade() {
                return Ok(handle);
            }
            let adopted = entry.state.adopted.as_ref();
            if let Some(adopted) = adopted {
                adopted.use_again(keeper);
            }
            let handle = new_handle(Arc::clone(&entry.state));
            entry.handle = Arc::downgrade(&handle);
            return Ok(handle);
        }
        let mut keeper = Some(keeper);
        let added = device.streams.add(|id| {
            let mut state = StreamState::new(id, raw, 0).numbered(number);
            state.adopted = keeper.take().map(Adopted::new);
            state
        });
        let Some(state) = added else {
            return Err(Error::unavailable(format!(
                "cannot adopt a stream: {device} has too many streams"
            )));
        };
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
    let submitted = stream.shared.lock().points.submitted();
    if stream.is_done(submitted) {
        drop(LetGo(Arc::clone(stream)));
        return;
    }
    let covered = stream.shared.lock().points.covering(submitted).is_some();
    if !covered && let Err(error) = record_sync_point(device, stream) {
        // Without the sync point the keeper stays until the process ends.
        log!(warn, %error, "an adopted stream is kept for good");
        return;
    }
    retain_until_complete(device, stream, submitted, LetGo(Arc::clone(stream)));
}

/// Drops the keeper of an adopted stream when it is dropped, unless the stream is in use again or
/// has operations that are not complete.
struct LetGo(Arc<StreamState>);

impl Drop for LetGo {
    fn drop(&mut self) {
        let stream = &self.0;
        let Some(adopted) = &stream.adopted else {
            return;
        };
        let submitted = stream.shared.lock().points.submitted();
        let mut state = adopted.0.lock();
        let keeper = (state.handles == 0 && stream.is_done(submitted))
            .then(|| state.keeper.take())
            .flatten();
        drop(state);
        drop(keeper);
    }
}
