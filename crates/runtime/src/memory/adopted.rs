//! Adopted memory, and its return to the library that owns it.

use std::{any::Any, fmt, sync::Arc};

use smallvec::SmallVec;

use crate::{
    Stream,
    context::{DeviceState, Keeper, order_after, retain_until_complete},
    disposal::log,
    tracker::{Dependencies, Ticket},
};

/// When the owner of adopted memory may free it: the keeper, a value whose drop frees the memory or
/// lets it go, is dropped then. The keeper's `Drop` runs on a thread of this library.
///
/// ```
/// use std::sync::Arc;
/// use millstream::{Device, Release};
///
/// let stream = Device::simulated()?.stream()?;
/// let tensor = Arc::new([0.0_f32; 4]);
/// let in_order = Release::behind(&stream, Arc::clone(&tensor));
/// let after_completion = Release::when_done(tensor);
/// let for_a_scope = Release::at_end_of_scope();
/// # let _ = (in_order, after_completion, for_a_scope);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use]
pub struct Release {
    keeper: Keeper,
    /// True if the owner lends the memory for a scope only.
    pub(super) is_scoped: bool,
    /// The stream in whose order the keeper frees the memory.
    stream: Option<Stream>,
}

impl Release {
    /// Drops the keeper once every operation on the memory is complete. This is right for any
    /// owner.
    pub fn when_done(keeper: impl Any + Send) -> Self {
        Self {
            keeper: Keeper::new(keeper),
            is_scoped: false,
            stream: None,
        }
    }

    /// Lends the memory for a scope, at whose end
    /// [`return_to_owner`](crate::Buffer::return_to_owner) gives it back. A recording, and a change
    /// of a graph, refuse the memory, because a graph would keep it beyond the scope
    /// ([`UsageErrorKind::LentForScope`](crate::UsageErrorKind::LentForScope)).
    pub fn at_end_of_scope() -> Self {
        Self {
            is_scoped: true,
            ..Self::when_done(())
        }
    }

    /// Drops the keeper as soon as the later work of `stream` waits for every operation on the
    /// memory. This is right for an owner that frees in the order of this stream, as with
    /// `cuMemFreeAsync`, and returns the memory earlier.
    pub fn behind(stream: &Stream, keeper: impl Any + Send) -> Self {
        Self {
            stream: Some(stream.clone()),
            ..Self::when_done(keeper)
        }
    }

    /// Gives the memory back behind these uses. Never blocks.
    pub(super) fn give_back(self, device: &Arc<DeviceState>, uses: SmallVec<[Ticket; 4]>) {
        let Self { keeper, stream, .. } = self;
        if let Some(stream) = stream
            && follows(&stream, &uses)
        {
            return drop(keeper);
        }
        let keeper = Arc::new(keeper);
        for ticket in uses.into_iter().filter(|&ticket| !device.is_done(ticket)) {
            // A device that is closed has completed everything.
            if let Some(found) = device.find(ticket.stream) {
                let keeper = Arc::clone(&keeper);
                retain_until_complete(&found.device, &found.stream, ticket.sequence, keeper);
            }
        }
    }

    pub(super) fn keeper_mut<K: Any>(&mut self) -> Option<&mut K> {
        self.keeper.value_mut()
    }

    /// Returns the keeper, for memory whose return the caller has ordered.
    pub(super) fn into_keeper(self) -> Option<Box<dyn Any + Send>> {
        self.keeper.into_value()
    }

    /// Never gives the memory back.
    pub(super) fn leak(self) {
        log!(
            warn,
            "adopted memory is leaked, because it is lent for ever"
        );
        std::mem::forget(self.keeper);
    }
}

/// Makes the stream wait for these uses. Returns whether it does; not if another thread is just
/// submitting to it.
fn follows(stream: &Stream, uses: &SmallVec<[Ticket; 4]>) -> bool {
    let device = stream.device_state();
    let Some(mut submit_queue) = stream.owner_state().submit_queue.try_lock() else {
        return false;
    };
    // Every use is submitted: its call borrowed the array.
    order_after(
        device,
        stream.owner_state(),
        &mut submit_queue,
        Dependencies::from_slice(uses),
    )
    .is_ok()
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stream {
            Some(stream) => write!(f, "Release(behind {stream:?})"),
            None => write!(f, "Release(when done)"),
        }
    }
}
