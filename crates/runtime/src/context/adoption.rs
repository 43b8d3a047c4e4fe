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

use std::sync::{Arc, Weak};

use millstream_driver::StreamHandle;

use super::{
    AdoptionLayer, DeviceSlot, DeviceState, StreamState,
    adopted::{Adopted, Keeper},
    polling::retain_until_complete,
    stream::Handle,
    submission::record_sync_point,
};
use crate::{
    Error, Result,
    disposal::log,
    sync::ranked::{ADOPTED_STREAMS, Ranked},
    tracker::{Sequence, VectorClock},
};

impl DeviceState {
    /// Returns the owner's stream if the stream is a companion.
    #[inline]
    pub(crate) fn owner_of(&self, stream: &StreamState) -> Option<Arc<StreamState>> {
        match self.admission.has_adopted() {
            true => stream.owner.lock().clone(),
            false => None,
        }
    }
}

#[derive(Default)]
pub(crate) struct AdoptedStreams(Ranked<ADOPTED_STREAMS, Vec<Entry>>);

impl DeviceSlot for AdoptionLayer {
    type Value = AdoptedStreams;
}

struct Entry {
    state: Arc<StreamState>,
    handle: Weak<Handle>,
}

impl AdoptedStreams {
    /// Returns the handle of a stream of the device's context. If the stream is not adopted yet,
    /// the handle is a new one, made of the state of the owner's stream and a companion.
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

/// Lets go of an adopted stream whose last handle was dropped, once the operations of the stream
/// and of its companion are complete.
pub(super) fn leave(
    device: &Arc<DeviceState>,
    owner: &Arc<StreamState>,
    companion: &Arc<StreamState>,
) {
    *companion.owner.lock() = None;
    let Some(adopted) = &owner.adopted else {
        return;
    };
    adopted.drop_handle();
    let let_go = Arc::new(LetGo(Arc::clone(owner)));
    for stream in [owner, companion] {
        let submitted = stream.shared.lock().points.submitted();
        if stream.is_done(submitted) {
            continue;
        }
        let covered = stream.covering(submitted).is_some();
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
        drop(adopted.drop_user());
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
        let values = second.download(&array).expect("a download");
        assert_eq!(values.wait().expect("the values"), [1; 64]);
    }
}
