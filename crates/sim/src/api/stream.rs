//! Stream calls.

use millstream_driver::{
    Completion, ContextHandle, EventHandle, PriorityRange, ResultCode, StreamHandle,
};

use crate::{
    ReportKind,
    core::{
        call_error::CallResult, gpu::StateGuard, objects::stream::WaitSet, op::OpKind,
        state::SimState,
    },
    ids::{OpId, StreamKind, name},
    race::Input,
};

/// The range of stream priorities of an H200.
pub(crate) const PRIORITIES: PriorityRange = PriorityRange {
    least: 0,
    greatest: -5,
};

impl StateGuard<'_> {
    pub(super) fn stream_priority_range(
        &mut self,
        context: ContextHandle,
    ) -> CallResult<PriorityRange> {
        self.context(context).map(|_| PRIORITIES)
    }

    /// Creates a stream. The priority is clamped to [`PRIORITIES`].
    pub(crate) fn stream_create(
        &mut self,
        context: ContextHandle,
        non_blocking: bool,
        priority: i32,
    ) -> CallResult<StreamHandle> {
        let device = self.context(context)?;
        let priority = priority.clamp(PRIORITIES.greatest, PRIORITIES.least);
        let handle = self.handles.next_stream(device, StreamKind::Created);
        self.add_stream(handle, context, non_blocking, priority);
        Ok(handle)
    }

    /// Destroys a stream, also in a lost context. It is removed when its work is complete (rule
    /// 21).
    pub(crate) fn stream_destroy(
        &mut self,
        context: ContextHandle,
        handle: StreamHandle,
    ) -> CallResult<()> {
        let lost = self.context_even_lost(context)?;
        let stream = self.stream_even_lost(context, handle)?;
        let owner = &self.contexts[&context];
        if stream == owner.legacy || owner.per_thread.iter().any(|(_, own)| *own == stream) {
            let text = "a default stream cannot be destroyed".to_owned();
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_HANDLE, text));
        }
        // A capture ends with its origin; the nodes of another stream stay in it.
        if !self.abandon_capture(stream) {
            self.leave_capture(stream);
        }
        if let Some(found) = self.streams.get_mut(&stream) {
            found.destroyed = true;
            if found.pending.is_empty() {
                self.remove_stream(stream);
            }
        }
        lost
    }

    /// Returns whether all work of a stream is complete.
    pub(crate) fn stream_query(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<Completion> {
        let stream = self.stream(context, stream)?;
        self.refuse_in_capture(stream, "a query")?;
        let done = self.query(|state| state.stream_wait_set(stream));
        if done {
            let seen = self.stream_snapshot(stream);
            self.race_checker.take(Input::Observed(seen));
        }
        self.context(context)?;
        Ok(completion(done))
    }

    pub(crate) fn stream_context(&mut self, handle: StreamHandle) -> CallResult<ContextHandle> {
        match self.streams.get(&handle) {
            Some(stream) if !stream.destroyed => Ok(stream.context),
            _ => {
                let text = format!("{} is not a stream that is alive", name(handle));
                Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_HANDLE, text))
            }
        }
    }

    /// Waits for all work enqueued on a stream so far.
    pub(crate) fn stream_synchronize(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        self.refuse_in_capture(stream, "a wait of the host")?;
        let wait_set = self.stream_wait_set(stream);
        let seen = self.stream_snapshot(stream);
        self.wait_of_program(&wait_set, seen);
        self.synchronised(context)
    }

    /// Enqueues a wait of a stream for an event's last record. If the event's context is lost, or
    /// lost later, the wait ends without an error: no record of that context is pending then.
    pub(crate) fn stream_wait_event(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        let wait_set = SimState::event_wait_set(self.event(event)?);
        if self.capture_wait(stream, event)? {
            return Ok(());
        }
        self.race_checker.take(Input::Waits(stream, event));
        let (call, next, now_ns) = (self.call, OpId(self.ops_enqueued + 1), self.now_ns);
        self.race_checker.note_wait(call, now_ns, Some(next));
        self.enqueue(stream, OpKind::Marker, &wait_set);
        Ok(())
    }

    /// Makes all later work of the context wait for all work enqueued so far, if rule 29 (implicit
    /// synchronisation between streams) is strict.
    pub(crate) fn fence(&mut self, context: ContextHandle) {
        if self.config.rules.implicit_synchronisation.is_strict() {
            let wait_set = self.context_wait_set(context);
            if let Some(context) = self.contexts.get_mut(&context) {
                context.fence = wait_set;
            }
        }
    }

    /// Enqueues an operation that synchronises implicitly (rule 29). If the rule is strict, the
    /// operation runs after all earlier work and before all later work of the context.
    pub(crate) fn enqueue_fenced(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        kind: OpKind,
    ) -> WaitSet {
        self.fence(context);
        let id = self.enqueue(stream, kind, &WaitSet::default());
        self.fence(context);
        WaitSet {
            ops: vec![id],
            finish_ns: 0,
        }
    }
}

/// Converts the result of a query.
pub(crate) fn completion(done: bool) -> Completion {
    if done {
        Completion::Complete
    } else {
        Completion::Pending
    }
}
