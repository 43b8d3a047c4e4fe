//! The happens-before order of streams, events, barriers and the host.

use std::{collections::BTreeMap, sync::Arc};

use millstream_driver::{ContextHandle, EventHandle, StreamHandle};

use super::vector_clock::{Timestamp, VectorClock};

#[derive(Clone, Debug)]
struct StreamClock {
    slot: usize,
    /// The last operation; 0 before the first.
    last: u64,
    /// The operation before it.
    previous: u64,
    /// The clock that the next operation joins.
    before: Arc<VectorClock>,
    /// The host's clock when the last operation was enqueued.
    host_clock: Arc<VectorClock>,
}

impl StreamClock {
    fn timestamp(&self) -> Timestamp {
        Timestamp {
            slot: self.slot,
            op: self.last,
            previous: self.previous,
            before: Arc::clone(&self.before),
        }
    }
}

/// A clock that a waiter joins, and its entry in the trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockSnapshot(Arc<VectorClock>, pub(super) usize);

/// Destroyed streams whose work is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DestroyedStreams {
    None,
    /// The blocking streams of a context.
    Blocking(ContextHandle),
    /// All streams of a context.
    All(ContextHandle),
}

#[derive(Debug, Default)]
struct DestroyedStreamClocks {
    blocking: Arc<VectorClock>,
    all: Arc<VectorClock>,
}

/// The happens-before order of everything enqueued so far.
#[derive(Debug, Default)]
pub(super) struct HappensBefore {
    stream_clocks: BTreeMap<StreamHandle, StreamClock>,
    /// The number of slots so far.
    slots: usize,
    /// The slots of destroyed streams, each with the stream's last operation.
    retired: Vec<(usize, u64)>,
    destroyed: BTreeMap<ContextHandle, DestroyedStreamClocks>,
    events: BTreeMap<EventHandle, Timestamp>,
    /// The clock of the work that the host has seen complete.
    host_clock: Arc<VectorClock>,
}

impl HappensBefore {
    fn stream_clock(&mut self, stream: StreamHandle) -> &mut StreamClock {
        let Self {
            slots,
            retired,
            host_clock,
            ..
        } = self;
        self.stream_clocks.entry(stream).or_insert_with(|| {
            // The host has seen the operations of such a stream complete, so all operations of the
            // new one happen after them, and the numbers of both can share a slot.
            let reused = retired
                .iter()
                .position(|(slot, last)| host_clock.last_of(*slot) >= *last);
            let slot = reused.map_or(*slots, |index| retired.swap_remove(index).0);
            *slots = (*slots).max(slot + 1);
            StreamClock {
                slot,
                last: 0,
                previous: 0,
                before: Arc::default(),
                host_clock: Arc::default(),
            }
        })
    }

    fn destroyed(&self, destroyed: DestroyedStreams) -> Option<&Arc<VectorClock>> {
        match destroyed {
            DestroyedStreams::None => None,
            DestroyedStreams::Blocking(context) => {
                self.destroyed.get(&context).map(|ends| &ends.blocking)
            }
            DestroyedStreams::All(context) => self.destroyed.get(&context).map(|ends| &ends.all),
        }
    }

    /// Appends an operation to `stream`, ordered after the tails of `queues` and after `after`.
    pub(super) fn enqueue(
        &mut self,
        stream: StreamHandle,
        op: u64,
        (queues, destroyed): (&[StreamHandle], DestroyedStreams),
        after: impl Iterator<Item = Timestamp>,
    ) -> Timestamp {
        let destroyed = self.destroyed(destroyed).cloned();
        let mut others: Vec<Timestamp> = after.collect();
        let stream_clocks = queues.iter().filter(|queue| **queue != stream);
        others.extend(
            stream_clocks
                .filter_map(|queue| self.stream_clocks.get(queue))
                .map(StreamClock::timestamp),
        );
        let host_clock = Arc::clone(&self.host_clock);
        let stream_clock = self.stream_clock(stream);
        if !Arc::ptr_eq(&stream_clock.host_clock, &host_clock) {
            VectorClock::join(&mut stream_clock.before, &host_clock);
            stream_clock.host_clock = host_clock;
        }
        for other in others {
            other.join_into(&mut stream_clock.before);
        }
        if let Some(destroyed) = destroyed {
            VectorClock::join(&mut stream_clock.before, &destroyed);
        }
        stream_clock.previous = std::mem::replace(&mut stream_clock.last, op);
        stream_clock.timestamp()
    }

    /// Records an event, which captures the work of `stream` so far (rules 22 and 23).
    pub(super) fn record(&mut self, event: EventHandle, stream: StreamHandle) {
        let timestamp = self.stream_clock(stream).timestamp();
        self.events.insert(event, timestamp);
    }

    /// Orders later work of `stream` after the work that `event` captured (rule 24).
    pub(super) fn wait(&mut self, stream: StreamHandle, event: EventHandle) {
        if let Some(timestamp) = self.events.get(&event).cloned() {
            timestamp.join_into(&mut self.stream_clock(stream).before);
        }
    }

    pub(super) fn forget_event(&mut self, event: EventHandle) {
        self.events.remove(&event);
    }

    /// Removes a destroyed stream, and keeps its clock for its context.
    pub(super) fn forget_stream(
        &mut self,
        stream: StreamHandle,
        of: ContextHandle,
        blocking: bool,
    ) {
        let Some(stream_clock) = self.stream_clocks.remove(&stream) else {
            return;
        };
        self.retired.push((stream_clock.slot, stream_clock.last));
        let ends = self.destroyed.entry(of).or_default();
        stream_clock.timestamp().join_into(&mut ends.all);
        if blocking {
            stream_clock.timestamp().join_into(&mut ends.blocking);
        }
    }

    pub(super) fn forget_context(&mut self, context: ContextHandle) {
        self.destroyed.remove(&context);
    }

    /// Returns the clock of a wait for all of these streams as they are now.
    pub(super) fn snapshot_of(
        &self,
        streams: impl Iterator<Item = StreamHandle>,
        destroyed: DestroyedStreams,
    ) -> ClockSnapshot {
        let mut snapshot = ClockSnapshot(self.destroyed(destroyed).cloned().unwrap_or_default(), 0);
        for stream_clock in streams.filter_map(|stream| self.stream_clocks.get(&stream)) {
            stream_clock.timestamp().join_into(&mut snapshot.0);
        }
        snapshot
    }

    pub(super) fn event(&self, event: EventHandle) -> ClockSnapshot {
        self.events
            .get(&event)
            .map_or_else(ClockSnapshot::default, ClockSnapshot::timestamp)
    }

    /// Joins the host's clock with work that it has seen complete.
    pub(super) fn host_observed(&mut self, snapshot: &ClockSnapshot) {
        VectorClock::join(&mut self.host_clock, &snapshot.0);
    }

    /// Returns the clock of the work that the host has seen complete.
    pub(super) fn host_clock(&self) -> &Arc<VectorClock> {
        &self.host_clock
    }
}

impl ClockSnapshot {
    pub(super) fn timestamp(timestamp: &Timestamp) -> Self {
        let mut snapshot = Self::default();
        timestamp.join_into(&mut snapshot.0);
        snapshot
    }

    pub(super) fn before(timestamp: &Timestamp) -> Self {
        let mut snapshot = Self(Arc::clone(&timestamp.before), 0);
        Arc::make_mut(&mut snapshot.0).raise(timestamp.slot, timestamp.previous);
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: ContextHandle = ContextHandle::from_raw(1);

    fn enqueue(order: &mut HappensBefore, stream: usize, op: u64) -> Timestamp {
        let stream = StreamHandle::from_raw(stream);
        let queues = [stream];
        let place = (&queues[..], DestroyedStreams::None);
        order.enqueue(stream, op, place, std::iter::empty())
    }

    #[test]
    fn streams_whose_work_the_host_has_seen_leave_their_slots_to_later_ones() {
        let mut order = HappensBefore::default();
        for number in 1..100 {
            let timestamp = enqueue(&mut order, number, number as u64);
            assert_eq!(timestamp.slot, 0);
            assert_eq!(timestamp.last_of(0), number as u64);
            order.host_observed(&ClockSnapshot::timestamp(&timestamp));
            order.forget_stream(StreamHandle::from_raw(number), CONTEXT, false);
        }
    }

    #[test]
    fn work_that_the_host_has_not_seen_is_not_ordered_before_that_of_a_new_stream() {
        let mut order = HappensBefore::default();
        let first = enqueue(&mut order, 1, 1);
        order.forget_stream(StreamHandle::from_raw(1), CONTEXT, false);
        let second = enqueue(&mut order, 2, 2);
        assert_ne!(first.slot, second.slot);
        assert_eq!(second.last_of(first.slot), 0);
    }
}
