//! Graphs whose nodes the host enqueues one by one, with loops and conditions run by the host.
//!
//! Two ways share the walk through the nodes ([`walk`]): a stepwise replay, in which each node is
//! an ordinary operation, and a replay on a device without conditional nodes, which is one
//! operation of many driver calls ([`HostReplay`]).

#![allow(unsafe_code, reason = "submits the operations of nodes")]

use std::{
    panic::Location,
    sync::{Arc, atomic::Ordering},
};

use millstream_driver::{Completion, DriverError};
use smallvec::SmallVec;

use super::{
    Graph,
    body::Body,
    conditional::Conditional,
    limit::{LoopNotes, ReplayNote},
    node::{Node, NodeAccess, Work},
    operand::{Operand, OperandMemory},
};
use crate::{
    Buffer, Error, Result, Stream,
    context::{Command, CopyOnDevice, CopyToHost, DriverStream, Operation, poll_until, submit},
    error::OperationKind,
    tracker::{Access, AccessKind, Accesses},
};

/// Enqueues nodes one by one.
trait Steps {
    type Error;

    /// Enqueues the operation of a node that is not conditional.
    fn step(&mut self, node: &Node) -> Result<(), Self::Error>;

    /// Waits for the flag of a conditional node, and returns whether it is set.
    fn look(&mut self, node: &Node, conditional: &Conditional) -> Result<bool, Self::Error>;

    /// Notes that the loop of this number has reached its limit.
    fn reached(&mut self, number: u32);
}

/// Enqueues nodes in order, with `iterations_per_look` iterations of a loop between two looks at
/// its flag.
fn walk<S: Steps>(steps: &mut S, nodes: &[Node], iterations_per_look: u32) -> Result<(), S::Error> {
    for node in nodes {
        let Work::Conditional(conditional) = &node.work else {
            steps.step(node)?;
            continue;
        };
        let Some(repeat) = conditional.repeat else {
            if steps.look(node, conditional)? {
                walk(steps, &conditional.body, iterations_per_look)?;
            }
            continue;
        };
        let mut left = repeat.iterations_max;
        while steps.look(node, conditional)? {
            if left == 0 {
                steps.reached(repeat.number);
                break;
            }
            let several = left.min(iterations_per_look);
            for _ in 0..several {
                walk(steps, &conditional.body, iterations_per_look)?;
            }
            left -= several;
        }
    }
    Ok(())
}

impl Graph {
    /// Enqueues the graph's operations one by one, in the order in which they were recorded, as
    /// ordinary operations of the stream. The results equal those of [`replay`](Self::replay). If
    /// the device is lost, its error names the operation and not only the graph.
    ///
    /// Does not wait for the device, except at loops and conditions: the host looks at their flags.
    /// Another thread's work may run between the operations. On a stream that is recording this is
    /// the same as [`replay`](Self::replay).
    ///
    /// # Errors
    ///
    /// As [`replay`](Self::replay); the operations before the one that failed are then enqueued.
    #[track_caller]
    pub fn replay_stepwise(&self, stream: &Stream) -> Result<()> {
        const NAME: &str = "replay_stepwise";
        let location = Location::caller();
        self.check_device(stream.device_state(), NAME, location)?;
        if self.record_replays(stream, (NAME, location), 1)? {
            return Ok(());
        }
        let mut steps = Stepwise {
            graph: self,
            stream,
            flag_copy: None,
        };
        walk(&mut steps, &self.nodes, self.options.iterations_per_look)
    }

    /// Returns these accesses as those of an ordinary operation.
    fn step_accesses(&self, node_accesses: &[NodeAccess]) -> Accesses<'_> {
        let mut accesses = Accesses::default();
        let mut bodies: SmallVec<[&Arc<Body>; 1]> = SmallVec::new();
        for access in node_accesses {
            match &self.operands[access.operand].memory {
                OperandMemory::Outside(allocation) | OperandMemory::Recorded { allocation, .. } => {
                    accesses.push(Access {
                        ordered: access.ordered,
                        ..Access::new(&allocation.history, access.extent.clone(), access.kind)
                    })
                }
                OperandMemory::Block(block) => bodies.push(&block.body),
            }
        }
        bodies.sort_unstable_by_key(|body| Arc::as_ptr(body));
        bodies.dedup_by(|one, other| Arc::ptr_eq(one, other));
        for body in bodies {
            accesses.push(body.access());
        }
        accesses
    }
}

/// A stepwise replay: each node is an operation of the stream.
struct Stepwise<'a> {
    graph: &'a Graph,
    stream: &'a Stream,
    /// The copy of the last flag that was looked at.
    flag_copy: Option<Buffer<u32>>,
}

impl Steps for Stepwise<'_> {
    type Error = Error;

    fn step(&mut self, node: &Node) -> Result<()> {
        let Self { graph, stream, .. } = *self;
        let mut operation = Operation {
            kind: node.kind,
            label: node.label,
            location: node.location,
            bytes: node
                .accesses
                .iter()
                .map(|access| access.extent.bytes())
                .sum(),
            accesses: graph.step_accesses(&node.accesses),
            host_waiter: None,
        };
        let operands = &graph.operands;
        let command = Step { node, operands };
        // SAFETY: as for a replay.
        unsafe { submit(&graph.device, stream.state(), &mut operation, command) }.map(drop)
    }

    /// Copies the flag first, because memory of the body has no access history of its own for a
    /// download.
    fn look(&mut self, node: &Node, conditional: &Conditional) -> Result<bool> {
        let Self { graph, stream, .. } = *self;
        let mut flag_copy = match self.flag_copy.take() {
            Some(flag_copy) => flag_copy,
            None => stream.zeros_at::<u32>(1, node.location)?,
        };
        let target = flag_copy.view_mut().span;
        let command = CopyOnDevice {
            target: target.pointer(),
            source: conditional.flag.resolve(&graph.operands),
            bytes: target.bytes.len(),
        };
        let mut accesses = graph.step_accesses(&[conditional.flag_access()]);
        accesses.push(target.access(AccessKind::Write));
        let mut operation = Operation {
            kind: OperationKind::DeviceToDevice,
            label: node.label,
            location: node.location,
            bytes: target.bytes.len() as u64,
            accesses,
            host_waiter: None,
        };
        // SAFETY: the flag is a word of an operand, which the graph keeps, and `flag_copy` is a
        // word; the accesses name both.
        unsafe { submit(&graph.device, stream.state(), &mut operation, command) }?;
        drop(operation);
        // A limit that an earlier loop has reached is for the user's next read.
        target.allocation.history.provenance.forget_notes();
        let is_set = stream.download(&flag_copy)?.wait()? != [0];
        self.flag_copy = Some(flag_copy);
        Ok(is_set)
    }

    fn reached(&mut self, number: u32) {
        if let Some(conditions) = &self.graph.conditions
            && let Some(begun) = self.graph.begin_note(&conditions.notes, self.stream)
        {
            begun.note().set(number);
        }
    }
}

/// A node as an ordinary operation, or as a part of one.
struct Step<'a> {
    node: &'a Node,
    operands: &'a [Operand],
}

impl Command for Step<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self { node, operands } = self;
        let (driver, context, stream) = driver_stream.parts();
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

/// The replays of a graph on a device without conditional nodes: one operation, during which the
/// stream's submit queue stays locked, so that nothing comes between its driver calls.
pub(super) struct HostReplay<'a> {
    pub(super) graph: &'a Graph,
    pub(super) notes: &'a LoopNotes,
    pub(super) note: Option<&'a Arc<ReplayNote>>,
    pub(super) times: usize,
}

impl Command for HostReplay<'_> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Self {
            graph,
            notes,
            note,
            times,
        } = self;
        // Replays on several streams look at flags through the same word.
        let mut turn = graph.exec.lock();
        let mut steps = Calls {
            graph,
            notes,
            note,
            driver_stream,
        };
        let iterations = graph.options.iterations_per_look;
        (0..times).try_for_each(|_| walk(&mut steps, &graph.nodes, iterations))?;
        turn.launches += times as u64;
        Ok(())
    }
}

/// The driver calls of a [`HostReplay`]. Only its command makes one, so that the contract of
/// [`Command::enqueue`] holds for all nodes.
struct Calls<'a> {
    graph: &'a Graph,
    notes: &'a LoopNotes,
    note: Option<&'a Arc<ReplayNote>>,
    driver_stream: DriverStream<'a>,
}

impl Steps for Calls<'_> {
    type Error = DriverError;

    fn step(&mut self, node: &Node) -> Result<(), DriverError> {
        let Self { graph, .. } = *self;
        let _name = graph.device.named(node.label, node.location);
        let operands = &graph.operands;
        // SAFETY: the contract of the command that made this.
        unsafe { Step { node, operands }.enqueue(self.driver_stream) }
    }

    fn look(&mut self, node: &Node, conditional: &Conditional) -> Result<bool, DriverError> {
        let Self {
            graph,
            notes,
            driver_stream,
            ..
        } = *self;
        let name = graph.device.named(node.label, node.location);
        let target = notes.look().as_ptr();
        let copy = CopyToHost {
            target: target.cast(),
            source: conditional.flag.resolve(&graph.operands),
            bytes: size_of::<u32>(),
        };
        // SAFETY: both are words, and the host looks at its own behind the copy; the rest is the
        // contract of the command that made this.
        unsafe { copy.enqueue(driver_stream) }?;
        drop(name);
        let (driver, context, stream) = driver_stream.parts();
        poll_until(driver, || {
            // SAFETY: by the contract of the command that made this, the stream is alive.
            let answer = unsafe { driver.stream_query(context, stream) };
            answer.map(|answer| answer != Completion::Pending)
        })?;
        Ok(notes.look().load(Ordering::Acquire) != 0)
    }

    fn reached(&mut self, number: u32) {
        if let Some(note) = self.note {
            note.set(number);
        }
    }
}
