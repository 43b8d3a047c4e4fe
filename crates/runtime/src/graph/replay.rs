//! Replays: one operation for all nodes.

#![allow(unsafe_code, reason = "submits replays")]

use std::{
    panic::Location,
    sync::{Arc, atomic::Ordering},
};

use millstream_driver::DriverError;

use super::{
    Graph,
    conditional::Conditions,
    exec::{BuildError, Exec},
    limit::LoopLimit,
    node::{Node, Operand, OperandMemory},
};
use crate::{
    Result, Stream,
    context::{Command, DriverStream, Operation, submit},
    error::OperationKind,
    tracker::{AccessKind, AccessUnion, Accesses, Import, UnionEntry},
};

/// An access of a replay to an operand.
#[derive(Clone, Debug)]
pub(super) struct GraphAccess {
    operand: usize,
    entry: UnionEntry,
}

/// The executable graph, and what has changed since it was made.
#[derive(Debug, Default)]
pub(super) struct ExecState {
    /// `None` if it must be made again.
    pub(super) exec: Option<Exec>,
    pub(super) changed: ChangedNodes,
}

/// The numbers of the nodes that must be set before the next launch, some of them repeatedly. Keeps
/// its memory, because a change and a replay often alternate.
#[derive(Debug, Default)]
pub(super) struct ChangedNodes(Vec<usize>);

impl ChangedNodes {
    /// The length from which on repetitions are removed.
    const LENGTH_MAX: usize = 1024;

    pub(super) fn insert(&mut self, number: usize) {
        if self.0.last() == Some(&number) {
            return;
        }
        self.0.push(number);
        if self.0.len().is_multiple_of(Self::LENGTH_MAX) {
            self.distinct();
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns each number once.
    fn distinct(&mut self) -> &[usize] {
        self.0.sort_unstable();
        self.0.dedup();
        &self.0
    }
}

/// Returns the union of the nodes' accesses to memory that the program may use too.
pub(super) fn union_of(nodes: &[Node], operands: &[Operand]) -> Vec<GraphAccess> {
    let mut unions = vec![AccessUnion::default(); operands.len()];
    for access in nodes.iter().flat_map(|node| &node.accesses) {
        if operands[access.operand].outside().is_some() {
            unions[access.operand].add(&access.extent, access.kind, access.ordered);
        }
    }
    let numbered = unions.into_iter().enumerate();
    let entries = numbered.flat_map(|(operand, union)| {
        let entries = union.into_entries().into_iter();
        entries.map(move |entry| GraphAccess { operand, entry })
    });
    let mut accesses: Vec<_> = entries.collect();
    // In the lock order, so that no replay has to sort them.
    accesses.sort_by_key(|access| match &operands[access.operand].memory {
        OperandMemory::Outside(allocation) => allocation.history.id(),
        OperandMemory::Body { .. } => 0,
    });
    accesses
}

/// Returns the number of bytes that the nodes access.
fn accessed_bytes(nodes: &[Node]) -> u64 {
    let accesses = nodes.iter().flat_map(|node| &node.accesses);
    accesses.map(|access| access.extent.bytes()).sum()
}

impl Graph {
    /// Enqueues all operations of the graph as one operation of the stream.
    ///
    /// # Errors
    ///
    /// If the stream is on another device or is recording, an operand is lent, the driver cannot
    /// make or launch the graph, or the device is lost. After a driver error the next replay makes
    /// the driver's graph anew.
    #[track_caller]
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
        self.check_stream(stream, "replay", location)?;
        if times == 0 || self.nodes.is_empty() {
            return self.device.check_alive();
        }
        if self.is_run_by_host() {
            return (0..times).try_for_each(|_| self.run_steps(stream));
        }
        let accesses = self.accesses.iter().map(|access| {
            let OperandMemory::Outside(allocation) = &self.operands[access.operand].memory else {
                unreachable!("the union has no memory of the body");
            };
            access.entry.access(&allocation.history)
        });
        let mut accesses: Accesses<'_> = accesses.collect();
        if self.uses_body {
            accesses.push(self.body.access());
        }
        let operation = Operation {
            kind: OperationKind::Graph,
            label: self.name,
            location,
            bytes: self.accessed_bytes.saturating_mul(times as u64),
            accesses,
            host_waiter: None,
        };
        let command = Replay { graph: self, times };
        // SAFETY: the accesses name the memory of all nodes, which the graph keeps allocated; a
        // dropped graph frees it behind the replays.
        let submitted = unsafe { submit(&self.device, stream.state(), operation, command) };
        if let Some(conditions) = &self.conditions {
            // Also after an error, because the graph may have been launched.
            self.note_loops(&conditions.limit, stream);
        }
        submitted?;
        self.launches.fetch_add(times as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Notes for everything that the replay just submitted to the stream writes that a loop may end
    /// at its limit.
    #[cold]
    pub(super) fn note_loops(&self, limit: &Arc<LoopLimit>, stream: &Stream) {
        if limit.loops().is_empty() {
            return;
        }
        let sequence = stream.state().shared.lock().points.submitted();
        limit.note_replay(stream.state(), sequence);
        let written = self.accesses.iter();
        let written = written.filter(|access| access.entry.kind == AccessKind::Write);
        for allocation in written.filter_map(|access| self.operands[access.operand].outside()) {
            let import = Arc::clone(limit) as Arc<dyn Import>;
            allocation.history.provenance.add(&[import]);
        }
    }

    /// Returns whether the host runs the graph, because the driver has no conditional nodes.
    fn is_run_by_host(&self) -> bool {
        self.conditions
            .as_ref()
            .is_some_and(|conditions| conditions.setter.is_none())
    }

    /// Makes the executable graph.
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

    /// Replaces nodes and operands.
    pub(super) fn set_nodes(&mut self, nodes: Vec<Node>, operands: Vec<Operand>) {
        self.accesses = union_of(&nodes, &operands);
        self.uses_body = operands.iter().any(|operand| operand.outside().is_none());
        self.accessed_bytes = accessed_bytes(&nodes);
        (self.nodes, self.operands) = (nodes, operands);
    }

    /// Adds the graph and the node to an error.
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

    /// Returns an error unless the stream is an ordinary stream of the graph's device.
    pub(super) fn check_stream(
        &self,
        stream: &Stream,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<()> {
        self.check_device(stream.device_state(), operation, location)?;
        let why = "a graph is no operation of another: record the operations of both";
        self.device.refuse_recording(stream.state(), operation, why)
    }
}

/// The launches of a graph.
struct Replay<'a> {
    graph: &'a Graph,
    times: usize,
}

impl Command for Replay<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self { graph, times } = self;
        let DriverStream {
            driver,
            context,
            stream,
        } = driver_stream;
        // The driver does not synchronise calls that concern one executable graph.
        let mut state = graph.exec.lock();
        let exec = state.prepare(graph)?;
        for _ in 0..times {
            // SAFETY: the executable graph is alive; the rest is this function's contract.
            unsafe { driver.graph_launch(context, exec.handle(), stream) }?;
        }
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
    #[cold]
    fn bring_up_to_date(&mut self, graph: &Graph) -> Result<(), DriverError> {
        let Graph {
            device,
            nodes,
            operands,
            conditions,
            ..
        } = graph;
        if let Some(exec) = &self.exec {
            let set = |&number: &usize| exec.set(number, &nodes[number], operands);
            let outcome = self.changed.distinct().iter().try_for_each(set);
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
