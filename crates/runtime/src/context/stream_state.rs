//! What the runtime knows of one stream: its submit queue, its sync points, and how far it is done.

use std::sync::Weak;

use millstream_driver::{EventHandle, StreamHandle};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{events::PooledEvent, loss::RecentOperations, slots::Slot};
use crate::{
    sync::{AtomicU64, Condvar, Ordering},
    tracker::{Sequence, StreamId, SyncPoints, Ticket, VectorClock},
};

/// What only the thread that submits on a stream touches. The submit queue's lock is held across
/// the stream's driver calls, so that tickets are enqueued in the order of their numbers.
#[derive(Debug)]
pub(crate) struct SubmitQueue {
    /// The next ticket's place.
    pub(crate) next: Sequence,
    /// What is ordered before the stream's tail, by waits that the driver has accepted.
    pub(crate) clock: VectorClock,
    /// Whether the clock has gained something since the stream's sync points were last told.
    pub(crate) joined: bool,
    /// Who on the host may come to wait for the stream's last tickets. A later submission then
    /// records an event first, so that the wait does not become one for later work.
    pub(crate) host_waiters: SmallVec<[HostWaiter; 1]>,
    /// Events of the device's pool for points to come.
    pub(crate) spares: Vec<PooledEvent>,
}

impl SubmitQueue {
    /// Notes that the driver has accepted a wait for something that is ordered after `clock`.
    pub(crate) fn join(&mut self, clock: &VectorClock) {
        self.clock.join(clock);
        self.joined = true;
    }

    /// Notes that someone may come to wait for the last ticket; one entry serves for all copies of
    /// an array or a scope.
    pub(crate) fn add_host_waiter(&mut self, host_waiter: HostWaiter) {
        if !self
            .host_waiters
            .iter()
            .any(|known| known.is_same(&host_waiter))
        {
            self.host_waiters.push(host_waiter);
        }
    }
}

/// Someone on the host who may come to wait for an operation, as long as `alive` is.
#[derive(Clone, Debug)]
pub(crate) struct HostWaiter {
    pub(crate) alive: Weak<()>,
    /// Whether one sync point will do for this operation and others of its sort right behind it:
    /// copies of pinned memory.
    pub(crate) chained: bool,
}

impl HostWaiter {
    /// Whether one sync point will do for an earlier operation and this one right behind it.
    /// Whoever waits for both of them, as a scope does, loses nothing; whoever waits for one of
    /// several copies of pinned memory waits for a few more bytes at most.
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        self.is_same(earlier) || (self.chained && earlier.chained)
    }

    /// Whether both are the same someone.
    fn is_same(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.alive, &other.alive)
    }
}

/// What a stream has submitted, as other threads may know it.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) points: SyncPoints<EventHandle>,
    pub(crate) recent: RecentOperations,
}

/// One stream. It lives as long as its device: tickets of a dropped [`Stream`](crate::Stream) can
/// still be waited for.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) id: StreamId,
    /// Its number on its device: [`Stream::id`](crate::Stream::id).
    pub(crate) number: u64,
    pub(crate) handle: StreamHandle,
    pub(crate) priority: i32,
    pub(crate) submit_queue: Mutex<SubmitQueue>,
    pub(crate) shared: Mutex<SharedState>,
    /// Signalled, with `shared`, whenever a ticket becomes submitted.
    pub(crate) submitted: Condvar,
    /// What the layer of memory keeps for the stream.
    pub(crate) memory_slot: Slot,
    done: AtomicU64,
}

impl StreamState {
    pub(crate) fn new(id: StreamId, handle: StreamHandle, priority: i32) -> Self {
        Self {
            id,
            number: u64::from(id.index()) + 1,
            handle,
            priority,
            submit_queue: Mutex::new(SubmitQueue {
                next: Sequence::FIRST,
                clock: VectorClock::default(),
                joined: false,
                host_waiters: SmallVec::new(),
                spares: Vec::new(),
            }),
            shared: Mutex::new(SharedState {
                points: SyncPoints::new(id),
                recent: RecentOperations::default(),
            }),
            submitted: Condvar::new(),
            memory_slot: Slot::default(),
            done: AtomicU64::new(Sequence::START.get()),
        }
    }

    /// Sets the number to the one in the driver's own texts, if the driver has one.
    pub(crate) fn numbered(self, number: Option<u64>) -> Self {
        Self {
            number: number.unwrap_or(self.number),
            ..self
        }
    }

    /// Whether the ticket of this stream is known to be done.
    pub(crate) fn is_done(&self, sequence: Sequence) -> bool {
        self.done() >= sequence
    }

    /// Notes that all tickets up to `sequence` are done.
    pub(crate) fn mark_done(&self, sequence: Sequence) {
        self.done.fetch_max(sequence.get(), Ordering::AcqRel);
    }

    /// The highest ticket known to be done.
    pub(crate) fn done(&self) -> Sequence {
        // Acquire: whoever learns that a copy is done may read what it wrote.
        Sequence::of(self.done.load(Ordering::Acquire))
    }

    /// The stream's ticket at this place.
    pub(crate) fn ticket(&self, sequence: Sequence) -> Ticket {
        Ticket::new(self.id, sequence)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn many_copies_of_one_array_are_noted_once() {
        let stream = StreamState::new(StreamId::of(1), StreamHandle::from_raw(16), 0);
        let (array, other) = (Arc::new(()), Arc::new(()));
        let mut submit_queue = stream.submit_queue.lock();
        for alive in [&array, &other, &array, &other, &array] {
            submit_queue.add_host_waiter(HostWaiter {
                alive: Arc::downgrade(alive),
                chained: true,
            });
        }
        assert_eq!(submit_queue.host_waiters.len(), 2);
    }
}
