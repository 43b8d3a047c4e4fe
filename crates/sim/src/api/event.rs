//! Event calls.

use millstream_driver::{
    Completion, ContextHandle, EventHandle, EventKind, ResultCode, StreamHandle,
};
use millstream_ptx::Site;

use super::stream::completion;
use crate::{
    ReportKind,
    core::{
        goal::Goal,
        gpu::Session,
        op::OpKind,
        world::{Answer, Capture, Event, Refusal, World},
    },
    ids::name,
};

impl Session<'_> {
    /// The event behind a handle.
    pub(crate) fn event(&mut self, handle: EventHandle) -> Answer<&Event> {
        if !self.events.contains_key(&handle) {
            let (kind, text) = self.mint.explain(handle);
            return Err(self.breach(kind, ResultCode::INVALID_HANDLE, text));
        }
        Ok(&self.events[&handle])
    }

    pub(crate) fn event_create(
        &mut self,
        context: ContextHandle,
        kind: EventKind,
    ) -> Answer<EventHandle> {
        self.context(context)?;
        let handle = self.mint.next();
        self.events.insert(
            handle,
            Event {
                context,
                kind,
                site: Site::current(),
                capture: None,
            },
        );
        Ok(handle)
    }

    pub(crate) fn event_destroy(
        &mut self,
        context: ContextHandle,
        event: EventHandle,
    ) -> Answer<()> {
        let lost = self.context_even_lost(context)?;
        self.event(event)?;
        self.events.remove(&event);
        self.race.event_gone(event);
        lost
    }

    pub(crate) fn event_record(
        &mut self,
        context: ContextHandle,
        handle: EventHandle,
        stream: StreamHandle,
    ) -> Answer<()> {
        let stream = self.stream(context, stream)?;
        let owner = self.event(handle)?.context;
        if owner != context {
            let text = format!(
                "{} belongs to {}, the stream to {} (rule 26)",
                name(handle),
                name(owner),
                name(context)
            );
            return Err(self.breach(ReportKind::WrongContext, ResultCode::INVALID_HANDLE, text));
        }
        let op = self.enqueue(stream, OpKind::Record(handle), &Goal::default());
        self.race.recorded(handle, stream);
        if let Some(event) = self.events.get_mut(&handle) {
            event.capture = Some(Capture {
                op,
                finish_ns: None,
            });
        }
        Ok(())
    }

    pub(crate) fn event_query(
        &mut self,
        current: ContextHandle,
        handle: EventHandle,
    ) -> Answer<Completion> {
        self.context(current)?;
        let context = self.event(handle)?.context;
        self.context(context)?;
        let done = self.query(|world| World::event_goal(&world.events[&handle]));
        if done {
            let seen = self.race.event(handle);
            self.race.host_saw(&seen);
        }
        self.context(context)?;
        Ok(completion(done))
    }

    pub(crate) fn event_synchronize(
        &mut self,
        current: ContextHandle,
        handle: EventHandle,
    ) -> Answer<()> {
        self.context(current)?;
        let event = self.event(handle)?;
        let (context, goal) = (event.context, World::event_goal(event));
        self.context(context)?;
        let seen = self.race.event(handle);
        self.wait(&goal);
        self.race.host_saw(&seen);
        self.synchronised(context)
    }

    pub(crate) fn event_elapsed_ms(
        &mut self,
        current: ContextHandle,
        start: EventHandle,
        end: EventHandle,
    ) -> Answer<f32> {
        self.context(current)?;
        let (start_ns, end_ns) = (self.time_stamp(start)?, self.time_stamp(end)?);
        Ok((end_ns as f64 - start_ns as f64) as f32 / 1e6)
    }

    fn time_stamp(&mut self, handle: EventHandle) -> Answer<u64> {
        let event = self.event(handle)?;
        let (context, kind, capture) = (event.context, event.kind, event.capture);
        self.context(context)?;
        let problem = match capture {
            _ if kind == EventKind::Ordering => "carries no time stamp",
            None => "was never recorded",
            Some(_) => "",
        };
        if !problem.is_empty() {
            let text = format!("{} {problem}", name(handle));
            return Err(self.breach(ReportKind::BadArgument, ResultCode::INVALID_HANDLE, text));
        }
        match capture.and_then(|capture| capture.finish_ns) {
            Some(finish_ns) if self.has_passed(finish_ns) => Ok(finish_ns),
            _ => Err(Refusal::new(
                ResultCode::NOT_READY,
                format!("{} is not complete", name(handle)),
            )),
        }
    }
}
