//! The keeper of an adopted stream, and the users for which it is kept.

use std::{any::Any, fmt};

use parking_lot::Mutex;

use crate::{
    disposal::dispose,
    sync::ranked::{KEEPER, Ranked},
};

/// A user's value that keeps another library's memory or stream valid until it is dropped. It is
/// dropped on the disposal thread, because its destructor is user code.
pub(crate) struct Keeper(Mutex<Option<Box<dyn Any + Send>>>);

impl Keeper {
    pub(crate) fn new(value: impl Any + Send) -> Self {
        Self(Mutex::new(Some(Box::new(value))))
    }

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
pub(crate) struct Adopted(Ranked<KEEPER, AdoptedState>);

struct AdoptedState {
    /// `None` once the stream is let go.
    keeper: Option<Keeper>,
    /// The number of handles of this library whose drop has not ended.
    handles: usize,
    /// The number of these handles, and of the watches that outlive them.
    users: usize,
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopted").finish_non_exhaustive()
    }
}

impl Adopted {
    pub(super) fn new(keeper: Keeper) -> Self {
        Self(Ranked::new(AdoptedState {
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
    pub(super) fn while_kept<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let state = self.0.lock();
        state.keeper.is_some().then(body)
    }

    /// Notes a new handle. Takes its keeper unless the stream still has one.
    pub(super) fn use_again(&self, keeper: &mut Option<Keeper>) {
        let mut state = self.0.lock();
        state.handles += 1;
        state.users += 1;
        if state.keeper.is_none() {
            state.keeper = keeper.take();
        }
    }
    pub(super) fn drop_handle(&self) {
        self.0.lock().handles -= 1;
    }

    /// Notes that a user is gone. Returns the keeper if it was the last one.
    pub(super) fn drop_user(&self) -> Option<Keeper> {
        let mut state = self.0.lock();
        state.users -= 1;
        (state.users == 0).then(|| state.keeper.take()).flatten()
    }
}
