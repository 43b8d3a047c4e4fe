//! Pooled events: made once, recorded again and again, never while someone still looks at the
//! earlier record.

#![allow(unsafe_code, reason = "makes and destroys driver events")]

use std::{collections::VecDeque, sync::Arc};

use millstream_driver::{ContextHandle, Driver, DriverError, EventHandle, EventKind};
use parking_lot::Mutex;

use crate::{
    disposal::log,
    tracker::{SyncPoint, Ticket, VectorClock},
};

/// A pooled event, with what it stands for. Whoever holds a clone may query it or wait for it;
/// while there is one, it is not recorded anew.
pub(crate) type PooledEvent = Arc<SyncPoint<EventHandle>>;

/// How many of the oldest returned events are looked at for one that nobody holds any more.
const REUSE_SCAN_MAX: usize = 4;

/// How many are taken at once by those who take one after the other.
const BATCH: usize = 16;

/// Lets an event stand for another sync point, unless someone still holds it.
#[inline]
fn reuse(
    mut event: PooledEvent,
    ticket: Ticket,
    before: &VectorClock,
) -> Result<PooledEvent, PooledEvent> {
    // Unlike the count, this is also ordered after what the others did with it.
    match Arc::get_mut(&mut event) {
        Some(point) => {
            point.reuse(ticket, before);
            Ok(event)
        }
        None => Err(event),
    }
}

/// The returned events of one context.
#[derive(Debug, Default)]
pub(crate) struct EventPool {
    returned: Mutex<VecDeque<PooledEvent>>,
}

impl EventPool {
    /// An event to record behind `ticket`, where `before` is ordered before the stream's tail: a
    /// returned one, or a new one. `context` is alive, and always the same for one pool.
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
                match reuse(event, ticket, before) {
                    Ok(event) => return Ok(event),
                    Err(event) => returned.push_back(event),
                }
            }
        }
        // SAFETY: the caller's context is alive.
        let handle = unsafe { driver.event_create(context, EventKind::Ordering) }?;
        Ok(Arc::new(SyncPoint::new(ticket, before, handle)))
    }

    /// The same for whoever takes one after the other: takes several at once, and keeps the others
    /// in `spares`.
    #[inline]
    pub(crate) fn take_batch(
        &self,
        spares: &mut Vec<PooledEvent>,
        driver: &dyn Driver,
        context: ContextHandle,
        ticket: Ticket,
        before: &VectorClock,
    ) -> Result<PooledEvent, DriverError> {
        match spares.pop().map(|event| reuse(event, ticket, before)) {
            Some(Ok(event)) => return Ok(event),
            Some(Err(event)) => self.give(event),
            None => {
                let mut returned = self.returned.lock();
                let count = BATCH.min(returned.len() / 2);
                spares.extend(returned.drain(..count).rev());
            }
        }
        self.take(driver, context, ticket, before)
    }

    /// Gives an event back. Clones of it may still be about.
    pub(crate) fn give(&self, event: PooledEvent) {
        self.returned.lock().push_back(event);
    }

    /// Gives back all events that it is called with.
    pub(crate) fn give_many(&self) -> impl FnMut(PooledEvent) + '_ {
        let mut returned = self.returned.lock();
        move |event| returned.push_back(event)
    }

    /// Destroys the events that were given back. Nobody uses them any more.
    pub(crate) fn destroy_all(&self, driver: &dyn Driver, context: ContextHandle) {
        for event in self.returned.lock().drain(..) {
            // SAFETY: the event is alive, and by this function's contract it is not used again.
            if let Err(error) = unsafe { driver.event_destroy(context, event.event) } {
                log!(debug, %error, "an event could not be destroyed");
            }
        }
    }
}
