//! The life cycle of an operation, from its enqueueing until it is retired and its successors
//! become eligible.

use std::collections::BTreeSet;

use millstream_driver::{ContextHandle, StreamHandle};
use millstream_ptx::Site;
use smallvec::smallvec;

use super::{
    graph::NodePlace,
    objects::stream::{WaitSet, Waiter},
    op::{OpKind, StreamOp, Successor},
    state::SimState,
};
use crate::{
    ids::OpId,
    race::{DestroyedStreams, EnqueuedOp, Input, OpClock},
};

impl SimState {
    /// Appends an operation to `stream`. Its predecessors are the wait set `after`, the stream's
    /// last operation, the context's fence, and the implicit barriers between blocking streams and
    /// the legacy default stream.
    pub(crate) fn enqueue(&mut self, stream: StreamHandle, kind: OpKind, after: &WaitSet) -> OpId {
        self.enqueue_behind(stream, kind, after, &[]).0
    }

    /// Appends an operation to `stream` like [`enqueue`](Self::enqueue). For the race checker it
    /// also comes after `clocks`. Returns its own clock too.
    pub(super) fn enqueue_behind(
        &mut self,
        stream: StreamHandle,
        kind: OpKind,
        after: &WaitSet,
        clocks: &[OpClock],
    ) -> (OpId, OpClock) {
        self.ops_enqueued += 1;
        let id = OpId(self.ops_enqueued);
        let context_handle = self.streams[&stream].context;
        let context = &mut self
            .contexts
            .get_mut(&context_handle)
            .expect("the stream's context was destroyed before the stream");
        let mut ready_ns = self
            .now_ns
            .max(after.finish_ns)
            .max(context.fence.finish_ns);
        // Every unfinished operation is in `ops`; a finished one has already updated `finish_ns`.
        context.fence.ops.retain(|op| self.ops.contains_key(op));
        let mut predecessors: BTreeSet<OpId> = after
            .ops
            .iter()
            .chain(&context.fence.ops)
            .copied()
            .collect();
        let device = context.device;
        let mut gone = DestroyedStreams::None;
        let queues = if stream == context.legacy {
            gone = DestroyedStreams::Blocking(context_handle);
            ready_ns = ready_ns.max(context.destroyed_blocking_until_ns);
            self.blocking_streams(context_handle).collect()
        } else if self.streams[&stream].non_blocking {
            smallvec![stream]
        } else {
            smallvec![stream, context.legacy]
        };
        let summary = (self.race_checker.is_on() && kind.accesses_memory()).then(|| kind.summary());
        let site = Site::current();
        let op = EnqueuedOp {
            id,
            stream,
            branch: stream,
            queues: queues.clone(),
            gone,
            summary,
            call: self.call,
            site: site.clone(),
            launch: None,
        };
        let clock = self.race_checker.enqueued(op, &after.ops, clocks);
        for queue in queues {
            let queue = &self.streams[&queue];
            ready_ns = ready_ns.max(queue.last_finish_ns);
            predecessors.extend(queue.last());
        }
        let bounded = kind.is_bounded();
        let of = (stream, context_handle, device);
        self.insert_op(id, of, kind, (None, site), predecessors, ready_ns);
        let queue = self
            .streams
            .get_mut(&stream)
            .expect("the stream was looked up above");
        queue.pending.push_back(id);
        if bounded {
            queue.queued.push_back(id);
        }
        (id, clock)
    }

    /// Adds an operation behind its predecessors, and makes it eligible if all are complete.
    pub(super) fn insert_op(
        &mut self,
        id: OpId,
        (stream, context, device): (StreamHandle, ContextHandle, u32),
        kind: OpKind,
        (node, site): (Option<NodePlace>, Option<Site>),
        mut predecessors: BTreeSet<OpId>,
        ready_ns: u64,
    ) {
        if let Some(tried) = self.config.edges.get(&id.0) {
            predecessors.extend(tried.iter().map(|op| OpId(*op)));
        }
        let mut unmet = 0;
        for predecessor in &predecessors {
            if let Some(op) = self.ops.get_mut(predecessor) {
                op.successors.push(Successor::Op(id));
                unmet += 1;
            }
        }
        let held = matches!(kind, OpKind::Hold(None));
        self.node_ops += usize::from(node.is_some());
        self.ops.insert(
            id,
            StreamOp {
                stream,
                context,
                device,
                kind,
                node,
                site,
                predecessors: predecessors.into_iter().collect(),
                unmet,
                ready_ns,
                successors: Default::default(),
            },
        );
        if unmet == 0 && !held {
            self.eligible.insert(id);
        }
    }

    /// Removes a finished operation and updates its successors and waiters.
    pub(crate) fn retire(&mut self, id: OpId, op: StreamOp, finish_ns: u64) {
        self.progress += 1;
        self.node_ops -= usize::from(op.node.is_some());
        if let Some(stream) = self.streams.get_mut(&op.stream) {
            if matches!(op.kind, OpKind::Marker) {
                self.race_checker
                    .waited(id, stream.last_finish_ns, finish_ns);
            }
            stream.last_finish_ns = stream.last_finish_ns.max(finish_ns);
            // The first, because a stream runs its operations in order; a graph's nodes are in no
            // queue.
            for queue in [&mut stream.pending, &mut stream.queued] {
                if queue.front() == Some(&id) {
                    queue.pop_front();
                }
            }
            if stream.destroyed && stream.pending.is_empty() {
                self.remove_stream(op.stream);
            }
        }
        if let Some(context) = self.contexts.get_mut(&op.context) {
            context.busy_until_ns = context.busy_until_ns.max(finish_ns);
            context.fence.note(id, finish_ns);
        }
        if let OpKind::GraphEnd(exec) = op.kind
            && let Some(executable) = self.executables.get_mut(&exec)
        {
            executable.last_finish_ns = executable.last_finish_ns.max(finish_ns);
        }
        if matches!(op.kind, OpKind::GraphEnd(_)) {
            self.free_graph_memory();
        }
        if let OpKind::Record(event) = op.kind
            && let Some(event) = self.events.get_mut(&event)
            && let Some(capture) = &mut event.capture
            && capture.op == id
        {
            capture.finish_ns = Some(finish_ns);
        }
        for successor in op.successors {
            match successor {
                Successor::Waiter(waiter) => {
                    if let Some(waiter) = self.waiters.get_mut(&waiter) {
                        waiter.unmet -= 1;
                        waiter.finish_ns = waiter.finish_ns.max(finish_ns);
                    }
                }
                Successor::Op(next_id) => {
                    if let Some(next) = self.ops.get_mut(&next_id) {
                        next.unmet -= 1;
                        next.ready_ns = next.ready_ns.max(finish_ns);
                        if next.unmet == 0 && !matches!(next.kind, OpKind::Hold(None)) {
                            self.eligible.insert(next_id);
                        }
                    }
                }
            }
        }
    }

    /// Registers a waiter for a host thread that blocks until the wait set is complete.
    pub(crate) fn add_waiter(&mut self, wait_set: &WaitSet) -> u64 {
        self.waiters_made += 1;
        let id = self.waiters_made;
        let mut unmet = 0;
        for op in &wait_set.ops {
            if let Some(op) = self.ops.get_mut(op) {
                op.successors.push(Successor::Waiter(id));
                unmet += 1;
            }
        }
        self.waiters.insert(
            id,
            Waiter {
                ops: wait_set.ops.clone(),
                unmet,
                finish_ns: wait_set.finish_ns,
            },
        );
        id
    }

    /// Removes a destroyed stream whose operations are complete. The context keeps the finish time
    /// of a blocking stream, because the legacy default stream still waits for it.
    pub(crate) fn remove_stream(&mut self, handle: StreamHandle) {
        let Some(stream) = self.streams.remove(&handle) else {
            return;
        };
        if let Some(context) = self.contexts.get_mut(&stream.context)
            && !stream.non_blocking
        {
            let until_ns = &mut context.destroyed_blocking_until_ns;
            *until_ns = stream.last_finish_ns.max(*until_ns);
        }
        let blocking = !stream.non_blocking;
        let input = Input::StreamDestroyed(handle, stream.context, blocking);
        self.race_checker.take(input);
    }

    pub(crate) fn release_hold(&mut self, id: OpId) {
        let now_ns = self.now_ns;
        // The operation is gone if its context was lost or destroyed.
        if let Some(op) = self.ops.get_mut(&id) {
            op.kind = OpKind::Hold(Some(now_ns));
            if op.unmet == 0 {
                self.eligible.insert(id);
            }
        }
    }

    /// Releases every hold of a context before the context is destroyed.
    pub(crate) fn release_holds(&mut self, context: ContextHandle) {
        let in_context = self.ops.iter().filter(|(_, op)| op.context == context);
        let held = in_context.filter(|(_, op)| matches!(op.kind, OpKind::Hold(None)));
        for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.release_hold(id);
        }
    }
}
