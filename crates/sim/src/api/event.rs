//! Event calls.

use millstream_driver::{
    Completion, ContextHandle, EventHandle, EventKind, ResultCode, StreamHandle,
};
use millstream_ptx::Site;

use super::stream::completion;
use crate::{
    ReportKind,
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        objects::stream::{Capture, Event, WaitSet},
        op::OpKind,
        state::SimState,
    },
    ids::name,
    race::{Input, SnapshotOf},
};

impl StateGuard<'_> {
    pub(crate) fn event(&mut self, handle: EventHandle) -> CallResult<&Event> {
        if !self.events.contains_key(&handle) {
            let (kind, text) = self.handles.explain(handle);
            return Err(self.violation(kind, ResultCode::INVALID_HANDLE, text));
        }
        Ok(&self.events[&handle])
    }

    pub(crate) fn event_create(
        &mut self,
        context: ContextHandle,
        kind: EventKind,
    ) -> CallResult<EventHandle> {
        self.context(context)?;
        let handle = self.handles.next();
        self.events.insert(
            handle,
            Event {
                context,
                kind,
                site: Site::current(),
                capture: None,
                captured: None,
            },
        );
        Ok(handle)
    }

    /// Destroys an event, also in a lost context.
    pub(crate) fn event_destroy(
        &mut self,
        context: ContextHandle,
        event: EventHandle,
    ) -> CallResult<()> {
        let lost = self.context_even_lost(context)?;
        self.event(event)?;
        self.events.remove(&event);
        self.race_checker.take(Input::EventDestroyed(event));
        lost
    }

    /// Enqueues a record of an event. The event must belong to the stream's context (rule 26).
    pub(crate) fn event_record(
        &mut self,
        context: ContextHandle,
        handle: EventHandle,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        let owner = self.event(handle)?.context;
        if owner != context {
            let text = format!(
                "{} belongs to {}, but the stream belongs to {} (rule 26)",
                name(handle),
                name(owner),
                name(context)
            );
            return Err(self.violation(ReportKind::WrongContext, ResultCode::INVALID_HANDLE, text));
        }
        if self.captures(stream)? {
            if self.events[&handle].kind == EventKind::Interprocess {
                let text = format!(
                    "{} may be of several processes, and {} captures",
                    name(handle),
                    name(stream)
                );
                return Err(CallError::new(ResultCode::STREAM_CAPTURE_UNSUPPORTED, text));
            }
            let captured = self.streams[&stream].capture.clone();
            if let Some(event) = self.events.get_mut(&handle) {
                event.captured = captured;
            }
            return Ok(());
        }
        // As on an H200; nothing promises this order, so that it is none for the race checker.
        let earlier = match &self.events[&handle] {
            event if event.kind == EventKind::Interprocess => SimState::event_wait_set(event),
            _ => WaitSet::default(),
        };
        let op = self.enqueue(stream, OpKind::Record(handle), &earlier);
        self.race_checker.take(Input::Recorded(handle, stream));
        if let Some(event) = self.events.get_mut(&handle) {
            event.capture = Some(Capture {
                op,
                finish_ns: None,
            });
            event.captured = None;
        }
        Ok(())
    }

    /// Returns whether an event's last record is complete. Fails with the sticky error of the
    /// event's context, also if the current context is another device's and not lost.
    pub(crate) fn event_query(
        &mut self,
        current: ContextHandle,
        handle: EventHandle,
    ) -> CallResult<Completion> {
        self.context(current)?;
        let context = self.event(handle)?.context;
        self.context(context)?;
        self.refuse_captured_event(handle)?;
        self.refuse_if_unsafe()?;
        let done = self.query(|state| SimState::event_wait_set(&state.events[&handle]));
        if done {
            let seen = self.race_checker.snapshot(SnapshotOf::Event(handle));
            self.race_checker.take(Input::Observed(seen));
        }
        self.context(context)?;
        Ok(completion(done))
    }

    /// Waits for an event's last record. Fails as [`event_query`](Self::event_query).
    pub(crate) fn event_synchronize(
        &mut self,
        current: ContextHandle,
        handle: EventHandle,
    ) -> CallResult<()> {
        self.context(current)?;
        let event = self.event(handle)?;
        let (context, wait_set) = (event.context, SimState::event_wait_set(event));
        self.context(context)?;
        self.refuse_captured_event(handle)?;
        let seen = self.race_checker.snapshot(SnapshotOf::Event(handle));
        self.wait_of_program(&wait_set, seen);
        self.synchronised(context)
    }

    /// Returns the time between two recorded events in milliseconds.
    pub(crate) fn event_elapsed_ms(
        &mut self,
        current: ContextHandle,
        start: EventHandle,
        end: EventHandle,
    ) -> CallResult<f32> {
        self.context(current)?;
        let (start_ns, end_ns) = (self.time_stamp(start)?, self.time_stamp(end)?);
        Ok((end_ns as f64 - start_ns as f64) as f32 / 1e6)
    }

    /// Returns the finish time of an event's last record. Fails if the event has no time stamp or
    /// is not complete.
    fn time_stamp(&mut self, handle: EventHandle) -> CallResult<u64> {
        let event = self.event(handle)?;
        let (context, kind, capture) = (event.context, event.kind, event.capture);
        self.context(context)?;
        self.refuse_captured_event(handle)?;
        let problem = match capture {
            _ if kind != EventKind::Timing => "was created without a time stamp",
            None => "was never recorded",
            Some(_) => "",
        };
        if !problem.is_empty() {
            let text = format!("{} {problem}", name(handle));
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_HANDLE, text));
        }
        let op = capture.map(|capture| capture.op);
        match capture.and_then(|capture| capture.finish_ns) {
            Some(finish_ns) if self.has_passed(finish_ns) => {
                self.race_checker.take(Input::Relied(op));
                Ok(finish_ns)
            }
            _ => Err(CallError::new(
                ResultCode::NOT_READY,
                format!("{} is not complete", name(handle)),
            )),
        }
    }
}
