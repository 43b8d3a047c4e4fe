//! Evaluation: materialises planned nodes by executing the steps of a fusion plan in order.

use std::sync::Arc;

use millstream::{Buffer, Stream};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::{
    error::{Error, MeshErrorKind, Result, UsageError, UsageErrorKind},
    expr::{NodeRef, Overdue, Session, State, Storage},
    plan::{Replacement, Step, Work},
    run::{
        enqueue::{enqueue, enqueue_kept},
        kept::{KeptStep, KeptWork},
        launch::allocate,
        plans::{Steps, recall},
        replay,
    },
};

/// Enqueues all work that these nodes depend on, without waiting for any of it.
///
/// # Errors
///
/// If one of the nodes has failed or depends on a collective that has not run, there is not enough
/// memory, or the device is lost.
pub(crate) fn evaluate(session: &Session, nodes: &[NodeRef]) -> Result<()> {
    if let Some(error) = nodes.iter().find_map(|node| node.failure()) {
        return Err(error);
    }
    check_deferred(nodes)?;
    materialise_all(session, nodes, u64::MAX)
}

/// Returns an error if a node depends on the result of a collective that has not run.
fn check_deferred(nodes: &[NodeRef]) -> Result<()> {
    let is_deferred = |node: &&NodeRef| node.is_deferred;
    let mut stack: Vec<NodeRef> = nodes.iter().filter(is_deferred).cloned().collect();
    let mut seen: FxHashSet<u64> = FxHashSet::default();
    while let Some(node) = stack.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        if node.is_awaiting() {
            let problem = UsageErrorKind::Mesh(MeshErrorKind::Awaiting);
            return Err(UsageError::new("evaluate", problem, node.location).into());
        }
        if let State::Planned(op) = node.state() {
            op.operands(|operand| {
                if operand.is_deferred {
                    stack.push(NodeRef::clone(operand));
                }
            });
        }
    }
    Ok(())
}

/// Enqueues work for the oldest nodes before a result is requested, so that the device is busy
/// while a long loop is recorded. A failure becomes the session's error.
///
/// All nodes whose elements can be requested are planned as if they were, but only overdue ones are
/// enqueued. The kernels are therefore those that an evaluation at the end would have chosen.
pub(crate) fn evaluate_overdue(session: &Session, overdue: &Overdue) {
    if let Err(error) = materialise_all(session, &overdue.held, overdue.end) {
        session.record_failure(error);
    }
}

/// Enqueues the work of nodes with identifiers less than `end` that the targets depend on.
fn materialise_all(session: &Session, targets: &[NodeRef], end: u64) -> Result<()> {
    loop {
        let recalled = recall(targets, end);
        if let Some(plan) = &recalled.plan
            && replay::replay(session, plan, &recalled.graph, &enqueue_step)
        {
            return Ok(());
        }
        let result = match recalled.into_steps() {
            Steps::New(mut steps) => steps.try_for_each(|step| materialise(session, &step)),
            Steps::Kept(steps) => steps.try_for_each(|step| materialise_kept(session, step)),
        };
        match result {
            Ok(()) => return Ok(()),
            Err(Interruption::Failure(error)) => return Err(error),
            // The other thread is between taking the memory and storing the update.
            Err(Interruption::Outdated) => std::thread::yield_now(),
        }
    }
}

/// Enqueues the work of one step. Returns whether that succeeded.
pub(crate) fn enqueue_step(session: &Session, step: &Step) -> bool {
    materialise(session, step).is_ok()
}

/// The reason why a step was not executed.
enum Interruption {
    Failure(Error),
    /// Since planning, another thread has updated an input in place; a new plan finds the update.
    Outdated,
}

impl<E: Into<Error>> From<E> for Interruption {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

/// Enqueues the work of one step, all of whose inputs are enqueued. Does nothing if another thread
/// has materialised the nodes meanwhile.
fn materialise(session: &Session, Step { nodes, work }: &Step) -> Result<(), Interruption> {
    if !nodes.iter().any(|node| node.is_planned()) {
        return Ok(());
    }
    let nodes: SmallVec<[&NodeRef; 2]> = nodes.iter().collect();
    let (kernels, replacement) = match work {
        Work::Alias(source) => {
            nodes[0].store(memory_of(source)?);
            return Ok(());
        }
        Work::Kernels(kernels) => (kernels, None),
        Work::Replace(replacement) => (&replacement.copying, Some(&**replacement)),
    };
    let inputs = once_each(kernels.iter().flat_map(|kernel| &kernel.inputs));
    let stream = stream_for(session, &nodes, &inputs)?;
    if let Some(replacement) = replacement
        && replace_in_place(session, &stream, nodes[0], replacement)?
    {
        return Ok(());
    }
    store(session, &stream, &nodes, &inputs, |outputs| {
        let mut kernels = kernels.iter();
        kernels.try_for_each(|kernel| enqueue(session, &stream, kernel, outputs))
    })
}

/// Enqueues the work of one step of a kept plan, like [`materialise`].
fn materialise_kept(session: &Session, step: &KeptStep<'_>) -> Result<(), Interruption> {
    let nodes = step.nodes();
    if !nodes.iter().any(|node| node.is_planned()) {
        return Ok(());
    }
    let kernels = match step.work() {
        KeptWork::Alias(source) => {
            nodes[0].store(memory_of(source)?);
            return Ok(());
        }
        KeptWork::Kernels(kernels) => kernels,
    };
    let inputs = once_each(kernels.iter().flat_map(|kernel| kernel.inputs()));
    let stream = stream_for(session, &nodes, &inputs)?;
    store(session, &stream, &nodes, &inputs, |outputs| {
        let mut kernels = kernels.iter();
        kernels.try_for_each(|kernel| enqueue_kept(session, &stream, kernel, outputs))
    })
}

/// Returns the nodes that kernels read from memory, each once, oldest first.
fn once_each<'a>(inputs: impl Iterator<Item = &'a NodeRef>) -> SmallVec<[&'a NodeRef; 8]> {
    let mut inputs: SmallVec<[&NodeRef; 8]> = inputs.collect();
    inputs.sort_unstable_by_key(|node| node.id);
    inputs.dedup_by_key(|node| node.id);
    inputs
}

/// Returns the stream for the kernels that compute nodes and read others.
fn stream_for(session: &Session, nodes: &[&NodeRef], inputs: &[&NodeRef]) -> Result<Stream> {
    let operands: SmallVec<[u64; 8]> = inputs.iter().map(|node| node.id).collect();
    let nodes = nodes.iter().map(|node| node.id);
    session.streams().choose(nodes, &operands, || {
        // The newest result is the likeliest not to be complete yet.
        let stored = inputs.iter().rev().filter_map(|node| node.storage());
        let stored: SmallVec<[Arc<Storage>; 8]> = stored.collect();
        session.stream_behind(&stored)
    })
}

/// Stores nodes in new memory, which the kernels that `enqueue` enqueues write.
fn store(
    session: &Session,
    stream: &Stream,
    nodes: &[&NodeRef],
    inputs: &[&NodeRef],
    enqueue: impl FnOnce(&mut [&mut Buffer<u8>]) -> Result<()>,
) -> Result<(), Interruption> {
    // As long as this memory is held here, no other thread takes it for an update.
    let read: SmallVec<[Arc<Storage>; 8]> = inputs
        .iter()
        .map(|node| memory_of(node))
        .collect::<Result<_, _>>()?;
    let buffers = nodes.iter().map(|node| allocate(stream, node.bytes()));
    let mut buffers: SmallVec<[Buffer<u8>; 1]> = buffers.collect::<Result<_>>()?;
    if nodes.iter().any(|node| node.elements > 0) {
        let mut outputs: SmallVec<[&mut Buffer<u8>; 1]> = buffers.iter_mut().collect();
        enqueue(&mut outputs)?;
    }
    let checks = session.deferred_checks(read.iter().map(|storage| &**storage))?;
    for (node, buffer) in nodes.iter().zip(buffers) {
        let checks = checks.clone();
        node.store(Arc::new(Storage { buffer, checks }));
    }
    Ok(())
}

/// Enqueues a replacement in the memory of its base, unless something else needs the base. Returns
/// whether it did.
fn replace_in_place(
    session: &Session,
    stream: &Stream,
    node: &NodeRef,
    replacement: &Replacement,
) -> Result<bool, Interruption> {
    let kernel = &replacement.in_place;
    let read: SmallVec<[Arc<Storage>; 8]> = kernel
        .inputs
        .iter()
        .map(memory_of)
        .collect::<Result<_, _>>()?;
    let Some(mut taken) = TakenMemory::of(replacement) else {
        return Ok(false);
    };
    let storage = taken.storage_mut();
    let enqueued = enqueue(session, stream, kernel, &mut [&mut storage.buffer]).and_then(|()| {
        let read = read.iter().map(|storage| &**storage);
        session.deferred_checks(read.chain([&*storage]))
    });
    let checks = enqueued.inspect_err(|error| taken.error = Some(error.clone()))?;
    let storage = taken.finish();
    node.store(Arc::new(Storage { checks, ..storage }));
    Ok(true)
}

/// The memory of a base while elements in it are replaced. If that does not succeed, the base
/// fails, because its elements may have changed.
struct TakenMemory<'a> {
    base: &'a NodeRef,
    storage: Option<Storage>,
    error: Option<Error>,
}

impl<'a> TakenMemory<'a> {
    /// Takes the memory of the base, if only the replacement needs it.
    fn of(replacement: &'a Replacement) -> Option<Self> {
        let base = &replacement.base;
        Some(Self {
            base,
            storage: Some(base.take_storage(replacement.only_references()?)?),
            error: None,
        })
    }

    fn storage_mut(&mut self) -> &mut Storage {
        self.storage
            .as_mut()
            .expect("the memory is not handed on yet")
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
