//! Stepwise replays: each node as an ordinary operation, with loops and conditions run by the host.

#![allow(unsafe_code, reason = "submits the operations of nodes")]

use std::{panic::Location, sync::atomic::Ordering};

use millstream_driver::DriverError;

use super::{
    Graph,
    conditional::Conditional,
    node::{Node, NodeAccess, Operand, OperandMemory, Work},
};
use crate::{
    Buffer, Result, Stream,
    context::{Command, CopyOnDevice, DriverStream, Operation, submit},
    error::OperationKind,
    tracker::{Access, AccessKind, Accesses},
};

impl Graph {
    /// Enqueues the graph's operations one by one, in the order in which they were recorded, as
    /// ordinary operations of the stream. The results equal those of [`replay`](Self::replay). If
    /// the device is lost, its error names the operation and not only the graph.
    ///
    /// Does not wait for the device, except at loops and conditions: the host looks at their flags.
    ///
    /// # Errors
    ///
    /// As [`replay`](Self::replay); the operations before the one that failed are then enqueued.
    #[track_caller]
    pub fn replay_stepwise(&self, stream: &Stream) -> Result<()> {
        self.check_stream(stream, "replay_stepwise", Location::caller())?;
        self.step_through(&self.nodes, stream)
    }

    /// Does what a replay does, on a device without conditional nodes.
    pub(super) fn run_steps(&self, stream: &Stream) -> Result<()> {
        self.step_through(&self.nodes, stream)?;
        self.launches.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn step_through(&self, nodes: &[Node], stream: &Stream) -> Result<()> {
        nodes.iter().try_for_each(|node| match &node.work {
            Work::Conditional(conditional) => self.run_conditional(node, conditional, stream),
            _ => self.step(node, stream),
        })
    }

    /// Enqueues the operation of a node.
    fn step(&self, node: &Node, stream: &Stream) -> Result<()> {
        let operation = Operation {
            kind: node.kind,
            label: node.label,
            location: node.location,
            bytes: node
                .accesses
                .iter()
                .map(|access| access.extent.bytes())
                .sum(),
            accesses: self.step_accesses(&node.accesses),
            host_waiter: None,
        };
        let command = Step {
            node,
            operands: &self.operands,
        };
        // SAFETY: as for a replay.
        unsafe { submit(&self.device, stream.state(), operation, command) }.map(drop)
    }

    /// Returns these accesses as those of an ordinary operation.
    fn step_accesses(&self, accesses: &[NodeAccess]) -> Accesses<'_> {
        let mut found = Accesses::default();
        let mut uses_body = false;
        for access in accesses {
            match &self.operands[access.operand].memory {
                OperandMemory::Outside(allocation) => found.push(Access {
                    ordered: access.ordered,
                    ..Access::new(&allocation.history, access.extent.clone(), access.kind)
                }),
                OperandMemory::Body { .. } => uses_body = true,
            }
        }
        if uses_body {
            found.push(self.body.access());
        }
        found
    }

    /// Runs a loop or a condition, with waits for its flag.
    fn run_conditional(
        &self,
        node: &Node,
        conditional: &Conditional,
        stream: &Stream,
    ) -> Result<()> {
        let mut seen = stream.zeros_at::<u32>(1, node.location)?;
        let mut is_set = || self.look(node, conditional, stream, &mut seen);
        let Some(repeat) = conditional.repeat else {
            return match is_set()? {
                true => self.step_through(&conditional.body, stream),
                false => Ok(()),
            };
        };
        let mut left = repeat.iterations_max;
        while is_set()? {
            if left == 0 {
                if let Some(conditions) = &self.conditions {
                    conditions.limit.set(repeat.number);
                    self.note_loops(&conditions.limit, stream);
                }
                break;
            }
            let several = left.min(self.options.iterations_per_look);
            (0..several).try_for_each(|_| self.step_through(&conditional.body, stream))?;
            left -= several;
        }
        Ok(())
    }

    /// Waits for the flag of a conditional node, and returns whether it is set. Copies it to `seen`
    /// first, because memory of the body has no access history of its own for a download.
    fn look(
        &self,
        node: &Node,
        conditional: &Conditional,
        stream: &Stream,
        seen: &mut Buffer<u32>,
    ) -> Result<bool> {
        let target = seen.view().span;
        let command = CopyOnDevice {
            target: target.pointer(),
            source: conditional.flag.resolve(&self.operands),
            bytes: target.bytes.len(),
        };
        let mut accesses = self.step_accesses(&[conditional.flag_access()]);
        accesses.push(target.access(AccessKind::Write));
        let operation = Operation {
            kind: OperationKind::DeviceToDevice,
            label: node.label,
            location: node.location,
            bytes: target.bytes.len() as u64,
            accesses,
            host_waiter: None,
        };
        // SAFETY: the flag is a word of an operand, which the graph keeps, and `seen` a word; the
        // accesses name both.
        unsafe { submit(&self.device, stream.state(), operation, command) }?;
        // A limit that an earlier loop has reached is for the user's next read.
        target.allocation.history.provenance.forget_notes();
        Ok(stream.download(&*seen)?.wait()? != [0])
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
