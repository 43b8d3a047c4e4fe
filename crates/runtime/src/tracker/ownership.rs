//! The owner of an access history's memory, and the uses by earlier owners.

use std::sync::atomic::Ordering;

use super::{AccessHistory, AccessKind, Ticket};

impl AccessHistory {
    /// Sets the address of the allocation that contains this history.
    pub(crate) fn set_owner(&self, owner: *const ()) {
        self.owner.store(owner.cast_mut(), Ordering::Release);
    }

    /// Returns the address of the allocation that contains this history, if it was set.
    pub(crate) fn owner(&self) -> Option<*const ()> {
        let owner = self.owner.load(Ordering::Acquire).cast_const();
        (!owner.is_null()).then_some(owner)
    }

    /// Enters the earlier uses of reused memory, so that the first operations on the new allocation
    /// wait for them.
    pub(crate) fn inherit(&mut self, uses: &[Ticket]) {
        let whole = (0..self.bytes()).into();
        for &ticket in uses {
            let state = self.state.get_mut();
            state.enter_unordered(&whole, AccessKind::Write, ticket);
        }
    }

    /// Enters further uses before the first operations, like [`inherit`](Self::inherit) for an
    /// allocation with other users.
    pub(crate) fn inherit_more(&self, uses: &[Ticket]) {
        let whole = (0..self.bytes()).into();
        let mut state = self.lock();
        for &ticket in uses {
            state.enter_unordered(&whole, AccessKind::Write, ticket);
        }
    }
}
