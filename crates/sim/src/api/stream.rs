//! Stream calls.

use millstream_driver::{
    Completion, ContextHandle, EventHandle, PriorityRange, ResultCode, StreamHandle,
};

use crate::{
    ReportKind,
    core::{
        goal::Goal,
        gpu::Session,
        op::OpKind,
        world::{Answer, World},
    },
    ids::StreamKind,
};

/// What an H200 answers.
pub(crate) const PRIORITIES: PriorityRange = PriorityRange {
    least: 0,
    greatest: -5,
};

impl Session<'_> {
    pub(crate) fn stream_create(
        &mut self,
        context: ContextHandle,
        non_blocking: bool,
        priority: i32,
    ) -> Answer<StreamHandle> {
        let device = self.context(context)?;
        let priority = priority.clamp(PRIORITIES.greatest, PRIORITIES.least);
        let handle = self.mint.next_stream(device, StreamKind::Made);
        self.add_stream(handle, context, non_blocking, priority);
        Ok(handle)
    }

    pub(crate) fn stream_destroy(
        &mut self,
        context: ContextHandle,
        handle: StreamHandle,
    ) -> Answer<()> {
        let lost = self.context_even_lost(context)?;
        let stream = self.stream_even_lost(context, handle)?;
        let owner = &self.contexts[&context];
        if stream == owner.legacy || owner.per_thread.iter().any(|(_, own)| *own == stream) {
            let text = "a default stream cannot be destroyed".to_owned();
            return Err(self.breach(ReportKind::BadArgument, ResultCode::INVALID_HANDLE, text));
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
    ) -> Answer<Completion> {
        let stream = self.stream(context, stream)?;
        let done = self.query(|world| world.stream_goal(stream));
        if done {
            let seen = self.stream_seen(stream);
            self.race.host_saw(&seen);
        }
        self.context(context)?;
        Ok(completion(done))
    }

    pub(crate) fn stream_synchronize(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Answer<()> {
        let stream = self.stream(context, stream)?;
        let goal = self.stream_goal(stream);
        let seen = self.stream_seen(stream);
        self.wait(&goal);
        self.race.host_saw(&seen);
        self.synchronised(context)
    }

    pub(crate) fn stream_wait_event(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Answer<()> {
        let stream = self.stream(context, stream)?;
        let goal = World::event_goal(self.event(event)?);
        self.race.waits(stream, event);
        self.enqueue(stream, OpKind::Marker, &goal);
        Ok(())
    }

    /// Rule 29, read strictly: nothing before this point overlaps anything after it, on any stream
    /// of the context.
    pub(crate) fn fence(&mut self, context: ContextHandle) {
        if self.config.rules.implicit_synchronisation.is_strict() {
            let goal = self.context_goal(context);
            if let Some(context) = self.contexts.get_mut(&context) {
                context.fence = goal;
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
    ) -> Goal {
        self.fence(context);
        let id = self.enqueue(stream, kind, &Goal::default());
        self.fence(context);
        Goal {
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
