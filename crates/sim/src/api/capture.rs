//! Capture calls, and waits between streams that capture (rules 40 to 43).

use millstream_driver::{
    ActiveCapture, CaptureInfo, CaptureMode, CaptureStatus, ContextHandle, EventHandle,
    GraphHandle, GraphNodeHandle, ResultCode, StreamHandle,
};

use crate::{
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        graph::GraphOwner,
    },
    ids::name,
};

impl StateGuard<'_> {
    pub(crate) fn stream_begin_capture(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        mode: CaptureMode,
    ) -> CallResult<()> {
        let stream = self.capturable(context, stream)?;
        self.begin_capture(stream, mode);
        Ok(())
    }

    /// Resolves a stream in which a capture can begin.
    pub(super) fn capturable(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<StreamHandle> {
        self.context(context)?;
        let stream = self.stream_even_lost(context, stream)?;
        if stream == self.contexts[&context].legacy {
            let text = "the legacy default stream cannot capture (rule 40)";
            return Err(CallError::new(ResultCode::STREAM_CAPTURE_UNSUPPORTED, text));
        }
        if self.streams[&stream].capture.is_some() {
            let text = format!("{} captures already", name(stream));
            return Err(CallError::new(ResultCode::ILLEGAL_STATE, text));
        }
        Ok(stream)
    }

    /// Rejects work for the host or memory in a capture into the body of a conditional node.
    pub(super) fn refuse_in_body_capture(
        &mut self,
        stream: StreamHandle,
        what: &str,
    ) -> CallResult<()> {
        let point = self.streams[&stream].capture.as_ref();
        let capture = point.and_then(|point| self.captures.get(point.capture));
        let graph = capture.and_then(|capture| self.graphs.get(&capture.graph));
        if graph.is_some_and(|graph| graph.owner == GraphOwner::Node) {
            let text = format!("{what} in the body of a conditional node");
            self.refuse_in_capture(stream, &text)?;
        }
        Ok(())
    }

    pub(crate) fn stream_end_capture(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<GraphHandle> {
        self.context(context)?;
        let stream = self.stream_even_lost(context, stream)?;
        let ended = self.end_capture(stream);
        self.free_graph_memory();
        ended
    }

    /// Returns the state of a stream's capture. Does not make a capture invalid.
    pub(crate) fn stream_capture_info(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<CaptureInfo> {
        self.context(context)?;
        let stream = self.stream_even_lost(context, stream)?;
        if stream == self.contexts[&context].legacy && !self.blocking_captures(context).is_empty() {
            let text = "a blocking stream captures, which the legacy default stream waits for";
            return Err(CallError::new(ResultCode::STREAM_CAPTURE_IMPLICIT, text));
        }
        let point = self.streams[&stream].capture.as_ref();
        let capture = point.and_then(|point| Some((point, self.captures.get(point.capture)?)));
        Ok(match capture {
            None => CaptureInfo {
                status: CaptureStatus::None,
                active: None,
            },
            Some((_, capture)) if capture.is_invalid() => CaptureInfo {
                status: CaptureStatus::Invalidated,
                active: None,
            },
            Some((point, capture)) => CaptureInfo {
                status: CaptureStatus::Active,
                active: Some(ActiveCapture {
                    id: point.capture,
                    graph: capture.graph,
                    dependencies: point.nodes.iter().copied().collect(),
                }),
            },
        })
    }

    /// Replaces the nodes on which the next operation of a capturing stream depends.
    pub(crate) fn stream_set_capture_dependencies(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        dependencies: &[GraphNodeHandle],
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        if !self.captures(stream)? {
            let text = format!("{} does not capture", name(stream));
            return Err(CallError::new(ResultCode::ILLEGAL_STATE, text));
        }
        let graph = self.streams[&stream]
            .capture
            .as_ref()
            .and_then(|point| self.captures.get(point.capture))
            .map(|capture| capture.graph);
        for &node in dependencies {
            if let Some(graph) = graph {
                self.check_node(graph, node)?;
            }
        }
        if let Some(point) = self
            .streams
            .get_mut(&stream)
            .and_then(|found| found.capture.as_mut())
        {
            point.nodes = dependencies.iter().copied().collect();
        }
        Ok(())
    }

    /// Handles a wait for an event that takes part in a capture, or of a stream that does. Returns
    /// whether it did: another wait is an operation of its stream.
    pub(crate) fn capture_wait(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
    ) -> CallResult<bool> {
        let capturing = self.captures(stream)?;
        let found = &self.events[&event];
        let Some(point) = found.captured.clone() else {
            if capturing && found.capture.is_some() {
                let capture = self.streams[&stream].capture.as_ref();
                let captures: Vec<u64> = capture.map(|point| point.capture).into_iter().collect();
                let text = format!(
                    "{} was recorded outside the capture in which {} takes part (rule 41)",
                    name(event),
                    name(stream)
                );
                let code = ResultCode::STREAM_CAPTURE_ISOLATION;
                return Err(self.invalidate(captures, code, text));
            }
            return Ok(capturing);
        };
        if self.captures.get(point.capture).is_none() {
            return Err(of_ended_capture(event));
        }
        let context = self.streams[&stream].context;
        if stream == self.contexts[&context].legacy {
            let text = "the legacy default stream cannot join a capture (rule 40)".to_owned();
            let code = ResultCode::STREAM_CAPTURE_IMPLICIT;
            return Err(self.invalidate([point.capture], code, text));
        }
        let Some(found) = self.streams.get_mut(&stream) else {
            return Ok(true);
        };
        match &mut found.capture {
            None => found.capture = Some(point),
            Some(own) if own.capture == point.capture => own.nodes.extend(point.nodes),
            Some(own) => {
                let both = [own.capture, point.capture];
                let text = format!(
                    "{} belongs to another capture than {}",
                    name(event),
                    name(stream)
                );
                return Err(self.invalidate(both, ResultCode::STREAM_CAPTURE_MERGE, text));
            }
        }
        Ok(true)
    }

    /// Rejects a query of an event, or a wait for it, whose last record is in a capture (rule 42).
    pub(crate) fn refuse_captured_event(&mut self, event: EventHandle) -> CallResult<()> {
        let Some(point) = &self.events[&event].captured else {
            return Ok(());
        };
        let capture = point.capture;
        if self.captures.get(capture).is_none() {
            return Err(of_ended_capture(event));
        }
        let text = format!("{} was recorded in a capture (rule 42)", name(event));
        Err(self.invalidate([capture], ResultCode::CAPTURED_EVENT, text))
    }
}

/// Creates the error of a use of an event whose last record is in a capture that has ended.
fn of_ended_capture(event: EventHandle) -> CallError {
    let text = format!("{} was recorded in a capture, which has ended", name(event));
    CallError::new(ResultCode::INVALID_VALUE, text)
}
