//! Captures of streams into graphs (rules 40 to 44): the captures in progress, and the streams and
//! events that take part in them.

use std::{
    collections::BTreeSet,
    thread::{self},
};

use millstream_driver::{
    CaptureMode, ContextHandle, GraphHandle, GraphNodeHandle, ResultCode, StreamHandle,
};

use super::{
    call_error::{CallError, CallResult},
    graph::{GraphOwner, NodeOperation},
    objects::captures::{CaptureInProgress, CapturedPoint},
    state::SimState,
};
use crate::ids::name;

/// The functions that may break a capture, so that a capture forbids them (rule 44). An event query
/// is one more, which a captured event rejects for another reason.
const UNSAFE_CALLS: &[&str] = &[
    "cuArray3DCreate",
    "cuArrayDestroy",
    "cuMemAlloc",
    "cuMemAllocManaged",
    "cuMemFree",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
];

impl SimState {
    /// Makes captures invalid (rule 43), and returns the error of the call that did.
    pub(crate) fn invalidate(
        &mut self,
        captures: impl IntoIterator<Item = u64>,
        code: ResultCode,
        text: String,
    ) -> CallError {
        for capture in captures {
            if let Some(capture) = self.captures.active.get_mut(&capture) {
                let by = format!("{}: {text}", self.call);
                capture.violation.get_or_insert(by);
            }
        }
        CallError::new(code, text)
    }

    /// Rejects a call that a capture forbids to the calling thread (rule 44).
    pub(crate) fn refuse_if_unsafe(&mut self) -> CallResult<()> {
        let forbidding = self.captures.forbidding();
        let Some(capture) = forbidding
            .first()
            .and_then(|number| self.captures.get(*number))
        else {
            return Ok(());
        };
        let text = format!(
            "a capture, begun in {}, forbids this call (rule 44)",
            name(capture.origin)
        );
        Err(self.invalidate(forbidding, ResultCode::STREAM_CAPTURE_UNSUPPORTED, text))
    }

    /// Rejects the call in progress if it is one that a capture forbids to the calling thread.
    pub(crate) fn check_captures(&mut self) -> CallResult<()> {
        if !self.captures.active.is_empty() && UNSAFE_CALLS.contains(&self.call) {
            return self.refuse_if_unsafe();
        }
        Ok(())
    }

    /// Returns the captures in which blocking streams of a context take part.
    pub(crate) fn blocking_captures(&self, context: ContextHandle) -> Vec<u64> {
        let streams = self.blocking_streams(context);
        streams
            .filter_map(|stream| Some(self.streams[&stream].capture.as_ref()?.capture))
            .collect()
    }

    /// Rejects the use of a context's legacy default stream while a blocking stream captures (rule
    /// 42).
    pub(crate) fn refuse_legacy_in_capture(&mut self, context: ContextHandle) -> CallResult<()> {
        let captures = self.blocking_captures(context);
        if captures.is_empty() {
            return Ok(());
        }
        let text = "the legacy default stream waits for every blocking stream, and one of them \
                    captures (rule 42)"
            .to_owned();
        Err(self.invalidate(captures, ResultCode::STREAM_CAPTURE_IMPLICIT, text))
    }

    /// Rejects a wait for work of the context, or a query of it, while a stream of it captures
    /// (rule 42).
    pub(crate) fn refuse_in_capture_of(&mut self, context: ContextHandle) -> CallResult<()> {
        let streams = self.streams.values();
        let captures: Vec<u64> = streams
            .filter(|stream| stream.context == context)
            .filter_map(|stream| Some(stream.capture.as_ref()?.capture))
            .collect();
        if captures.is_empty() {
            return Ok(());
        }
        let text = "a stream of the context captures (rule 42)".to_owned();
        Err(self.invalidate(captures, ResultCode::STREAM_CAPTURE_UNSUPPORTED, text))
    }

    /// Rejects a call that a capturing stream does not support, and makes its capture invalid.
    pub(crate) fn refuse_in_capture(&mut self, stream: StreamHandle, what: &str) -> CallResult<()> {
        let Some(point) = &self.streams[&stream].capture else {
            return Ok(());
        };
        let capture = point.capture;
        let text = format!("{what} on {}, which captures", name(stream));
        Err(self.invalidate([capture], ResultCode::STREAM_CAPTURE_UNSUPPORTED, text))
    }

    /// Returns whether the stream captures. Fails if its capture is invalid (rule 43).
    pub(crate) fn captures(&self, stream: StreamHandle) -> CallResult<bool> {
        let Some(point) = &self.streams[&stream].capture else {
            return Ok(false);
        };
        match self.captures.get(point.capture) {
            Some(capture) => match &capture.violation {
                None => Ok(true),
                Some(by) => Err(invalidated(by)),
            },
            None => Ok(false),
        }
    }

    /// Adds a node to the capture of a stream, behind the stream's last one.
    pub(crate) fn capture_node(
        &mut self,
        stream: StreamHandle,
        operation: NodeOperation<GraphHandle>,
    ) {
        let Some(point) = &self.streams[&stream].capture else {
            return;
        };
        let graph = self.captures.active[&point.capture].graph;
        let dependencies = point.nodes.clone();
        let added = self.insert_node(graph, dependencies, operation);
        if let Some(stream) = self.streams.get_mut(&stream)
            && let Some(point) = &mut stream.capture
        {
            point.nodes = BTreeSet::from([added]);
        }
    }

    /// Begins a capture in a stream that does not capture, into a new graph.
    pub(crate) fn begin_capture(&mut self, stream: StreamHandle, mode: CaptureMode) {
        let graph = self.add_graph(self.streams[&stream].context, GraphOwner::Caller);
        self.begin_capture_into(graph, BTreeSet::new(), stream, mode);
        if let Some(capture) = self.captures.active.get_mut(&self.captures.begun) {
            capture.created = true;
        }
    }

    /// Begins a capture in a stream that does not capture. Its nodes are added to `graph`, which no
    /// stream captures into, the first ones behind `nodes`.
    pub(crate) fn begin_capture_into(
        &mut self,
        graph: GraphHandle,
        nodes: BTreeSet<GraphNodeHandle>,
        stream: StreamHandle,
        mode: CaptureMode,
    ) {
        self.graph_mut(graph).is_captured_into = true;
        self.captures.begun += 1;
        let capture = self.captures.begun;
        self.captures.active.insert(
            capture,
            CaptureInProgress {
                graph,
                created: false,
                origin: stream,
                mode,
                thread: thread::current().id(),
                destroyed: Vec::new(),
                violation: None,
            },
        );
        if let Some(origin) = self.streams.get_mut(&stream) {
            origin.capture = Some(CapturedPoint { capture, nodes });
        }
    }

    /// Ends the capture that began in a stream. A graph that the capture created becomes the
    /// caller's, or ends if the capture fails; another one keeps its nodes.
    pub(crate) fn end_capture(&mut self, stream: StreamHandle) -> CallResult<GraphHandle> {
        let Some(point) = &self.streams[&stream].capture else {
            return Err(CallError::new(
                ResultCode::ILLEGAL_STATE,
                format!("{} does not capture", name(stream)),
            ));
        };
        let number = point.capture;
        let capture = &self.captures.active[&number];
        if capture.origin != stream {
            let text = format!(
                "the capture began in {}, not {} (rule 40)",
                name(capture.origin),
                name(stream)
            );
            return Err(self.invalidate([number], ResultCode::STREAM_CAPTURE_UNMATCHED, text));
        }
        let is_elsewhere =
            capture.mode != CaptureMode::Relaxed && capture.thread != thread::current().id();
        let unjoined = self.unjoined(number);
        let capture = self.finish_capture(number);
        let failed = match (&capture.violation, unjoined) {
            _ if is_elsewhere => Some(CallError::new(
                ResultCode::STREAM_CAPTURE_WRONG_THREAD,
                "another thread began the capture, which ends without a graph (rule 40)".to_owned(),
            )),
            (Some(by), _) => Some(invalidated(by)),
            (None, Some(branch)) => Some(CallError::new(
                ResultCode::STREAM_CAPTURE_UNJOINED,
                format!(
                    "the work of {} was not joined with {} (rule 41)",
                    name(branch),
                    name(stream)
                ),
            )),
            (None, None) => None,
        };
        match failed {
            Some(error) => {
                self.drop_captured(&capture);
                Err(error)
            }
            None => Ok(capture.graph),
        }
    }

    /// Ends the capture that began in a stream without a graph. Returns whether there is one.
    pub(crate) fn abandon_capture(&mut self, stream: StreamHandle) -> bool {
        let Some(point) = &self.streams[&stream].capture else {
            return false;
        };
        let number = point.capture;
        if self.captures.active[&number].origin != stream {
            return false;
        }
        let capture = self.finish_capture(number);
        self.drop_captured(&capture);
        true
    }

    /// Takes a stream that is destroyed out of its capture, which still has to join its nodes.
    pub(crate) fn leave_capture(&mut self, stream: StreamHandle) {
        if let Some(found) = self.streams.get_mut(&stream)
            && let Some(point) = found.capture.take()
            && let Some(capture) = self.captures.active.get_mut(&point.capture)
        {
            capture.destroyed.push((stream, point.nodes));
        }
    }

    /// Removes the graph of a capture that failed, if the capture created it.
    fn drop_captured(&mut self, capture: &CaptureInProgress) {
        if capture.created {
            self.remove_graph(capture.graph);
        }
    }

    /// Returns a stream whose nodes in the capture do not come before those of its origin.
    fn unjoined(&self, number: u64) -> Option<StreamHandle> {
        let capture = &self.captures.active[&number];
        let nodes = &self.graphs[&capture.graph].nodes;
        let mut joined = BTreeSet::new();
        let origin = self.streams[&capture.origin].capture.as_ref();
        let mut left: Vec<_> = origin.iter().flat_map(|point| &point.nodes).collect();
        while let Some(node) = left.pop() {
            if joined.insert(*node)
                && let Some(node) = nodes.get(node)
            {
                left.extend(&node.dependencies);
            }
        }
        let alive = self.streams.iter().filter_map(|(handle, stream)| {
            let point = stream.capture.as_ref()?;
            (point.capture == number).then_some((handle, &point.nodes))
        });
        let destroyed = capture
            .destroyed
            .iter()
            .map(|(handle, nodes)| (handle, nodes));
        let mut branches = alive.chain(destroyed);
        branches
            .find(|(_, nodes)| !nodes.is_subset(&joined))
            .map(|(handle, _)| *handle)
    }

    fn finish_capture(&mut self, number: u64) -> CaptureInProgress {
        for stream in self.streams.values_mut() {
            stream.capture.take_if(|point| point.capture == number);
        }
        let capture = self.captures.active.remove(&number);
        let capture = capture.expect("a stream takes part in captures in progress only");
        self.graph_mut(capture.graph).is_captured_into = false;
        capture
    }

    pub(crate) fn drop_captures(&mut self, context: ContextHandle) {
        let graphs = &self.graphs;
        let of_context = |capture: &CaptureInProgress| {
            graphs
                .get(&capture.graph)
                .is_none_or(|graph| graph.context == context)
        };
        self.captures
            .active
            .retain(|_, capture| !of_context(capture));
    }
}

/// Creates the error of a call that takes part in an invalid capture.
fn invalidated(by: &str) -> CallError {
    CallError::new(
        ResultCode::STREAM_CAPTURE_INVALIDATED,
        format!("the capture was made invalid by {by}"),
    )
}
