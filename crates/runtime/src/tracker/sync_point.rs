//! A sync point: a recorded event and what is ordered before it.

use super::{Ticket, VectorClock};

/// A sync point: an event recorded on a stream behind `ticket`, and therefore behind everything in
/// `clock`.
#[derive(Debug)]
pub(crate) struct SyncPoint<E> {
    /// The last ticket before the event that the sync point covers.
    pub(crate) ticket: Ticket,
    /// The vector clock of the event, including `ticket`.
    pub(crate) clock: VectorClock,
    /// The event, which the tracker does not use itself.
    pub(crate) event: E,
}

impl<E> SyncPoint<E> {
    /// Creates a sync point for an event that is to be recorded behind `ticket`. `before` is the
    /// clock of the stream's tail.
    pub(crate) fn new(ticket: Ticket, before: &VectorClock, event: E) -> Self {
        let mut point = Self {
            ticket,
            clock: VectorClock::default(),
            event,
        };
        point.reuse(ticket, before);
        point
    }

    /// Reassigns the event to another sync point, overwriting ticket and clock.
    #[inline]
    pub(crate) fn reuse(&mut self, ticket: Ticket, before: &VectorClock) {
        self.ticket = ticket;
        self.clock.clone_from(before);
        self.clock.advance(ticket);
    }
}
