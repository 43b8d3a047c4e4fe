//! Wait sets: the operations that a wait, a query or an operation depends on.

use millstream_driver::{ContextHandle, StreamHandle};

use super::objects::stream::WaitSet;
use super::state::SimState;
use crate::{
    core::objects::stream::{Capture, Event, Stream},
    race::{ClockSnapshot, DestroyedStreams, SnapshotOf},
};

impl SimState {
    /// Returns the blocking streams of a context, which its legacy default stream waits for (rule
    /// 17), the legacy stream included.
    pub(super) fn blocking_streams(
        &self,
        context: ContextHandle,
    ) -> impl Iterator<Item = StreamHandle> {
        let streams = self.streams.iter();
        let blocking = move |other: &Stream| other.context == context && !other.non_blocking;
        streams
            .filter(move |(_, other)| blocking(other))
            .map(|(handle, _)| *handle)
    }

    /// Returns whether the stream is the legacy default stream of its context.
    fn is_legacy(&self, stream: StreamHandle) -> bool {
        let context = self.streams[&stream].context;
        self.contexts
            .get(&context)
            .is_some_and(|context| context.legacy == stream)
    }

    /// Returns the work that a synchronisation with the stream waits for: everything enqueued on it
    /// so far, and for the legacy default stream also everything on blocking streams (rule 55:
    /// synchronising the legacy stream waits for all blocking streams).
    pub(crate) fn stream_wait_set(&self, handle: StreamHandle) -> WaitSet {
        let stream = &self.streams[&handle];
        let mut wait_set = WaitSet {
            ops: stream.last().into_iter().collect(),
            finish_ns: stream.last_finish_ns,
        };
        if self.is_legacy(handle) {
            let gone_ns = self.contexts[&stream.context].destroyed_blocking_until_ns;
            wait_set.finish_ns = wait_set.finish_ns.max(gone_ns);
            for blocking in self
                .blocking_streams(stream.context)
                .filter(|it| *it != handle)
            {
                let blocking = &self.streams[&blocking];
                wait_set.ops.extend(blocking.last());
                wait_set.finish_ns = wait_set.finish_ns.max(blocking.last_finish_ns);
            }
        }
        wait_set
    }

    /// Returns the race checker's clock of the work in [`stream_wait_set`](Self::stream_wait_set).
    pub(crate) fn stream_snapshot(&self, handle: StreamHandle) -> ClockSnapshot {
        if !self.is_legacy(handle) {
            let of = SnapshotOf::Streams(vec![handle], DestroyedStreams::None);
            return self.race_checker.snapshot(of);
        }
        let context = self.streams[&handle].context;
        let streams = self.blocking_streams(context).collect();
        let of = SnapshotOf::Streams(streams, DestroyedStreams::Blocking(context));
        self.race_checker.snapshot(of)
    }

    /// Returns all work enqueued in the context so far.
    pub(crate) fn context_wait_set(&self, context: ContextHandle) -> WaitSet {
        WaitSet {
            ops: self
                .streams
                .values()
                .filter(|stream| stream.context == context)
                .filter_map(Stream::last)
                .collect(),
            finish_ns: self.contexts.get(&context).map_or(0, |c| c.busy_until_ns),
        }
    }

    /// Returns the work captured by the event's last record; empty if it was never recorded.
    pub(crate) fn event_wait_set(event: &Event) -> WaitSet {
        match event.capture {
            None => WaitSet::default(),
            Some(Capture {
                finish_ns: Some(finish_ns),
                ..
            }) => WaitSet {
                ops: Vec::new(),
                finish_ns,
            },
            Some(Capture { op, .. }) => WaitSet {
                ops: vec![op],
                finish_ns: 0,
            },
        }
    }

    /// Returns the race checker's clock of all work enqueued in the context so far.
    pub(crate) fn context_snapshot(&self, context: ContextHandle) -> ClockSnapshot {
        let streams = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == context);
        let streams = streams.map(|(handle, _)| *handle).collect();
        let of = SnapshotOf::Streams(streams, DestroyedStreams::All(context));
        self.race_checker.snapshot(of)
    }
}
