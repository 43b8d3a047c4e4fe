//! The state of one stream: its submit queue, its sync points, and its completed sequence number.

use std::sync::{Arc, Weak};

use millstream_driver::{EventHandle, StreamHandle};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    adopted::Adopted,
    events::PooledEvent,
    loss::RecentOperations,
    slots::{GraphLayer, MemoryLayer, PageLockedLayer, StreamSlot},
};
use crate::{
    sync::{
        AtomicU64, Condvar, Ordering,
        ranked::{Ranked, STREAM_STATE, SUBMIT_QUEUE},
    },
    tracker::{DeviceNumber, Sequence, StreamId, SyncPoints, Ticket, VectorClock},
};

/// The part of a stream's state that only the submitting thread accesses. Its lock is held across
/// the stream's driver calls, so that tickets are enqueued in the order of their numbers.
#[derive(Debug)]
pub(crate) struct SubmitQueue {
    pub(crate) next: Sequence,
    /// The vector clock of the stream's tail: everything ordered before it by waits that the driver
    /// has accepted.
    pub(crate) clock: VectorClock,
    /// True if the clock has changed since it was last passed to the stream's sync points.
    pub(crate) joined: bool,
    /// The host waiters of the stream's last tickets. A later submission records a sync point
    /// before its own operation, so that the host wait does not include later work.
    pub(crate) host_waiters: SmallVec<[HostWaiter; 1]>,
    /// Events taken from the device's pool for future sync points.
    pub(crate) spares: Vec<PooledEvent>,
}

impl SubmitQueue {
    /// Notes that the driver has accepted a wait for an event of the stream's device whose clock is
    /// `clock`.
    #[inline]
    pub(crate) fn join(&mut self, clock: &VectorClock) {
        self.clock.join(clock);
        self.joined = true;
    }

    /// Notes that the driver has accepted a wait for an event of another device, `owner`, whose
    /// clock is `clock`.
    ///
    /// Only that device's tickets are added. If that device is lost the wait ends, and then says
    /// nothing about the order with other devices.
    pub(crate) fn join_device(&mut self, clock: &VectorClock, owner: DeviceNumber) {
        self.clock.join_device(clock, owner);
        self.joined = true;
    }

    /// Notes that the host may wait for the last ticket. All copies of an array or a scope share
    /// one entry.
    pub(crate) fn add_host_waiter(&mut self, host_waiter: HostWaiter) {
        if !self
            .host_waiters
            .iter()
            .any(|earlier| earlier.is_same(&host_waiter))
        {
            self.host_waiters.push(host_waiter);
        }
    }
}

/// A registration that the host may wait for an operation, valid as long as `alive` is.
#[derive(Clone, Debug)]
pub(crate) struct HostWaiter {
    pub(crate) alive: Weak<()>,
    /// True if one sync point may serve this operation and similar ones right behind it: set for
    /// copies of page-locked memory.
    pub(crate) chained: bool,
}

impl HostWaiter {
    /// Returns whether one sync point may serve an earlier operation and this one right behind it.
    /// A scope waits for both anyway. A host wait for one of several page-locked copies waits for a
    /// few more bytes at most.
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        self.is_same(earlier) || (self.chained && earlier.chained)
    }

    /// Returns whether both have the same liveness token.
    fn is_same(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.alive, &other.alive)
    }
}

/// The part of a stream's state that other threads read: its sync points and recent operations.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) points: SyncPoints<EventHandle>,
    pub(crate) recent: RecentOperations,
}

/// The state of one stream. It lives as long as its device: tickets of a dropped
/// [`Stream`](crate::Stream) may still be waited for.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) id: StreamId,
    /// The stream's number on its device, as returned by [`Stream::id`](crate::Stream::id).
    pub(crate) number: u64,
    pub(crate) handle: StreamHandle,
    pub(crate) priority: i32,
    pub(crate) submit_queue: Ranked<SUBMIT_QUEUE, SubmitQueue>,
    pub(crate) shared: Ranked<STREAM_STATE, SharedState>,
    /// The condition variable of `shared`, signalled when a ticket becomes submitted.
    pub(crate) submitted: Condvar,
    /// Set for a stream of another library.
    pub(super) adopted: Option<Adopted>,
    /// The owner's stream, while this one is the companion of an adopted one.
    pub(super) owner: Mutex<Option<Arc<StreamState>>>,
    /// Set while the stream's operations become nodes of a graph.
    pub(super) graph_slot: <GraphLayer as StreamSlot>::Value,
    pub(crate) memory_slot: <MemoryLayer as StreamSlot>::Value,
    pub(crate) page_locked_slot: <PageLockedLayer as StreamSlot>::Value,
    done: AtomicU64,
}

impl StreamState {
    /// Returns whether this library created the stream, so that it may enqueue there and query it
    /// at any time.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.adopted.is_none()
    }

    /// Calls `body` unless the stream's owner may have destroyed it. In that case all operations of
    /// this library on the stream are complete.
    #[inline(always)]
    pub(crate) fn while_kept<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        match &self.adopted {
            None => Some(body()),
            Some(adopted) => adopted.while_kept(body),
        }
    }
    pub(crate) fn new(id: StreamId, handle: StreamHandle, priority: i32) -> Self {
        Self {
            id,
            number: u64::from(id.index()) + 1,
            handle,
            priority,
            submit_queue: Ranked::new(SubmitQueue {
                next: Sequence::FIRST,
                clock: VectorClock::default(),
                joined: false,
                host_waiters: SmallVec::new(),
                spares: Vec::new(),
            }),
            shared: Ranked::new(SharedState {
                points: SyncPoints::new(id),
                recent: RecentOperations::default(),
            }),
            submitted: Condvar::new(),
            adopted: None,
            owner: Mutex::default(),
            graph_slot: Default::default(),
            memory_slot: Default::default(),
            page_locked_slot: Default::default(),
            done: AtomicU64::new(Sequence::START.get()),
        }
    }

    /// Sets the number to the one that the driver uses in its reports, if it has one.
    pub(crate) fn numbered(self, number: Option<u64>) -> Self {
        Self {
            number: number.unwrap_or(self.number),
            ..self
        }
    }

    /// Returns whether the ticket with this sequence number is known to be complete.
    pub(crate) fn is_done(&self, sequence: Sequence) -> bool {
        self.done() >= sequence
    }

    /// Marks all tickets up to `sequence` as complete.
    pub(crate) fn mark_done(&self, sequence: Sequence) {
        self.done.fetch_max(sequence.get(), Ordering::AcqRel);
    }

    /// Returns the highest sequence number known to be complete.
    pub(crate) fn done(&self) -> Sequence {
        // Acquire: a thread that learns that a copy is complete may read the copied bytes.
        Sequence::of(self.done.load(Ordering::Acquire))
    }

    /// Returns the earliest sync point at or behind the ticket with this sequence number.
    pub(crate) fn covering(&self, sequence: Sequence) -> Option<PooledEvent> {
        self.shared.lock().points.covering(sequence).map(Arc::clone)
    }

    pub(crate) fn ticket(&self, sequence: Sequence) -> Ticket {
        Ticket::new(self.id, sequence)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn copies_of_one_array_share_a_host_waiter() {
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
