//! Execution of plans: materialises the nodes of a graph step by step.

use std::sync::Arc;

use millstream::{Buffer, Stream};
use smallvec::SmallVec;

use crate::{
    error::{Error, Result, UsageError, UsageErrorKind},
    expr::{NodeRef, Session, Storage},
    plan::{HeldNodes, KernelKind, KernelPlan, PlannedGraph, Replacement, Step},
    run::{
        bound::BoundKernel,
        launch::{self, allocate},
        order,
        plans::Plan,
        product,
    },
};

/// The reason why a step was not executed.
pub(crate) enum Interruption {
    Failure(Error),
    /// Since planning, another thread has updated an input in place; a new plan finds the update.
    Outdated,
}

impl<E: Into<Error>> From<E> for Interruption {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

/// Enqueues all work of a plan for a graph, whose inputs are enqueued.
pub(crate) fn materialise(
    session: &Session,
    plan: &Plan,
    graph: PlannedGraph,
) -> Result<(), Interruption> {
    plan.try_for_each(graph, |step, nodes| {
        let enqueuer = Enqueuer {
            session,
            plan,
            nodes,
        };
        enqueuer.materialise(step)
    })
}

struct Enqueuer<'a> {
    session: &'a Session,
    plan: &'a Plan,
    nodes: &'a HeldNodes,
}

impl<'a> Enqueuer<'a> {
    /// Enqueues the work of one step, all of whose inputs are enqueued. Does nothing if another
    /// thread has materialised the nodes meanwhile.
    fn materialise(&self, step: &'a Step) -> Result<(), Interruption> {
        let nodes = step.nodes.iter().map(|&number| self.nodes.node(number));
        let nodes: SmallVec<[&NodeRef; 2]> = nodes.collect();
        if !nodes.iter().any(|node| node.is_planned()) {
            return Ok(());
        }
        if let Some(source) = step.alias_of {
            nodes[0].store(memory_of(self.nodes.node(source))?);
            return Ok(());
        }
        let inputs = step
            .kernels
            .iter()
            .flat_map(|kernel| self.bound(kernel).inputs());
        let mut inputs: SmallVec<[&NodeRef; 8]> = inputs.collect();
        inputs.sort_unstable_by_key(|node| node.id);
        inputs.dedup_by_key(|node| node.id);
        let stream = self.stream_for(&nodes, &inputs)?;
        if let Some(replacement) = &step.in_place
            && self.replace_in_place(&stream, step, replacement)?
        {
            return Ok(());
        }
        self.store(&stream, &step.kernels, &nodes, &inputs)
    }

    fn bound(&self, kernel: &'a KernelPlan) -> BoundKernel<'a> {
        BoundKernel {
            kernel,
            nodes: self.nodes,
            plan: self.plan,
        }
    }

    /// Returns the stream for the kernels that compute nodes and read others, oldest first.
    fn stream_for(&self, nodes: &[&NodeRef], inputs: &[&NodeRef]) -> Result<Stream> {
        let operands: SmallVec<[u64; 8]> = inputs.iter().map(|node| node.id).collect();
        let nodes = nodes.iter().map(|node| node.id);
        self.session.streams().choose(nodes, &operands, || {
            // The newest result is the likeliest not to be complete yet.
            let stored = inputs.iter().rev().filter_map(|node| node.storage());
            let stored: SmallVec<[Arc<Storage>; 8]> = stored.collect();
            self.session.stream_behind(&stored)
        })
    }

    /// Enqueues a kernel whose inputs are enqueued. It writes `outputs`, one for each of its
    /// outputs.
    fn enqueue(
        &self,
        stream: &Stream,
        kernel: &'a KernelPlan,
        outputs: &mut [&mut Buffer<u8>],
    ) -> Result<()> {
        let bound = self.bound(kernel);
        match kernel.kind {
            KernelKind::Empty => Ok(()),
            KernelKind::Product => product::enqueue(self.session, stream, bound, outputs[0]),
            KernelKind::Order => order::enqueue(stream, bound, outputs[0]),
            KernelKind::Generated => launch::enqueue(self.session, stream, bound, outputs),
        }
    }

    /// Stores nodes in new memory, which kernels write.
    fn store(
        &self,
        stream: &Stream,
        kernels: &'a [KernelPlan],
        nodes: &[&NodeRef],
        inputs: &[&NodeRef],
    ) -> Result<(), Interruption> {
        // As long as this memory is held here, no other thread takes it for an update.
        let read = inputs.iter().map(|node| memory_of(node));
        let read: SmallVec<[Arc<Storage>; 8]> = read.collect::<Result<_, _>>()?;
        let buffers = nodes.iter().map(|node| allocate(stream, node.bytes()));
        let mut buffers: SmallVec<[Buffer<u8>; 1]> = buffers.collect::<Result<_>>()?;
        if nodes.iter().any(|node| node.elements > 0) {
            let mut outputs: SmallVec<[&mut Buffer<u8>; 1]> = buffers.iter_mut().collect();
            for kernel in kernels {
                self.enqueue(stream, kernel, &mut outputs)?;
            }
        }
        let checks = self
            .session
            .deferred_checks(read.iter().map(|storage| &**storage))?;
        for (node, buffer) in nodes.iter().zip(buffers) {
            let checks = checks.clone();
            node.store(Arc::new(Storage { buffer, checks }));
        }
        Ok(())
    }

    /// Enqueues a replacement in the memory of its base, unless something else needs the base.
    /// Returns whether it did.
    fn replace_in_place(
        &self,
        stream: &Stream,
        step: &Step,
        replacement: &'a Replacement,
    ) -> Result<bool, Interruption> {
        let inputs = self.bound(&replacement.kernel).inputs().map(memory_of);
        let read: SmallVec<[Arc<Storage>; 8]> = inputs.collect::<Result<_, _>>()?;
        let base = self.nodes.node(replacement.base);
        let references = step.only_references(replacement, self.nodes);
        let Some(storage) = references.and_then(|references| base.take_storage(references)) else {
            return Ok(false);
        };
        let mut taken = TakenMemory {
            base,
            storage: Some(storage),
            error: None,
        };
        let storage = taken.storage_mut();
        let enqueued = self
            .enqueue(stream, &replacement.kernel, &mut [&mut storage.buffer])
            .and_then(|()| {
                let read = read.iter().map(|storage| &**storage);
                self.session.deferred_checks(read.chain([&*storage]))
            });
        let checks = enqueued.inspect_err(|error| taken.error = Some(error.clone()))?;
        let storage = taken.finish();
        self.nodes
            .node(step.nodes[0])
            .store(Arc::new(Storage { checks, ..storage }));
        Ok(true)
    }
}

/// The memory of a base while elements in it are replaced. If that does not succeed, the base
/// fails, because its elements may have changed.
struct TakenMemory<'a> {
    base: &'a NodeRef,
    storage: Option<Storage>,
    error: Option<Error>,
}

impl TakenMemory<'_> {
    fn storage_mut(&mut self) -> &mut Storage {
        let storage = self.storage.as_mut();
        storage.expect("the memory is not handed on yet")
    }

    /// Returns the memory, after all work is enqueued.
    fn finish(mut self) -> Storage {
        self.storage.take().expect("the memory is handed on once")
    }
}

impl Drop for TakenMemory<'_> {
    fn drop(&mut self) {
        if self.storage.is_some() {
            let error = self.error.take().unwrap_or_else(|| {
                let detail = String::from("an earlier update of the array has panicked");
                let problem = UsageErrorKind::Argument { detail };
                UsageError::new("update", problem, self.base.location).into()
            });
            self.base.fail_replaced(error);
        }
    }
}

/// Returns the memory of a node that is enqueued before its users.
fn memory_of(node: &NodeRef) -> Result<Arc<Storage>, Interruption> {
    if let Some(storage) = node.storage() {
        return Ok(storage);
    }
    match node.failure() {
        Some(error) => Err(Interruption::Failure(error)),
        None => Err(Interruption::Outdated),
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::Array2;

    use crate::{Array, run::plans::recall};

    #[test]
    fn an_update_by_a_recalled_plan_copies_if_another_array_needs_the_old_elements() {
        let device = Device::simulated().unwrap();
        let mut plans = Vec::new();
        for is_needed in [false, true, false] {
            let ones = Array2::<f32>::ones((5, 7));
            let mut x = Array::from_host(&device, &ones).unwrap();
            let old = is_needed.then(|| &x + 1.0);
            x.row_mut(2).fill(-1.0);
            let plan = recall(&[x.node().clone()], u64::MAX).plan;
            assert!(plan.steps[0].in_place.is_some());
            plans.push(plan.id);
            assert_eq!(x.to_host().unwrap().sum(), 21.0);
            if let Some(old) = old {
                assert_eq!(old.to_host().unwrap(), &ones + 1.0);
            }
        }
        assert!(plans.iter().all(|plan| *plan == plans[0]), "{plans:?}");
    }
}
