//! Stream calls.

use millstream_driver::{
    Completion, ContextHandle, EventHandle, PriorityRange, ResultCode, StreamHandle,
};

use crate::{
    ReportKind,
    core::{
        gpu::StateGuard,
        op::OpKind,
        state::{CallResult, SimState},
        wait_set::WaitSet,
    },
    ids::StreamKind,
};

/// What an H200 answers.
pub(crate) const PRIORITIES: PriorityRange = PriorityRange {
    least: 0,
    greatest: -5,
};

impl StateGuard<'_> {
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
        if let Some(found) = self.streams.get_mut(&stream) {
            found.destroyed = true;
            if found.last.is_none() {
                self.remove_stream(stream);
            }
        }
        lost
    }

    pub(crate) fn stream_query(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<Completion> {
        let stream = self.stream(context, stream)?;
        let done = self.query(|state| state.stream_wait_set(stream));
        if done {
            let seen = self.stream_snapshot(stream);
            self.race_checker.host_observed(&seen);
        }
        self.context(context)?;
        Ok(completion(done))
    }

    pub(crate) fn stream_synchronize(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        let wait_set = self.stream_wait_set(stream);
        let seen = self.stream_snapshot(stream);
        self.wait(&wait_set);
        self.race_checker.host_observed(&seen);
        self.synchronised(context)
    }

    pub(crate) fn stream_wait_event(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        let wait_set = SimState::event_wait_set(self.event(event)?);
        self.race_checker.waits(stream, event);
        self.enqueue(stream, OpKind::Marker, &wait_set);
        Ok(())
    }

    /// Rule 29, read strictly: nothing before this point overlaps anything after it, on any stream
    /// of the context.
    pub(crate) fn fence(&mut self, context: ContextHandle) {
        if self.config.rules.implicit_synchronisation.is_strict() {
            let wait_set = self.context_wait_set(context);
            if let Some(context) = self.contexts.get_mut(&context) {
                context.fence = wait_set;
            }
        }
    }

    /// Enqueues work that rule 29 names: read strictly, it is behind everything before it and ahead
    /// of all after it.
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

/// The answer to a query.
pub(crate) fn completion(done: bool) -> Completion {
    if done {
        Completion::Complete
    } else {
        Completion::Pending
    }
}
