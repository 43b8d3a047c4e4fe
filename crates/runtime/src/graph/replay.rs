//! Replays: one operation for all nodes, or one for each.

#![allow(unsafe_code, reason = "submits replays")]

use std::{collections::BTreeSet, panic::Location, sync::atomic::Ordering};

use millstream_driver::DriverError;

use super::{
    Graph,
    exec::{BuildError, Exec},
    node::{Node, Operand, OperandMemory, Work},
};
use crate::{
    Result, Stream,
    context::{Command, DriverStream, Operation, submit},
    error::OperationKind,
    tracker::{Access, AccessUnion, Accesses, UnionEntry},
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
    /// The numbers of the nodes that must be set before the next launch.
    pub(super) changed: BTreeSet<usize>,
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
        unsafe { submit(&self.device, stream.state(), operation, command) }?;
        self.launches.fetch_add(times as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Enqueues the graph's operations one by one, in the order in which they were recorded, as
    /// ordinary operations of the stream. The results equal those of [`replay`](Self::replay). If
    /// the device is lost, its error names the operation and not only the graph.
    ///
    /// # Errors
    ///
    /// As [`replay`](Self::replay); the operations before the one that failed are then enqueued.
    #[track_caller]
    pub fn replay_stepwise(&self, stream: &Stream) -> Result<()> {
        self.check_stream(stream, "replay_stepwise", Location::caller())?;
        for node in &self.nodes {
            let mut accesses = Accesses::default();
            let mut uses_body = false;
            for access in &node.accesses {
                match &self.operands[access.operand].memory {
                    OperandMemory::Outside(allocation) => accesses.push(Access {
                        ordered: access.ordered,
                        ..Access::new(&allocation.history, access.extent.clone(), access.kind)
                    }),
                    OperandMemory::Body { .. } => uses_body = true,
                }
            }
            if uses_body {
                accesses.push(self.body.access());
            }
            let operation = Operation {
                kind: node.kind,
                label: node.label,
                location: node.location,
                bytes: node
                    .accesses
                    .iter()
                    .map(|access| access.extent.bytes())
                    .sum(),
                accesses,
                host_waiter: None,
            };
            let command = Step {
                node,
                operands: &self.operands,
            };
            // SAFETY: as for a replay.
            unsafe { submit(&self.device, stream.state(), operation, command) }?;
        }
        Ok(())
    }

    /// Makes the executable graph.
    pub(super) fn build(&self) -> Result<()> {
        let exec = self.built(&self.nodes, &self.operands)?;
        let mut state = self.exec.lock();
        state.changed.clear();
        state.exec = Some(exec);
        Ok(())
    }

    /// Returns an executable graph of these nodes.
    pub(super) fn built(&self, nodes: &[Node], operands: &[Operand]) -> Result<Exec> {
        let built = Exec::build(&self.device, nodes, operands);
        built.map_err(|error| self.device.record_failure(self.explain(error, nodes)))
    }

    /// Replaces nodes and operands.
    pub(super) fn set_nodes(&mut self, nodes: Vec<Node>, operands: Vec<Operand>) {
        self.accesses = union_of(&nodes, &operands);
        self.uses_body = operands.iter().any(|operand| operand.outside().is_none());
        self.accessed_bytes = accessed_bytes(&nodes);
        (self.nodes, self.operands) = (nodes, operands);
    }

    /// Adds the graph and the node to an error.
    fn explain(&self, BuildError { error, node }: BuildError, nodes: &[Node]) -> DriverError {
        let of_graph = format!("graph `{}`, recorded at {}", self.name, self.location);
        let place = match node {
            Some(number) => format!("node {number} ({}) of {of_graph}", nodes[number]),
            None => of_graph,
        };
        let detail = match error.detail() {
            Some(detail) => format!("{detail}; {place}"),
            None => place,
        };
        error.with_detail(detail)
    }

    /// Returns an error unless the stream is an ordinary stream of the graph's device.
    fn check_stream(
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
        if self.exec.is_none() || !self.changed.is_empty() {
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
            ..
        } = graph;
        let changed = std::mem::take(&mut self.changed);
        if let Some(exec) = &self.exec {
            let set = |&number: &usize| exec.set(number, &nodes[number], operands);
            if let Err(error) = changed.iter().try_for_each(set) {
                // Some nodes may be set and others not: the next replay makes the graph again.
                self.exec = None;
                return Err(error);
            }
            return Ok(());
        }
        let built = Exec::build(device, nodes, operands);
        self.exec = Some(built.map_err(|error| graph.explain(error, nodes))?);
        Ok(())
    }
}

/// A node as an ordinary operation.
struct Step<'a> {
    node: &'a Node,
    operands: &'a [Operand],
}

impl Command for Step<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self { node, operands } = self;
        let DriverStream {
            driver,
            context,
            stream,
        } = driver_stream;
        if let Work::Child(graph) = &node.work {
            let exec = graph.instantiate()?;
            // SAFETY: the executable graph is alive, and may be destroyed while it runs (rule 47);
            // the rest is this function's contract.
            return unsafe { driver.graph_launch(context, exec.handle(), stream) };
        }
        node.work.with_node(operands, |operation| {
            // SAFETY: this function's contract.
            unsafe { driver_stream.enqueue_node(operation) }
        })
    }
}
