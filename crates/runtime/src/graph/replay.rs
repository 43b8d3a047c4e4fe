//! Replays: one operation for all nodes.

#![allow(unsafe_code, reason = "submits replays")]

use std::{any::Any, panic::Location, sync::Arc};

use millstream_driver::{DriverError, FillPattern};

use super::{
    Graph,
    body::Body,
    conditions::Conditions,
    exec::{BuildError, Exec},
    limit::{BegunReplay, LoopNotes},
    node::Node,
    operand::{Operand, OperandMemory},
    recording::Recording,
    steps::HostReplay,
};
use crate::{
    Result, Stream,
    context::{Command, DriverStream, Fill, NodeRecorder, Operation, submit},
    error::OperationKind,
    memory::Allocation,
    tracker::{AccessKind, AccessUnion, Import, UnionEntry},
};

/// An access of a replay to memory that the program may use too.
#[derive(Debug)]
pub(super) struct GraphAccess {
    allocation: Arc<Allocation>,
    entry: UnionEntry,
}

/// The executable graph, and what has changed since it was made.
#[derive(Debug, Default)]
pub(super) struct ExecState {
    /// `None` if it must be made again.
    pub(super) exec: Option<Exec>,
    pub(super) changed: ChangedNodes,
    /// The number of launches, or of runs by the host.
    pub(super) launches: u64,
}

/// The numbers of the nodes that must be set before the next launch, some of them repeatedly. Keeps
/// its memory, because a change and a replay often alternate.
#[derive(Debug, Default)]
pub(super) struct ChangedNodes(Vec<usize>);

impl ChangedNodes {
    /// The length from which on repetitions are removed.
    const LENGTH_MAX: usize = 1024;

    #[inline]
    pub(super) fn insert(&mut self, number: usize) {
        if self.0.last() == Some(&number) {
            return;
        }
        self.0.push(number);
        if self.0.len().is_multiple_of(Self::LENGTH_MAX) {
            self.make_distinct();
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns each number once.
    #[inline]
    fn distinct(&mut self) -> &[usize] {
        if self.0.len() > 1 {
            self.make_distinct();
        }
        &self.0
    }

    #[inline(never)]
    fn make_distinct(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }
}

/// Returns the union of the nodes' accesses to memory that the program may use too.
pub(super) fn union_of(nodes: &[Node], operands: &[Operand]) -> Vec<GraphAccess> {
    // Each replay enters all of them, which costs time.
    let union = |operand: &Operand| {
        let outside = operand.outside();
        AccessUnion::bounded(outside.is_none_or(|array| !array.device.waits_exactly()))
    };
    let mut unions: Vec<AccessUnion> = operands.iter().map(union).collect();
    for access in nodes.iter().flat_map(|node| &node.accesses) {
        if operands[access.operand].outside().is_some() {
            unions[access.operand].add(&access.extent, access.kind, access.ordered);
        }
    }
    let mut accesses = Vec::new();
    for (union, operand) in unions.into_iter().zip(operands) {
        if let Some(allocation) = operand.outside() {
            accesses.extend(union.into_entries().into_iter().map(|entry| GraphAccess {
                allocation: Arc::clone(allocation),
                entry,
            }));
        }
    }
    // In the lock order, so that no replay has to sort them.
    accesses.sort_by_key(|access| access.allocation.history.id());
    accesses
}

fn accessed_bytes(nodes: &[Node]) -> u64 {
    let accesses = nodes.iter().flat_map(|node| &node.accesses);
    accesses.map(|access| access.extent.bytes()).sum()
}

impl Graph {
    /// Enqueues all operations of the graph as one operation of the stream.
    ///
    /// On a stream that is recording, the operations become operations of the other graph, as they
    /// are now: later changes of this graph do not change the other. They use the memory of this
    /// graph, so that replays of the two exclude each other.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let stream = device.stream()?;
    /// let mut x = stream.zeros::<u8>(3)?;
    /// let inner = device.record("inner", |r| r.stream()?.fill(&mut x, 1))?;
    /// let outer = device.record("outer", |r| {
    ///     let recorded = r.stream()?;
    ///     inner.replay(&recorded)?;
    ///     recorded.fill(x.slice_mut(..1), 2)
    /// })?;
    /// outer.replay(&stream)?;
    /// assert_eq!(stream.download(&x)?.wait()?, [2, 1, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stream is on another device, an operand is lent, the driver cannot make or launch the
    /// graph, or the device is lost. After a driver error the next replay makes the driver's graph
    /// anew.
    #[track_caller]
    #[doc(alias("cuGraphLaunch", "cudaGraphLaunch"))]
    pub fn replay(&self, stream: &Stream) -> Result<()> {
        self.submit_replays(stream, 1, Location::caller())
    }

    /// Enqueues `times` replays, one after the other, as one operation of the stream.
    ///
    /// # Errors
    ///
    /// As [`replay`](Self::replay).
    #[track_caller]
    pub fn replay_times(&self, stream: &Stream, times: usize) -> Result<()> {
        self.submit_replays(stream, times, Location::caller())
    }

    fn submit_replays(
        &self,
        stream: &Stream,
        times: usize,
        location: &'static Location<'static>,
    ) -> Result<()> {
        const NAME: &str = "replay";
        self.check_device(stream.device_state(), NAME, location)?;
        if self.record_replays(stream, (NAME, location), times)? {
            return Ok(());
        }
        if times == 0 || self.nodes.is_empty() {
            return self.device.check_alive();
        }
        let mut operation = Operation::new(OperationKind::Graph, self.name, location);
        operation.bytes = self.accessed_bytes.saturating_mul(times as u64);
        for access in &self.accesses {
            let history = &access.allocation.history;
            operation.accesses.push(access.entry.access(history));
        }
        if self.uses_body {
            operation.accesses.push(self.body.access());
        }
        for body in &self.recorded_bodies {
            operation.accesses.push(body.access());
        }
        // SAFETY: the accesses name the memory of all nodes, which the graph keeps allocated; a
        // dropped graph frees it behind the replays.
        unsafe { self.submit_launches(stream, &mut operation, times) }
    }

    /// Submits the launches of the graph, or what the host does instead.
    ///
    /// # Safety
    ///
    /// As for [`submit`].
    unsafe fn submit_launches(
        &self,
        stream: &Stream,
        operation: &mut Operation<'_>,
        times: usize,
    ) -> Result<()> {
        let (graph, device) = (self, &self.device);
        let Some(conditions) = &self.conditions else {
            let word = None;
            let command = Replay { graph, times, word };
            // SAFETY: this function's contract.
            let submitted = unsafe { submit(device, stream.state(), operation, command) };
            return submitted.map(drop);
        };
        // SAFETY: this function's contract.
        unsafe { self.submit_conditional(conditions, stream, operation, times) }
    }

    /// Submits the launches of a graph with conditional nodes.
    ///
    /// # Safety
    ///
    /// As for [`submit`].
    unsafe fn submit_conditional(
        &self,
        conditions: &Conditions,
        stream: &Stream,
        operation: &mut Operation<'_>,
        times: usize,
    ) -> Result<()> {
        let (graph, device) = (self, &self.device);
        let begun = self.begin_note(&conditions.notes, stream);
        let word = begun.as_ref().map(|begun| begun.note().word());
        if conditions.setter.is_some() {
            let command = Replay { graph, times, word };
            // SAFETY: this function's contract.
            let submitted = unsafe { submit(device, stream.state(), operation, command) };
            return submitted.map(drop);
        }
        let command = HostReplay {
            graph,
            notes: &conditions.notes,
            note: begun.as_ref().map(BegunReplay::note),
            times,
        };
        // SAFETY: this function's contract.
        let submitted = unsafe { submit(device, stream.state(), operation, command) };
        conditions.notes.keep_behind(stream.state());
        submitted.map(drop)
    }

    /// Begins the note of a replay with loops: everything that the replay writes remembers it.
    pub(super) fn begin_note(
        &self,
        notes: &Arc<LoopNotes>,
        stream: &Stream,
    ) -> Option<BegunReplay> {
        if notes.loops().is_empty() {
            return None;
        }
        let begun = notes.begin(stream.state());
        let written = self.accesses.iter();
        let written = written.filter(|access| access.entry.kind == AccessKind::Write);
        for access in written {
            let import = Arc::clone(begun.note()) as Arc<dyn Import>;
            access.allocation.history.provenance.add(&[import]);
        }
        Some(begun)
    }

    pub(super) fn build(&self) -> Result<()> {
        let exec = self.built(&self.nodes, &self.operands, self.conditions.as_ref())?;
        let mut state = self.exec.lock();
        state.changed.clear();
        state.exec = exec;
        Ok(())
    }

    /// Returns an executable graph of these nodes, unless the host runs the graph.
    pub(super) fn built(
        &self,
        nodes: &[Node],
        operands: &[Operand],
        conditions: Option<&Conditions>,
    ) -> Result<Option<Exec>> {
        if conditions.is_some_and(|conditions| conditions.setter.is_none()) {
            return Ok(None);
        }
        let built = Exec::build(&self.device, nodes, operands, conditions);
        let built = built.map_err(|error| self.device.record_failure(self.explain(error, nodes)));
        built.map(Some)
    }

    pub(super) fn set_nodes(&mut self, nodes: Vec<Node>, operands: Vec<Operand>) {
        self.accesses = union_of(&nodes, &operands);
        self.uses_body = false;
        self.recorded_bodies.clear();
        for operand in &operands {
            let OperandMemory::Block(block) = &operand.memory else {
                continue;
            };
            let is_it = |body: &Arc<Body>| Arc::ptr_eq(body, &block.body);
            if is_it(&self.body) {
                self.uses_body = true;
            } else if !self.recorded_bodies.iter().any(is_it) {
                self.recorded_bodies.push(Arc::clone(&block.body));
            }
        }
        self.accessed_bytes = accessed_bytes(&nodes);
        (self.nodes, self.operands) = (nodes, operands);
    }

    fn explain(&self, BuildError { error, path }: BuildError, nodes: &[Node]) -> DriverError {
        let mut place = format!("graph `{}`, recorded at {}", self.name, self.location);
        let mut nodes = nodes;
        for number in path {
            let node = &nodes[number];
            place = format!("node {number} ({node}) of {place}");
            nodes = node.work.body();
        }
        let detail = match error.detail() {
            Some(detail) => format!("{detail}; {place}"),
            None => place,
        };
        error.with_detail(detail)
    }

    /// Records replays, if the stream is recording. Returns whether it is.
    #[inline]
    pub(super) fn record_replays(
        &self,
        stream: &Stream,
        call: (&'static str, &'static Location<'static>),
        times: usize,
    ) -> Result<bool> {
        match self.device.recorder_of(stream.state()) {
            Some(recorder) => self.record_in(&*recorder, stream, call, times),
            None => Ok(false),
        }
    }

    #[cold]
    fn record_in(
        &self,
        recorder: &dyn NodeRecorder,
        stream: &Stream,
        call: (&'static str, &'static Location<'static>),
        times: usize,
    ) -> Result<bool> {
        self.device.check_alive()?;
        let recorder: &dyn Any = recorder;
        let recording: &Recording = recorder
            .downcast_ref()
            .expect("graphs have the only recorder");
        recording.add_replays(stream.state(), self, call, times)?;
        Ok(true)
    }
}

struct Replay<'a> {
    graph: &'a Graph,
    times: usize,
    /// The index of the word in which the device notes that a loop ended at its limit.
    word: Option<u32>,
}

impl Command for Replay<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self { graph, times, word } = self;
        let (driver, context, stream) = driver_stream.parts();
        let slot = graph
            .conditions
            .as_ref()
            .and_then(|conditions| conditions.slot(&graph.operands));
        if let (Some(target), Some(word)) = (slot, word) {
            let pattern = FillPattern::U32(word);
            let count = 1;
            let fill = Fill {
                target,
                pattern,
                count,
            };
            // SAFETY: the operand is a word of the graph's memory; the rest is this function's
            // contract.
            unsafe { fill.enqueue(driver_stream) }?;
        }
        // The driver does not synchronise calls that concern one executable graph.
        let mut state = graph.exec.lock();
        let exec = state.prepare(graph)?;
        for _ in 0..times {
            // SAFETY: the executable graph is alive; the rest is this function's contract.
            unsafe { driver.graph_launch(context, exec.handle(), stream) }?;
        }
        state.launches += times as u64;
        Ok(())
    }
}

impl ExecState {
    /// Returns the executable graph with all changes made.
    #[inline]
    fn prepare(&mut self, graph: &Graph) -> Result<&Exec, DriverError> {
        if self.exec.is_none() || !self.changed.0.is_empty() {
            self.bring_up_to_date(graph)?;
        }
        Ok(self.exec.as_ref().expect("it was just made"))
    }

    /// Sets the changed nodes, or makes the executable graph again.
    #[inline(never)]
    fn bring_up_to_date(&mut self, graph: &Graph) -> Result<(), DriverError> {
        let Graph {
            device,
            nodes,
            operands,
            conditions,
            ..
        } = graph;
        if let Some(exec) = &mut self.exec {
            let outcome = exec.change(self.changed.distinct(), nodes, operands);
            self.changed.clear();
            if outcome.is_err() {
                // Some nodes may be set and others not: the next replay makes the graph again.
                self.exec = None;
            }
            return outcome;
        }
        self.changed.clear();
        let built = Exec::build(device, nodes, operands, conditions.as_ref());
        self.exec = Some(built.map_err(|error| graph.explain(error, nodes))?);
        Ok(())
    }
}
