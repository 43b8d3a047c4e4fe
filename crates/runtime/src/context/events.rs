//! The event pool. A driver event is created once and recorded again only when no reference to its
//! earlier sync point is left.

#![allow(unsafe_code, reason = "makes and destroys driver events")]

use std::{collections::VecDeque, sync::Arc};

use millstream_driver::{Completion, ContextHandle, Driver, DriverError, EventHandle, EventKind};

use crate::{
    disposal::log,
    sync::ranked::{EVENT_POOL, Ranked},
    tracker::{SyncPoint, Ticket, VectorClock},
};

/// A pooled event with its sync point. The holder of a clone may query the event or wait for it;
/// while a clone exists, the event is not recorded again.
pub(crate) type PooledEvent = Arc<SyncPoint<EventHandle>>;

/// The number of the oldest returned events that are checked for one without references.
const REUSE_SCAN_MAX: usize = 4;

/// The number of events that [`EventPool::take_batch`] moves at once.
const BATCH: usize = 16;

/// Assigns an event to another sync point. Returns it unchanged if it is still referenced.
#[inline(always)]
fn reuse(
    mut event: PooledEvent,
    ticket: Ticket,
    before: &VectorClock,
) -> Result<PooledEvent, PooledEvent> {
    // Unlike reading the reference count, `get_mut` is also ordered after the other holders'
    // accesses.
    match Arc::get_mut(&mut event) {
        Some(point) => {
            point.reuse(ticket, before);
            Ok(event)
        }
        None => Err(event),
    }
}

#[derive(Debug)]
pub(crate) struct EventPool {
    kind: EventKind,
    returned: Ranked<EVENT_POOL, VecDeque<PooledEvent>>,
}

impl EventPool {
    pub(crate) fn new(kind: EventKind) -> Self {
        Self {
            kind,
            returned: Ranked::default(),
        }
    }

    /// Returns an event to record behind `ticket`: a reused one, or a new one. `before` is the
    /// clock of the stream's tail. `context` is alive, and the same in all calls for one pool.
    pub(crate) fn take(
        &self,
        driver: &dyn Driver,
        context: ContextHandle,
        ticket: Ticket,
        before: &VectorClock,
    ) -> Result<PooledEvent, DriverError> {
        {
            let mut returned = self.returned.lock();
            for _ in 0..REUSE_SCAN_MAX.min(returned.len()) {
                let Some(event) = returned.pop_front() else {
                    break;
                };
                if self.record_would_wait(driver, context, event.event) {
                    returned.push_back(event);
                    continue;
                }
                match reuse(event, ticket, before) {
                    Ok(event) => return Ok(event),
                    Err(event) => returned.push_back(event),
                }
            }
        }
        // SAFETY: the caller's context is alive.
        let handle = unsafe { driver.event_create(context, self.kind) }?;
        Ok(Arc::new(SyncPoint::new(ticket, before, handle)))
    }

    /// Returns an event like [`take`](Self::take), and moves several returned events to `spares` at
    /// once, for callers that need one event after the other.
    #[inline(always)]
    pub(crate) fn take_batch(
        &self,
        spares: &mut Vec<PooledEvent>,
        driver: &dyn Driver,
        context: ContextHandle,
        ticket: Ticket,
        before: &VectorClock,
    ) -> Result<PooledEvent, DriverError> {
        if spares.is_empty() {
            self.refill(spares);
        }
        match spares.pop().map(|event| reuse(event, ticket, before)) {
            Some(Ok(event)) => return Ok(event),
            Some(Err(event)) => self.give(event),
            None => {}
        }
        self.take(driver, context, ticket, before)
    }

    /// Returns whether recording the event again would wait on the device for its earlier record.
    /// The driver does so for interprocess events.
    fn record_would_wait(
        &self,
        driver: &dyn Driver,
        context: ContextHandle,
        event: EventHandle,
    ) -> bool {
        // SAFETY: the event is alive as long as the pool, and the caller's context is.
        let query = || unsafe { driver.event_query(context, event) };
        self.kind == EventKind::Interprocess && !query().is_ok_and(Completion::is_complete)
    }

    /// Moves the oldest returned events to the empty list `spares`, the oldest at its end.
    /// Interprocess events stay, because [`take`](Self::take) asks whether they are complete.
    #[cold]
    fn refill(&self, spares: &mut Vec<PooledEvent>) {
        if self.kind == EventKind::Interprocess {
            return;
        }
        let mut returned = self.returned.lock();
        for _ in 0..BATCH.min(returned.len() / 2) {
            if let Some(event) = returned.pop_front() {
                spares.push(event);
            }
        }
        drop(returned);
        spares.reverse();
    }

    /// Returns an event to the pool. Clones of it may still exist.
    pub(crate) fn give(&self, event: PooledEvent) {
        self.returned.lock().push_back(event);
    }

    /// Returns a function that returns events to the pool, which stays locked as long as the
    /// function lives.
    pub(crate) fn give_many(&self) -> impl FnMut(PooledEvent) + '_ {
        let mut returned = self.returned.lock();
        move |event| returned.push_back(event)
    }

    /// Takes the pool with its events, and leaves an empty one.
    pub(crate) fn take_all(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.kind))
    }

    /// Destroys the returned events. The caller guarantees that they are no longer used.
    pub(crate) fn destroy_all(&self, driver: &dyn Driver, context: ContextHandle) {
        for event in self.returned.lock().drain(..) {
            // SAFETY: the event is alive, and by this function's contract it is not used again.
            if let Err(error) = unsafe { driver.event_destroy(context, event.event) } {
                log!(debug, %error, "cannot destroy an event");
            }
        }
    }
}
